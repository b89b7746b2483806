package tui

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/probe/inventory"
)

// home is the machine: its memories, the sessions, and the Python processes.
type home struct {
	sessions, processes *list
	inProcesses         bool // which of the two has the keys
	finished            bool // finished sessions too

	listed  []api.Listed
	known   bool // listed was read
	view    inventory.View
	viewed  bool
	reading map[string]bool // questions under way
	ticks   int
}

// listEvery is how many ticks pass between two lists of the sessions: each live one is asked, which takes it some ms.
const listEvery = 5

func newHome() *home {
	return &home{sessions: newList(), processes: newList(), reading: map[string]bool{}}
}

func (h *home) name() string { return "this machine" }
func (h *home) close()       {}
func (h *home) typing() bool { return h.sessions.filtering || h.processes.filtering }

func (h *home) keys() []binding {
	return append([]binding{{"enter", "open the session", "open"}, {"tab", "sessions or processes", "panel"},
		{"a", "attach to the Python process: observe it from now on", "attach"},
		{"f", "finished sessions too, or not", "finished"}, {"r", "read anew", ""}}, listKeys...)
}

func (h *home) start(m *model) tea.Cmd { return tea.Batch(h.readMachine(m), h.readSessions(m)) }

func (h *home) tick(m *model) tea.Cmd {
	h.ticks++
	if h.ticks%listEvery == 0 || !h.known {
		return tea.Batch(h.readMachine(m), h.readSessions(m))
	}
	return h.readMachine(m)
}

type sessionsAnswer struct {
	list []api.Listed
	all  bool
}

func (h *home) readMachine(m *model) tea.Cmd {
	if h.reading["machine"] {
		return nil
	}
	h.reading["machine"] = true
	return m.ask(h, func(ctx context.Context) any {
		v, err := m.o.Doors.Machine(ctx)
		if err != nil {
			return failure{"read the machine", err}
		}
		return v
	})
}

func (h *home) readSessions(m *model) tea.Cmd {
	if h.reading["sessions"] {
		return nil
	}
	h.reading["sessions"] = true
	all := h.finished
	return m.ask(h, func(ctx context.Context) any {
		list, err := m.o.Doors.Sessions(ctx, all)
		if err != nil {
			return failure{"list the sessions", err}
		}
		return sessionsAnswer{list, all}
	})
}

type openedAnswer struct {
	s   api.Session
	pid int
}

type attachedAnswer struct{ session, dir string }

func (h *home) took(m *model, got any) tea.Cmd {
	switch got := got.(type) {
	case inventory.View:
		h.view, h.viewed = got, true
		delete(h.reading, "machine")
	case sessionsAnswer:
		h.listed, h.known = got.list, true
		delete(h.reading, "sessions")
		if got.all != h.finished {
			return h.readSessions(m)
		}
	case openedAnswer:
		delete(h.reading, "open")
		if m.top() != h { // the user went elsewhere meanwhile
			got.s.Close()
			return nil
		}
		return m.enter(newSession(got.s, got.pid, 0))
	case attachedAnswer:
		delete(h.reading, "open")
		m.say("attached: session "+safe(got.session)+"; Enter opens it", false)
		return h.readSessions(m)
	case failure:
		clear(h.reading)
	}
	return nil
}

func (h *home) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	l, orders := h.sessions, len(sessionOrders)
	if h.inProcesses {
		l, orders = h.processes, len(processOrders)
	}
	if l.key(k, orders) {
		return nil
	}
	switch k.String() {
	case "tab", "shift+tab", "left", "right":
		h.inProcesses = !h.inProcesses
	case "f":
		h.finished = !h.finished
		return h.readSessions(m)
	case "r":
		clear(h.reading)
		return h.start(m)
	case "enter":
		return h.open(m)
	case "a":
		return h.attach(m)
	}
	return nil
}

func (h *home) mouse(m *model, e tea.Mouse, wheel int) tea.Cmd {
	if wheel != 0 {
		if h.inProcesses {
			h.processes.move(wheel)
		} else {
			h.sessions.move(wheel)
		}
		return nil
	}
	for _, l := range []*list{h.sessions, h.processes} {
		if hit, again := l.click(e.Y); hit {
			was := h.inProcesses
			h.inProcesses = l == h.processes
			if again && was == h.inProcesses {
				return h.open(m)
			}
		}
	}
	return nil
}

// open opens the session that is chosen, or that the chosen process belongs to.
func (h *home) open(m *model) tea.Cmd {
	dir, pid := h.sessions.chosen, 0
	if h.inProcesses {
		pid, _ = strconv.Atoi(h.processes.chosen)
		s := h.sessionOf(pid)
		if s == nil {
			if pid != 0 {
				m.say("not observed: a attaches to it", false)
			}
			return nil
		}
		dir = s.Dir
	}
	if dir == "" || h.reading["open"] {
		return nil
	}
	h.reading["open"] = true
	return m.ask(h, func(ctx context.Context) any {
		s, err := m.o.Doors.Open(ctx, dir)
		if err != nil {
			return failure{"open the session", err}
		}
		return openedAnswer{s, pid}
	})
}

