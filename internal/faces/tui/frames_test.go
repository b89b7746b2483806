package tui

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/probe/inventory"
)

const gib = 1 << 30

// A finished session with a leak, as it was recorded, on a small terminal and on a large one.
func TestSessionFrames(t *testing.T) {
	drive(t, Options{Session: load(t)}, 80, 24).golden("session-80x24")
	drive(t, Options{Session: load(t)}, 200, 50).golden("session-200x50")
	d := drive(t, Options{Session: load(t)}, 80, 24)
	d.keys("<tab>").golden("events-80x24")
	d.keys("?").golden("help-80x24")
}

// Going back in time shows the session as it was then: fewer steps, no verdict yet, and how far it is from the end.
func TestTimeTravel(t *testing.T) {
	d := drive(t, Options{Session: load(t)}, 80, 24)
	d.has("■ end", "step 6,000", "LEAK")
	d.keys("<home>").has("no verdict yet", "before the end")
	if strings.Contains(d.frame(), "step 6,000") {
		t.Errorf("at the beginning:\n%s", d.frame())
	}
	for range 20 {
		d.keys("<right>")
	}
	d.golden("frozen-80x24")
	d.keys("<end>").has("■ end", "step 6,000")
	d.keys("+++").has("last 12")
	d.keys("---").has("last 1 min 3")
}

// A replay goes on by the clock times its speed, and stops at the end.
func TestReplay(t *testing.T) {
	d := drive(t, Options{Session: load(t), Speed: 10}, 80, 24)
	d.has("▶ 10×")
	x := d.m.top().(*sessionScreen)
	begin, clock := x.time.cursor, d.m.o.now()
	d.m.o.now = func() time.Time { return clock.Add(2 * time.Second) }
	d.send(answer{x, playStep{}})
	if got := x.time.cursor - begin; got != 20e6 {
		t.Errorf("after 2 s at 10×: %d µs further", got)
	}
	d.keys(".").has("20×")
	d.keys("<space>").has("❚❚")
	d.keys("p")
	d.m.o.now = func() time.Time { return clock.Add(time.Hour) }
	d.send(answer{x, playStep{}})
	d.has("■ end")
}

// The levels: a process of the session, its tabs, and back again up to the machine, which closes the session.
func TestLevels(t *testing.T) {
	s := load(t)
	d := drive(t, Options{Session: s}, 80, 24)
	d.keys("<enter>").golden("process-80x24")
	d.keys("2").has("no stacks: the session is over")
	d.keys("3").has("no code can be run: the session is over")
	d.keys("<esc>").has("who holds it")
	d.keys("<esc>").has("this machine")
	if !s.closed {
		t.Error("the session is open still")
	}
	d.keys("<esc>").has("this machine")
}

// A live process: stacks, code with output, value and exception, a census.
func TestLiveProcess(t *testing.T) {
	s := load(t)
	s.tape.End = api.End{Live: true}
	s.tape.Answers["tree"] = []byte(strings.ReplaceAll(string(s.tape.Answers["tree"]), `"ended":true`, `"ended":false`))
	s.stacks = api.BacktraceReply{Processes: []api.Stacks{{Threads: []api.Thread{{TID: 5, Name: "MainThread",
		Python: true, Frames: []api.Frame{{Func: "step", File: "/srv/project/train.py", Line: 12}}}}}}}
	s.eval = func(q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error) {
		if err := out.Print(0, false, []byte("printed\x1b]0;title\x07\n")); err != nil {
			return api.EvalReply{}, err
		}
		if q.Code == "1/0" {
			return api.EvalReply{Results: []api.EvalResult{{Outcome: api.Exception,
				Exception: "ZeroDivisionError\n"}}}, nil
		}
		return api.EvalReply{Results: []api.EvalResult{{Outcome: api.Fine, Value: "got " + q.Code}}}, nil
	}
	d := drive(t, Options{Session: s}, 80, 24)
	d.has("● live")
	d.keys("<enter>", "2").has("MainThread", "step  train.py:12")
	d.keys("3", "len(q)?", "<enter>").has(">>> len(q)?", "got len(q)?", `printed\x1b]0;title\x07`)
	d.keys("1/0", "<enter>").has("ZeroDivisionError")
	d.keys("<up>").has(">>> 1/0")
	d.keys("<esc>", "c").has("census 7: 1,234 objects seen")
	d.send(tickMsg{})
	d.keys("<esc>", "<space>").has("❚❚")
	d.keys("<space>").has("● live")
}

