package tui

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// sessionScreen shows a session: its processes, memories, floors, verdict, holders and events at one moment.
type sessionScreen struct {
	s       api.Session
	rec     *recording
	read    reader
	time    timeline
	procs   *list
	panel   int // which of panels the narrow screen shows
	scroll  int // of the panel
	reading bool
	asking  bool // for holders
	first   int  // pid to point at
	replay  bool // begin to play when the recording is there

	holders   []questions.Holder
	holdersAt int64 // µs: the moment they were asked for
	foreseen  map[string]limit
	ticks     int
	after     int  // reads since the session has ended
	settled   bool // nothing comes any more
}

func newSession(s api.Session, pid int, speed float64) *sessionScreen {
	x := &sessionScreen{s: s, read: reader{s: s}, procs: newList(), first: pid, replay: speed > 0}
	x.time = timeline{follow: true, speed: 1}
	if speed > 0 {
		x.time.speed = speed
	}
	return x
}

func (x *sessionScreen) name() string {
	if x.rec == nil {
		return "the session"
	}
	return "session " + safe(x.rec.about.Name)
}

func (x *sessionScreen) close()       { x.s.Close() }
func (x *sessionScreen) typing() bool { return x.procs.filtering }

func (x *sessionScreen) keys() []binding {
	keys := []binding{{"enter", "open the process", "open"}, {"tab", "holders, events or findings", "panel"},
		{"space", "freeze, or play on", "freeze"},
		{"← →", "back and forth in time; with shift ten times as far", "time"},
		{"+ -", "less or more of the time", "zoom"}, {"home end", "the beginning, the newest", ""},
		{"p", "replay, from the beginning when at the end", "replay"}, {", .", "slower, faster replay", ""},
		{"[ ]", "scroll the panel", ""}}
	return append(keys, listKeys...)
}

type begunAnswer struct {
	about api.About
	b     batch
}

type holdersAnswer struct {
	list []questions.Holder
	at   int64
}

type outlookAnswer map[string]limit

type playStep struct{}

func (x *sessionScreen) start(m *model) tea.Cmd {
	x.reading = true
	return m.ask(x, func(ctx context.Context) any {
		about, err := x.s.About(ctx)
		if err != nil {
			return failure{"read the session", err}
		}
		b, err := x.read.read(ctx)
		if err != nil {
			return failure{"read the session", err}
		}
		return begunAnswer{about, b}
	})
}

// outlookEvery is how many ticks pass between two outlooks of a live session: each reads all that is recorded.
const outlookEvery = 20

func (x *sessionScreen) tick(m *model) tea.Cmd {
	if x.reading {
		return nil
	}
	if x.rec == nil {
		return x.start(m)
	}
	if x.settled {
		return x.askHolders(m)
	}
	if !x.rec.end.Live {
		x.read.ticks = 0 // the tree and the verdict too
	}
	x.reading = true
	x.ticks++
	read := m.ask(x, func(ctx context.Context) any {
		b, err := x.read.read(ctx)
		if err != nil {
			return failure{"read the session", err}
		}
		return b
	})
	if x.ticks%outlookEvery == 1 && x.time.follow {
		return tea.Batch(read, x.askOutlook(m))
	}
	return read
}

func (x *sessionScreen) took(m *model, got any) tea.Cmd {
	switch got := got.(type) {
	case begunAnswer:
		x.reading = false
		x.rec = newRecording(got.about)
		x.rec.take(got.b)
		x.settled = !got.b.end.Live
		x.begin(m)
		if x.time.playing {
			return tea.Batch(x.askHolders(m), x.nextStep(m))
		}
		return x.askHolders(m)
	case batch:
		x.reading = false
		x.settle(got.end)
		x.rec.take(got)
		return x.askHolders(m)
	case holdersAnswer:
		x.asking, x.holders, x.holdersAt = false, got.list, got.at
		if x.time.playing { // the replay has gone on meanwhile; the next tick asks again
			return nil
		}
		return x.askHolders(m)
	case outlookAnswer:
		x.foreseen = got
	case playStep:
		x.time.step(x.rec, m.o.now())
		if x.time.playing {
			return x.nextStep(m)
		}
	case failure:
		x.reading, x.asking = false, false
	}
	return nil
}

// settleReads are made at most of a session that has ended, until its collector has recorded all of it.
const settleReads = 30

// settle ends the reading of a session that is over: once its end was final before what has just been read.
func (x *sessionScreen) settle(end api.End) {
	if end.Live {
		return
	}
	x.after++
	x.settled = x.rec.end.Final || x.after > settleReads
}

// begin points at the process that was named, and starts a replay that was wanted.
func (x *sessionScreen) begin(m *model) {
	if x.first != 0 {
		x.procs.chosen, x.procs.picked = strconv.Itoa(x.first), true
	}
	if x.replay && x.rec.last > 0 {
		x.time.play(x.rec, m.o.now())
	}
}

// stepEvery of a replay: ten frames a second are smooth on a terminal.
const stepEvery = 100 * time.Millisecond

