package tui

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/door/api"
)

// pressed tries one line of the help.
type pressed struct {
	listed string // the keys as they stand there
	try    func(d *driver)
}

// tryKeys presses each key that the help of a screen lists once, and fails where one was not tried.
func tryKeys(t *testing.T, fresh func(t *testing.T) *driver, tries []pressed) {
	t.Helper()
	d := fresh(t)
	var listed, tried []string
	for _, k := range append(slices.Clone(d.m.top().keys()), commonKeys...) {
		listed = append(listed, k.key)
	}
	d.keys("?")
	for _, p := range tries {
		tried = append(tried, p.listed)
		if !strings.Contains(d.frame(), p.listed) {
			t.Errorf("the help does not have %q:\n%s", p.listed, d.frame())
		}
		t.Run(p.listed, func(t *testing.T) { p.try(fresh(t)) })
	}
	for _, k := range listed {
		if !slices.Contains(tried, k) {
			t.Errorf("%q is in the help and was not tried", k)
		}
	}
}

// differs fails where two frames are the same.
func (d *driver) differs(keys ...string) *driver {
	d.t.Helper()
	was := d.frame()
	if d.keys(keys...); d.frame() == was {
		d.t.Errorf("%v changes nothing:\n%s", keys, was)
	}
	return d
}

// at fails unless this row of the list is pointed at.
func (d *driver) at(l *list, want int) {
	d.t.Helper()
	if l.at != want {
		d.t.Errorf("row %d is chosen, not %d:\n%s", l.at, want, d.frame())
	}
}

// leads fails unless a key leads to a message of this kind.
func leads[T any](d *driver, k tea.KeyPressMsg) {
	d.t.Helper()
	_, cmd := d.m.Update(k)
	if cmd == nil {
		d.t.Fatalf("%s does nothing", k)
	}
	if _, ok := cmd().(T); !ok {
		d.t.Errorf("%s: %T", k, cmd())
	}
}