func (h *home) attach(m *model) tea.Cmd {
	pid, _ := strconv.Atoi(h.processes.chosen)
	i := slices.IndexFunc(h.view.Processes, func(p inventory.Process) bool { return p.PID == pid })
	switch {
	case !h.inProcesses || i < 0:
		m.say("choose a Python process first: Tab goes to them", false)
		return nil
	case h.sessionOf(pid) != nil:
		m.say("observed already: Enter opens its session", false)
		return nil
	case h.reading["open"]:
		return nil
	}
	label := cut(safe(h.view.Processes[i].Label()), 30)
	m.question = &question{fmt.Sprintf("Attach to %d (%s)? It stops for some milliseconds.", pid, label),
		func() tea.Cmd {
			h.reading["open"] = true
			return m.ask(h, func(ctx context.Context) any {
				name, dir, err := m.o.Doors.Attach(ctx, pid)
				if err != nil {
					return failure{"attach", err}
				}
				return attachedAnswer{name, dir}
			})
		}}
	return nil
}

func (h *home) sessionOf(pid int) *api.Listed {
	for i, s := range h.listed {
		if s.Ended.IsZero() && slices.Contains(s.PIDs, pid) {
			return &h.listed[i]
		}
	}
	return nil
}

func (h *home) draw(m *model, wide, high int) []string {
	observed := 0
	for _, p := range h.view.Processes {
		if h.sessionOf(p.PID) != nil {
			observed++
		}
	}
	head := paint(title, " memgauge top") + "  this machine"
	if h.viewed {
		head += paint(faint, fmt.Sprintf("  %s, %d observed", doc.Plural(len(h.view.Processes)+h.view.More,
			"Python process"), observed))
		head = strings.ReplaceAll(head, "processs", "processes")
	}
	lines := []string{ends(head, paint(faint, m.o.now().In(m.o.Location).Format("15:04:05")+" "), wide)}
	if !h.viewed {
		return append(lines, "", paint(faint, " reading the machine …"))
	}
	lines = append(lines, h.bars(wide, max(2, high/3))...)
	left := high - len(lines)
	sessions := min(max(4, len(h.listed)+3), left/2)
	lines = append(lines, rule(h.sessionsTitle(), wide))
	lines = append(lines, h.drawSessions(m, wide, sessions-1, len(lines))...)
	for len(lines) < high-left+sessions {
		lines = append(lines, "")
	}
	lines = append(lines, rule("Python processes, "+processOrders[h.processes.sort%len(processOrders)].name, wide))
	return append(lines, h.drawProcesses(wide, high-len(lines), len(lines))...)
}

func (h *home) sessionsTitle() string {
	t := "live sessions"
	if h.finished {
		t = "sessions, live and finished"
	}
	return t + ", " + sessionOrders[h.sessions.sort%len(sessionOrders)].name
}

// bars are the machine's memories with their limits, the fullest GPUs first where there is no room for all.
func (h *home) bars(wide, most int) []string {
	v := h.view
	list := []limit{{name: "host", used: v.Host.Total - v.Host.Available, total: v.Host.Total}}
	for _, g := range v.GPUs {
		note := ""
		if g.Busy >= 0 {
			note = fmt.Sprintf("%d %% busy", g.Busy)
		}
		if g.Celsius >= 0 {
			note += fmt.Sprintf(" %d °C", g.Celsius)
		}
		if g.State != "ok" && g.State != "" {
			note = safe(g.State)
		}
		list = append(list, limit{name: "GPU " + strconv.Itoa(g.ID), used: g.Used, total: g.Total,
			note: strings.TrimSpace(note + " " + safe(g.Name))})
	}
	for _, c := range v.Cgroups {
		list = append(list, limit{name: "cgroup", used: max(0, c.Current-c.Free), total: c.Limit,
			note: safe(c.LimitPath)})
	}
	if v.Host.SwapTotal > 0 {
		list = append(list, limit{name: "swap", used: v.Host.SwapUsed, total: v.Host.SwapTotal})
	}
	return drawLimits(list, wide, most)
}

var sessionOrders = []struct {
	name string
	less func(h *home, a, b api.Listed) int
}{
	{"newest first", func(_ *home, a, b api.Listed) int { return b.Started.Compare(a.Started) }},
	{"by memory", func(h *home, a, b api.Listed) int { return cmp.Compare(h.memoryOf(b), h.memoryOf(a)) }},
	{"by name", func(_ *home, a, b api.Listed) int { return strings.Compare(a.Name, b.Name) }},
	{"by disk", func(_ *home, a, b api.Listed) int { return cmp.Compare(b.DiskBytes, a.DiskBytes) }},
}