func (x *sessionScreen) nextStep(m *model) tea.Cmd {
	return m.after(stepEvery, answer{x, playStep{}})
}

func (x *sessionScreen) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	if x.rec == nil || x.procs.key(k, len(treeOrders)) {
		return nil
	}
	switch k.String() {
	case "enter":
		return x.enter(m)
	case "tab":
		x.panel, x.scroll = (x.panel+1)%len(panels), 0
		return nil
	case "[":
		x.scroll = max(0, x.scroll-1)
		return nil
	case "]":
		x.scroll++
		return nil
	}
	return x.timeKey(m, k.String())
}

// timeKey answers the keys that move in time, here and in a process.
func (x *sessionScreen) timeKey(m *model, key string) tea.Cmd {
	t, r := &x.time, x.rec
	switch key {
	case "space":
		switch {
		case t.playing || t.follow && r.end.Live:
			t.freeze(r)
		case r.end.Live:
			t.follow = true
		default:
			return x.playOn(m)
		}
	case "p":
		return x.playOn(m)
	case "left":
		t.scroll(r, -0.02)
	case "right":
		t.scroll(r, 0.02)
	case "shift+left", "<":
		t.scroll(r, -0.2)
	case "shift+right", ">":
		t.scroll(r, 0.2)
	case "+", "=":
		t.zoom(r, 0.5)
	case "-":
		t.zoom(r, 2)
	case "home":
		t.freeze(r)
		t.cursor = r.first
	case "end":
		t.follow, t.playing = true, false
	case ",":
		t.faster(0.5)
		m.say(fmt.Sprintf("replay at %g×", t.speed), false)
	case ".":
		t.faster(2)
		m.say(fmt.Sprintf("replay at %g×", t.speed), false)
	default:
		return nil
	}
	return x.askHolders(m)
}

func (x *sessionScreen) playOn(m *model) tea.Cmd {
	was := x.time.playing
	x.time.play(x.rec, m.o.now())
	if x.time.playing && !was {
		return x.nextStep(m)
	}
	return nil
}

func (x *sessionScreen) mouse(m *model, e tea.Mouse, wheel int) tea.Cmd {
	switch {
	case x.rec == nil:
	case wheel != 0 && e.Mod.Contains(tea.ModCtrl):
		x.time.zoom(x.rec, map[bool]float64{true: 2, false: 0.5}[wheel > 0])
	case wheel != 0 && e.Y >= x.procs.top-1:
		x.procs.move(wheel)
	case wheel != 0:
		return x.timeKey(m, map[bool]string{true: "right", false: "left"}[wheel > 0])
	default:
		if hit, again := x.procs.click(e.Y); hit && again {
			return x.enter(m)
		}
	}
	return nil
}

func (x *sessionScreen) enter(m *model) tea.Cmd {
	pid, err := strconv.Atoi(x.procs.chosen)
	if err != nil || x.rec.procs[pid] == nil {
		return nil
	}
	return m.enter(newProcess(x, pid))
}

// chosen is the process that the list points at, else the foremost.
func (x *sessionScreen) chosen() *process {
	if pid, err := strconv.Atoi(x.procs.chosen); err == nil && x.rec.procs[pid] != nil {
		return x.rec.procs[pid]
	}
	return x.rec.foremost(x.time.at(x.rec))
}

// askHolders asks for the censuses of the moment that is shown, unless it has them.
func (x *sessionScreen) askHolders(m *model) tea.Cmd {
	at := x.time.at(x.rec)
	near := int64(1e6)
	if x.time.follow && x.rec.end.Live {
		near = 5e6 // censuses are rare
	}
	if x.asking || at == 0 || x.holdersAt != 0 && max(at-x.holdersAt, x.holdersAt-at) < near {
		return nil
	}
	x.asking = true
	return m.ask(x, func(ctx context.Context) any {
		list, err := api.Ask(ctx, x.s, questions.Holders(at))
		if err != nil {
			return failure{"read the censuses", err}
		}
		return holdersAnswer{list, at}
	})
}

// askOutlook asks when memory runs out.
func (x *sessionScreen) askOutlook(m *model) tea.Cmd {
	return m.ask(x, func(ctx context.Context) any {
		report, err := x.s.OOM(ctx, api.OOMRequest{})
		if err != nil || report == nil {
			return outlookAnswer{} // the bars do without
		}
		out := outlookAnswer{}
		for id, d := range report.Devices {
			if r := d.Risk; r != nil && r.Seconds != nil {
				l := limit{seconds: float64(*r.Seconds)}
				if r.SecondsLow != nil && r.SecondsHigh != nil {
					l.low, l.high = float64(*r.SecondsLow), float64(*r.SecondsHigh)
				}
				out[id] = l
			}
		}
		return out
	})
}

// here makes a site of the user's own code short: relative to where the command ran.
func (x *sessionScreen) here(site string) string {
	return safe(strings.TrimPrefix(site, strings.TrimSuffix(x.rec.about.Cwd, "/")+"/"))
}