// common are the keys of each screen; below is a text of the screen one level up.
func common(below string) []pressed {
	return []pressed{
		{"esc", func(d *driver) { d.keys("<esc>").has(below) }},
		{"?", func(d *driver) {
			d.keys("?").has("keys of " + d.m.top().name())
			if d.keys("x"); d.m.help {
				d.t.Error("the help stays")
			}
		}},
		{"q", func(d *driver) {
			leads[tea.QuitMsg](d, tea.KeyPressMsg{Code: 'q', Text: "q"})
			leads[tea.QuitMsg](d, tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		}},
		{"ctrl+z", func(d *driver) { leads[tea.SuspendMsg](d, tea.KeyPressMsg{Code: 'z', Mod: tea.ModCtrl}) }},
	}
}

// listed are the keys of each list, which has some rows and a text that only one of them contains.
func listed(of func(d *driver) *list, one string) []pressed {
	return []pressed{
		{"↑ ↓ j k", func(d *driver) {
			l := of(d)
			d.keys("<pgup>").at(l, 0) // a session's list begins at the process that leaks
			d.keys("<down>").at(l, 1)
			d.keys("<up>").at(l, 0)
			d.keys("j").at(l, 1)
			d.keys("k").at(l, 0)
			d.keys("<pgdown>")
			if l.at == 0 {
				d.t.Error("PgDn stays")
			}
			d.send(tea.KeyPressMsg{Code: tea.KeyPgUp})
			d.at(l, 0)
		}},
		{"/", func(d *driver) {
			l, all := of(d), len(of(d).shown)
			if d.keys("/", one, "<enter>"); len(l.shown) != 1 || all < 2 {
				d.t.Errorf("%d of %d rows contain %q:\n%s", len(l.shown), all, one, d.frame())
			}
			if d.keys("/", "<esc>"); len(l.shown) != all {
				d.t.Errorf("Esc does not take the filter away:\n%s", d.frame())
			}
		}},
		{"s", func(d *driver) {
			l := of(d)
			first := slices.Clone(l.shown)
			d.keys("S")
			turned := slices.Clone(l.shown)
			if slices.Equal(turned, first) {
				d.t.Errorf("S turns nothing around: %v", first)
			}
			d.keys("S")
			was := l.sort
			if d.keys("s"); l.sort == was {
				d.t.Error("s keeps the order")
			}
		}},
	}
}

// Each key that the help of the machine's screen lists does what it says.
func TestMachineKeys(t *testing.T) {
	var h *house
	fresh := func(t *testing.T) *driver {
		h = &house{view: machineView(), sessions: map[string]api.Session{"/s/a": load(t)}, list: []api.Listed{
			{Dir: "/s/a", Name: "resnet", State: "running", PIDs: []int{100}},
			{Dir: "/s/b", Name: "second", State: "running", Started: time.Unix(0, 0)}}}
		return drive(t, Options{Doors: h}, 100, 40)
	}
	home := func(d *driver) *home { return d.m.stack[0].(*home) }
	tryKeys(t, fresh, slices.Concat([]pressed{
		{"enter", func(d *driver) { d.keys("/", "resnet", "<enter>", "<enter>").has("step 6,000") }},
		{"tab", func(d *driver) {
			if d.keys("<tab>"); !home(d).inProcesses {
				d.t.Error("Tab stays at the sessions")
			}
			if d.keys("<tab>"); home(d).inProcesses {
				d.t.Error("Tab does not come back")
			}
		}},
		{"a", func(d *driver) {
			d.keys("<tab>", "<down>", "a").has("Attach to 200")
			if d.keys("y"); !slices.Equal(h.attached, []int{200}) {
				d.t.Errorf("attached to %v", h.attached)
			}
		}},
		{"f", func(d *driver) {
			if d.keys("f"); !h.finished {
				d.t.Error("finished sessions are not asked for")
			}
			if d.keys("f"); h.finished {
				d.t.Error("finished sessions are asked for still")
			}
		}},
		{"r", func(d *driver) {
			h.list = append(h.list, api.Listed{Dir: "/s/c", Name: "third", State: "running"})
			d.keys("r").has("third")
		}},
	}, listed(func(d *driver) *list { return home(d).sessions }, "second"), common("this machine")))
}

// Each key that the help of a session's screen lists does what it says.
func TestSessionKeys(t *testing.T) {
	var s *recorded
	fresh := func(t *testing.T) *driver {
		s = load(t)
		s.twoProcesses()
		return drive(t, Options{Session: s}, 80, 24)
	}
	x := func(d *driver) *sessionScreen { return d.m.stack[1].(*sessionScreen) }
	tryKeys(t, fresh, slices.Concat(timeKeys(), []pressed{
		{"enter", func(d *driver) { d.keys("<enter>").has("1 tensors") }},
		{"home end", func(d *driver) {
			d.keys("<home>").has("no verdict yet", "before the end")
			d.keys("<end>").has("■ end")
		}},
		{", .", func(d *driver) { d.keys(".").has("replay at 2×"); d.keys(",,").has("replay at 0.5×") }},
		{"tab", func(d *driver) {
			for i := range panels {
				if x(d).panel != i {
					d.t.Errorf("the panel is %s, not %s", panels[x(d).panel], panels[i])
				}
				d.differs("<tab>")
			}
		}},
		{"[ ]", func(d *driver) { d.keys("<tab>").differs("]").differs("[") }},
	}, listed(func(d *driver) *list { return x(d).procs }, "4242"), common("this machine")))
}

// Each key that the help of a process's screen lists does what it says: with the session over, and in a live one, whose
// prompt has one key more.
func TestProcessKeys(t *testing.T) {
	process := func(d *driver) *processScreen { return d.m.top().(*processScreen) }
	alive := func(t *testing.T) *driver {
		s := load(t)
		s.tape.End = api.End{Live: true}
		s.tape.Answers["tree"] = bytes.ReplaceAll(s.tape.Answers["tree"], []byte(`"ended":true`),
			[]byte(`"ended":false`))
		s.eval = func(q api.EvalRequest, _ api.EvalOutput) (api.EvalReply, error) {
			return api.EvalReply{Results: []api.EvalResult{{Outcome: api.Fine, Value: "got " + q.Code}}}, nil
		}
		return drive(t, Options{Session: s}, 80, 24).keys("<enter>")
	}
	over := func(t *testing.T) *driver { return drive(t, Options{Session: load(t)}, 80, 24).keys("<enter>") }
	tryKeys(t, over, slices.Concat(timeKeys(), []pressed{
		{"1 2 3", func(d *driver) {
			d.keys("2").has("no stacks: the session is over")
			d.keys("3").has("no code can be run: the session is over")
			if d.keys("1"); process(d).tab != 0 {
				d.t.Error("1 does not show the tensors")
			}
		}},
		{"tab", func(d *driver) { d.keys("<tab>").has("no stacks: the session is over") }},
		{"c", func(d *driver) { alive(t).keys("c").has("census 7: 1,234 objects seen") }},
		{"↑ ↓", func(d *driver) {
			p, scrolls := process(d), []int{}
			for _, k := range []rune{tea.KeyDown, tea.KeyUp, tea.KeyPgDown, tea.KeyPgUp} {
				was := p.scroll
				d.m.Update(tea.KeyPressMsg{Code: k})
				scrolls = append(scrolls, p.scroll-was)
			}
			if !slices.Equal(scrolls, []int{1, -1, 10, -10}) {
				d.t.Errorf("scrolled by %v", scrolls)
			}
		}},
	}, common("who holds it")))
	d := alive(t).keys("<tab>", "<tab>")
	if k := process(d).keys(); k[len(k)-1].key != "enter" {
		t.Errorf("the prompt's keys: %v", k)
	}
	d.keys("6*7", "<enter>").has("got 6*7")
	d.keys("<esc>")
	if d.m.top() != process(d) || process(d).typing() {
		t.Error("Esc does not leave the prompt")
	}
}

// timeKeys are those that move in time, on a session's screen and on a process's.
func timeKeys() []pressed {
	x := func(d *driver) *sessionScreen { return d.m.stack[1].(*sessionScreen) }
	moved := func(d *driver, back bool, k tea.KeyPressMsg) int64 {
		was := x(d).time.at(x(d).rec)
		d.send(k)
		by := x(d).time.at(x(d).rec) - was
		if by == 0 || back != (by < 0) {
			d.t.Errorf("%s moves by %d µs", k, by)
		}
		return max(by, -by)
	}
	return []pressed{
		{"space", func(d *driver) { d.keys("<space>").has("▶"); d.keys("<space>").has("❚❚") }},
		{"← →", func(d *driver) {
			near := moved(d, true, tea.KeyPressMsg{Code: tea.KeyLeft})
			far := moved(d, true, tea.KeyPressMsg{Code: tea.KeyLeft, Mod: tea.ModShift})
			if far < 9*near || far > 11*near {
				d.t.Errorf("with shift %d µs, without %d", far, near)
			}
			moved(d, false, tea.KeyPressMsg{Code: tea.KeyRight, Mod: tea.ModShift})
			moved(d, false, tea.KeyPressMsg{Code: tea.KeyRight})
		}},
		{"+ -", func(d *driver) {
			all := x(d).time.shown(x(d).rec)
			if d.keys("+"); x(d).time.shown(x(d).rec) >= all {
				d.t.Error("+ shows as much")
			}
			if d.keys("-"); x(d).time.shown(x(d).rec) < all {
				d.t.Error("- does not show all again")
			}
		}},
		{"p", func(d *driver) {
			d.keys("p").has("▶ 1×")
			if at := x(d).time.at(x(d).rec); at != x(d).rec.first {
				d.t.Errorf("the replay begins at %d, not at the beginning", at)
			}
		}},
	}
}

// twoProcesses gives the recorded session a second process, with the memory of the first.
func (r *recorded) twoProcesses() {
	const first = `:31180,`
	for kind, field := range map[string]string{"tree": `"pid"`, "rows": `"id"`} {
		var both bytes.Buffer
		for line := range bytes.Lines(r.tape.Answers[kind]) {
			both.Write(line)
			other := bytes.Replace(line, []byte(field+first), []byte(field+":4242,"), 1)
			if !bytes.Equal(line, other) && (kind == "tree" || bytes.Contains(line, []byte(`"k":"m"`))) {
				both.Write(bytes.Replace(other, []byte(`"f":`), []byte(`"f":1`), 1)) // and more of it
			}
		}
		r.tape.Answers[kind] = both.Bytes()
	}
}