// memoryOf is what a live session's Python processes have resident, and of one that is over what the largest held at
// most; -1 where that is not known.
func (h *home) memoryOf(s api.Listed) int64 {
	if !s.Ended.IsZero() {
		return cmp.Or(s.Peak, -1)
	}
	sum := int64(-1)
	for _, p := range h.view.Processes {
		if slices.Contains(s.PIDs, p.PID) && p.RSS > 0 {
			sum = max(sum, 0) + p.RSS
		}
	}
	return sum
}

var sessionColumns = []column{{name: "session", wide: 16}, {name: "state", wide: 12}, {name: "verdict", wide: 9},
	{name: "memory", wide: 9, right: true},
	{name: "ranks", wide: 5, right: true, from: 90}, {name: "disk", wide: 9, right: true, from: 100},
	{name: "started", wide: 9, right: true, from: 70}, {name: "command"}}

var verdictColours = map[string]colour{"leak": alarm, "healthy": fine, "undecided": yellow}

func (h *home) drawSessions(m *model, wide, high, line int) []string {
	if !h.known {
		return []string{paint(faint, " asking them …")}
	}
	list := slices.Clone(h.listed)
	by := sessionOrders[h.sessions.sort%len(sessionOrders)].less
	order.Stable(list, func(a, b api.Listed) int {
		if h.sessions.reverse {
			a, b = b, a
		}
		return by(h, a, b)
	})
	var items []item
	for _, s := range list {
		state := safe(s.State)
		if s.State == "running" {
			state = paint(fine, "● running")
		}
		command := safe(strings.Join(s.Command, " "))
		items = append(items, item{key: s.Dir, text: s.Name + " " + s.State + " " + s.Verdict + " " + command,
			cells: []string{safe(s.Name), state, paint(verdictColours[s.Verdict], safe(s.Verdict)),
				size(h.memoryOf(s)), strconv.Itoa(max(1, len(s.Ranks))),
				size(s.DiskBytes), units.Age(s.Started, m.o.now()), safe(brief(s.Command))}})
	}
	if len(items) == 0 {
		text := " none; memgauge run -- python train.py starts one, a attaches to a process below, f: finished ones"
		if h.finished {
			text = " none yet; memgauge run -- python train.py starts one"
		}
		h.sessions.point(nil)
		return []string{paint(faint, text)}
	}
	return h.sessions.draw(sessionColumns, items, wide, high, line, !h.inProcesses)
}

// brief is a command line whose programs and scripts have lost their directories: there is room for their names.
func brief(argv []string) string {
	words := slices.Clone(argv)
	for i, w := range words {
		if i == 0 || strings.HasPrefix(w, "/") || strings.HasSuffix(w, ".py") {
			words[i] = path.Base(w)
		}
	}
	return strings.Join(words, " ")
}

var processOrders = []struct {
	name string
	less func(a, b inventory.Process) int
}{
	{"largest first", func(a, b inventory.Process) int { return cmp.Compare(b.RSS, a.RSS) }},
	{"by GPU memory", func(a, b inventory.Process) int { return cmp.Compare(b.GPU, a.GPU) }},
	{"by CPU", func(a, b inventory.Process) int { return cmp.Compare(b.CPU, a.CPU) }},
	{"by PID", func(a, b inventory.Process) int { return cmp.Compare(a.PID, b.PID) }},
	{"newest first", func(a, b inventory.Process) int { return cmp.Compare(a.Age, b.Age) }},
}

var processColumns = []column{{name: "pid", wide: 8, right: true}, {name: "memory", wide: 9, right: true},
	{name: "swap", wide: 9, right: true, from: 110}, {name: "GPU", wide: 9, right: true, from: 90},
	{name: "CPU", wide: 5, right: true}, {name: "age", wide: 12, right: true, from: 70},
	{name: "observed in", wide: 16},
	{name: "command"}}

func (h *home) drawProcesses(wide, high, line int) []string {
	list := slices.Clone(h.view.Processes)
	by := processOrders[h.processes.sort%len(processOrders)].less
	order.Stable(list, func(a, b inventory.Process) int {
		if h.processes.reverse {
			a, b = b, a
		}
		return by(a, b)
	})
	var items []item
	for _, p := range list {
		observed := ""
		if s := h.sessionOf(p.PID); s != nil {
			observed = paint(fine, safe(s.Name))
		}
		command := safe(strings.Join(p.Argv, " "))
		items = append(items, item{key: strconv.Itoa(p.PID), text: fmt.Sprint(p.PID, " ", command, " ", observed),
			cells: []string{strconv.Itoa(p.PID), size(p.RSS), size(p.Swap), size(cmp.Or(p.GPU, -1)), percent(p.CPU),
				units.Duration(p.Age.Truncate(time.Second)).String(), observed, safe(brief(p.Argv))}})
	}
	if len(items) == 0 {
		h.processes.point(nil)
		return []string{paint(faint, " none")}
	}
	return h.processes.draw(processColumns, items, wide, high, line, h.inProcesses)
}