func machineView() inventory.View {
	return inventory.View{Time: time.Unix(0, 0), Host: inventory.Host{Total: 64 * gib, Available: 48 * gib,
		SwapTotal: 8 * gib, SwapUsed: 1 * gib},
		Cgroups: []inventory.Cgroup{{Path: "/job/a", LimitPath: "/job", Current: 15 * gib, Limit: 16 * gib,
			Processes: 2}},
		GPUs: []inventory.GPU{{ID: 0, Name: "NVIDIA A100-SXM4-80GB", Used: 70 * gib, Total: 80 * gib, Busy: 97,
			Celsius: 61, MilliWatt: 1, State: "ok"}, {ID: 1, Name: "NVIDIA A100", Used: -1, Total: -1, Busy: -1,
			Celsius: -1, State: "lost: no answer from the driver"}},
		Processes: []inventory.Process{
			{PID: 100, RSS: 9 * gib, GPU: 70 * gib, CPU: 1.02, Age: time.Hour,
				Argv: []string{"python", "train.py", "--lr=1"}},
			{PID: 200, RSS: gib, CPU: -1, Age: time.Minute, Argv: []string{"/usr/bin/python3", "-m", "http.server"}}}}
}

// The machine: bars, sessions, processes; attaching asks first, and only where nobody observes.
func TestMachine(t *testing.T) {
	started := time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)
	s := load(t)
	h := &house{view: machineView(), sessions: map[string]api.Session{"/s/a": s}, list: []api.Listed{
		{Dir: "/s/a", Name: "resnet", State: "running", Verdict: "leak", PIDs: []int{100},
			Ranks: []int{0, 1}, Started: started,
			Command: []string{"torchrun", "train.py"}, DiskBytes: 1 << 20},
		{Dir: "/s/b", Name: "old", State: "exit 0", Verdict: "healthy", Peak: 2 * gib,
			Started: started.Add(-time.Hour), Ended: started,
			Command: []string{"python", "x.py"}, DiskBytes: 1 << 20}}}
	d := drive(t, Options{Doors: h}, 100, 30)
	d.golden("machine-100x30")
	d.keys("a").has("choose a Python process first")
	d.keys("<tab>", "a").has("observed already")
	d.keys("<down>", "a").has("Attach to 200 (-m http.server)?", "y/N")
	if d.keys("n"); len(h.attached) != 0 {
		t.Error("attached without a yes")
	}
	d.keys("a", "y").has("attached: session new")
	if len(h.attached) != 1 || h.attached[0] != 200 {
		t.Errorf("attached to %v", h.attached)
	}
	h.err = errors.New("ptrace: operation not permitted")
	d.keys("a", "y").has("attach: ptrace: operation not permitted")
	h.err = nil
	d.keys("/server", "<enter>")
	if strings.Contains(d.frame(), "train.py --lr=1") {
		t.Errorf("the filter shows what it should not:\n%s", d.frame())
	}
	d.keys("/", "<esc>", "<up>", "<enter>").has("step 6,000")
}

// On 80 columns every screen says how to leave it and where all its keys are; the advice about a leak is read whole.
func TestNothingIsCutAt80Columns(t *testing.T) {
	session := drive(t, Options{Session: load(t)}, 80, 24)
	process := drive(t, Options{Session: load(t)}, 80, 24)
	process.keys("<enter>")
	for _, d := range []*driver{drive(t, Options{Doors: &house{view: machineView()}}, 80, 24), session, process} {
		d.has(" ? keys", " q quit")
	}
	session.has(" at /usr/examples/outputs.py:28", "tab panel")
	session.keys("<tab>", "<tab>").has("findings")
	flat := ""
	for range 12 { // scrolled to its end, the panel has each word of the advice
		flat += session.frame()
		session.keys("]")
	}
	words := strings.Join(strings.Fields(flat), " ")
	if want := "and clear it at the end of each epoch, or bound it"; !strings.Contains(words, want) {
		t.Errorf("the advice does not go on to %q:\n%s", want, session.frame())
	}
}

// The mouse chooses, opens with a second click, and scrolls.
func TestMouse(t *testing.T) {
	h := &house{view: machineView(), sessions: map[string]api.Session{"/s/a": load(t)}, list: []api.Listed{
		{Dir: "/s/a", Name: "resnet", State: "running", PIDs: []int{100}}}}
	d := drive(t, Options{Doors: h, Mouse: true}, 80, 24)
	row := -1
	for y, l := range strings.Split(d.frame(), "\n") {
		if strings.HasPrefix(l, "resnet") {
			row = y
		}
	}
	d.send(tea.MouseClickMsg{X: 3, Y: row, Button: tea.MouseLeft})
	d.has("step 6,000") // it was chosen already
	d.send(tea.MouseWheelMsg{X: 3, Y: 5, Button: tea.MouseWheelUp})
	d.has("❚❚")
}

// Every screen at every size: no line is wider than the terminal, none too many, nothing panics.
func TestSizes(t *testing.T) {
	h := &house{view: machineView(), list: []api.Listed{{Dir: "/s/a", Name: "resnet", State: "running"}}}
	s := drive(t, Options{Session: load(t)}, 80, 24)
	p := drive(t, Options{Session: load(t)}, 80, 24)
	p.keys("<enter>")
	for _, d := range []*driver{drive(t, Options{Doors: h}, 80, 24), s, p} {
		for wide := 1; wide < 260; wide += 29 {
			for high := 1; high < 70; high += 9 {
				d.send(tea.WindowSizeMsg{Width: wide, Height: high})
				lines := d.m.lines()
				if len(lines) > high {
					t.Fatalf("%s at %d×%d: %d lines", d.m.top().name(), wide, high, len(lines))
				}
				for _, l := range lines {
					if w := width(l); w > wide {
						t.Fatalf("%s at %d×%d: a line of %d columns: %q", d.m.top().name(), wide, high, w, l)
					}
				}
			}
		}
	}
}

const evil = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\r\nrm -rf\x9b31m\xff"

// steers finds what a frame must not have: control characters other than our own colours.
func steers(frame string) error {
	if !utf8.ValidString(frame) {
		return errors.New("bytes that are no UTF-8")
	}
	for _, r := range strip(frame) {
		if plain.Steers(r) && r != '\n' {
			return fmt.Errorf("%U in the frame", r)
		}
	}
	for _, part := range strings.Split(frame, "\x1b")[1:] {
		if end := strings.IndexByte(part, 'm'); !strings.HasPrefix(part, "[") || end < 0 ||
			strings.Trim(part[1:end], "0123456789;") != "" {
			return fmt.Errorf("an escape sequence that is not a colour: %.20q", part)
		}
	}
	return nil
}

// What a trainer can choose (names, command lines, holders, sites, events) never reaches the terminal as it is.
func TestForeignTextIsSafe(t *testing.T) {
	s := load(t)
	quoted, _ := json.Marshal(evil)
	for kind, b := range s.tape.Answers {
		for _, field := range []string{"name", "text", "command", "role", "holder", "site", "held", "memory", "reason",
			"advice", "limit_name"} {
			b = replaceField(b, field, string(quoted))
		}
		s.tape.Answers[kind] = b
	}
	s.tape.About.Name = evil
	s.tape.About.Cwd = evil
	s.tape.End.Text = evil
	view := machineView()
	view.Processes[0].Argv = []string{evil, evil}
	view.GPUs[0].Name, view.GPUs[1].State, view.Cgroups[0].LimitPath = evil, evil, evil
	h := &house{view: view, sessions: map[string]api.Session{"/s/a": s}, err: nil, list: []api.Listed{{Dir: "/s/a",
		Name: evil, State: evil, Command: []string{evil}, PIDs: []int{100}}}}
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		d := drive(t, Options{Doors: h}, size[0], size[1])
		look := func() {
			t.Helper()
			if err := steers(strings.Join(d.m.lines(), "\n")); err != nil {
				t.Errorf("%s: %v", d.m.top().name(), err)
			}
		}
		look()
		d.keys("<tab>", "<down>", "a")
		look()
		d.keys("n", "<tab>", "<enter>")
		for range panels {
			look()
			d.keys("<tab>")
		}
		d.keys("<enter>", "?")
		look()
		d.keys("x", "1")
		look()
		h.err = errors.New(evil)
		d.keys("<esc>", "<esc>", "r")
		look()
		h.err = nil
	}
}

// replaceField gives each text field of a name another text.
func replaceField(ndjson []byte, field, quoted string) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(ndjson)) {
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if v, ok := m[field]; ok && len(v) > 0 && v[0] == '"' {
			m[field] = json.RawMessage(quoted)
		}
		b, _ := json.Marshal(m)
		out.Write(append(b, '\n'))
	}
	return []byte(out.String())
}

// Rows of any content leave the screens standing.
func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"k":"m","t":5,"id":1,"f":7}`+"\n"+`{"k":"s","t":6,"id":1,"a":3}`), int64(5), uint8(80), uint8(24))
	f.Add([]byte(`{"k":"c","t":5,"name":"/a","a":-1,"b":9223372036854775807}`), int64(-1), uint8(200), uint8(50))
	f.Fuzz(func(t *testing.T, ndjson []byte, cursor int64, wide, high uint8) {
		x := newSession(&recorded{}, 0, 0)
		x.rec = newRecording(api.About{})
		var b batch
		for line := range strings.Lines(string(ndjson)) {
			var r questions.Row
			if json.Unmarshal([]byte(line), &r) == nil {
				b.rows = append(b.rows, r)
			}
		}
		x.rec.take(b)
		x.time.follow, x.time.cursor = cursor%2 == 0, cursor
		m := newModel(t.Context(), Options{Doors: &house{}, Location: time.UTC})
		m.stack = append(m.stack, x)
		m.wide, m.high = int(wide), int(high)
		frame := strings.Join(m.lines(), "\n")
		if err := steers(frame); err != nil {
			t.Error(err)
		}
	})
}
