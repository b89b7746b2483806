package tui

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
)

// tabs of a process.
const (
	tensorsTab = iota
	stacksTab
	evalTab
)

var tabNames = []string{"tensors", "stacks", "eval"}

// processScreen shows one process of a session: its classes, and below them tensors, stacks, or a prompt for code. Time
// and recording are the session's.
type processScreen struct {
	x      *sessionScreen
	pid    int
	tab    int
	scroll int

	stacks    []string // lines
	stacksWhy string   // why there are none
	reading   bool
	ticks     int

	input   textinput.Model
	said    []string // what code was run and what came of it, the newest last
	past    []string // code, for the arrow keys
	recall  int
	running context.CancelFunc // nil: no code runs
}

func newProcess(x *sessionScreen, pid int) *processScreen {
	return &processScreen{x: x, pid: pid, input: newInput(">>> ", 10_000)}
}

func (p *processScreen) name() string {
	return p.x.name() + ", " + p.x.rec.process(p.pid).label()
}

func (p *processScreen) close() {
	if p.running != nil {
		p.running()
	}
}

func (p *processScreen) typing() bool { return p.tab == evalTab && p.input.Focused() }

func (p *processScreen) keys() []binding {
	keys := []binding{{"1 2 3", "tensors, stacks, a prompt for code", "view"}, {"tab", "the next of them", ""},
		{"c", "take a census now", "census"}, {"↑ ↓", "scroll; PgUp and PgDn by pages", ""}}
	keys = append(keys, []binding{{"space", "freeze, or play on", "freeze"},
		{"← →", "back and forth in time", "time"}, {"+ -", "less or more of the time", "zoom"}, {"p", "replay", ""}}...)
	if p.tab == evalTab {
		keys = append(keys, binding{"enter", "run the code; Esc interrupts it, or leaves the prompt", "run"})
	}
	return keys
}

func (p *processScreen) start(m *model) tea.Cmd { return p.x.askHolders(m) }

func (p *processScreen) tick(m *model) tea.Cmd {
	p.ticks++
	cmds := []tea.Cmd{p.x.tick(m)}
	if p.tab == stacksTab && p.ticks%2 == 0 && p.x.time.follow {
		cmds = append(cmds, p.readStacks(m))
	}
	return tea.Batch(cmds...)
}

type stacksAnswer struct {
	lines []string
	why   string
}

type evalAnswer struct{ lines []string }

type censusAnswer struct{ text string }

func (p *processScreen) took(m *model, got any) tea.Cmd {
	switch got := got.(type) {
	case stacksAnswer:
		p.reading, p.stacks, p.stacksWhy = false, got.lines, got.why
	case evalAnswer:
		p.running = nil
		p.tell(got.lines...)
	case censusAnswer:
		m.say(got.text, false)
		p.x.holdersAt = 0
		return p.x.askHolders(m)
	case failure:
		p.reading = false
	}
	return nil
}

func (p *processScreen) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	if p.typing() {
		return p.typed(m, k)
	}
	switch name := k.String(); name {
	case "1", "2", "3":
		return p.show(m, int(name[0]-'1'))
	case "tab":
		return p.show(m, (p.tab+1)%len(tabNames))
	case "up", "k":
		p.scroll = max(0, p.scroll-1)
	case "down", "j":
		p.scroll++
	case "pgup":
		p.scroll = max(0, p.scroll-10)
	case "pgdown":
		p.scroll += 10
	case "c":
		return p.census(m)
	case "enter":
		return p.show(m, p.tab)
	default:
		return p.x.timeKey(m, name)
	}
	return nil
}

func (p *processScreen) show(m *model, tab int) tea.Cmd {
	p.tab, p.scroll = tab, 0
	p.input.Blur()
	switch tab {
	case stacksTab:
		return p.readStacks(m)
	case evalTab:
		if why := p.dead(); why != "" {
			m.say("no code can be run: "+why, true)
			return nil
		}
		return p.input.Focus()
	}
	return nil
}

func (p *processScreen) mouse(m *model, e tea.Mouse, wheel int) tea.Cmd {
	p.scroll = max(0, p.scroll+wheel)
	return nil
}

// dead says why nobody answers in the process, "" if somebody may.
func (p *processScreen) dead() string {
	switch {
	case !p.x.rec.end.Live:
		return "the session is over"
	case p.x.rec.process(p.pid).ended:
		return "the process has ended"
	}
	return ""
}

func (p *processScreen) readStacks(m *model) tea.Cmd {
	if why := p.dead(); why != "" {
		p.stacks, p.stacksWhy = nil, why
		return nil
	}
	if p.reading {
		return nil
	}
	p.reading = true
	return m.ask(p, func(ctx context.Context) any {
		r, err := p.x.s.Backtrace(ctx, api.BacktraceRequest{Choice: api.Choice{PID: p.pid}})
		if err != nil {
			return stacksAnswer{why: safe(err.Error())}
		}
		return stacksOf(r, p.x)
	})
}

func stacksOf(r api.BacktraceReply, x *sessionScreen) (a stacksAnswer) {
	for _, s := range r.Processes {
		if s.Error != nil {
			a.why = safe(s.Error.Message)
		}
		for _, t := range s.Threads {
			name := safe(t.Name)
			if name == "" {
				name = safe(t.Comm)
			}
			a.lines = append(a.lines, paint(title, " "+name)+paint(faint, " "+strconv.Itoa(t.TID)+"  "+safe(t.Kernel)))
			for _, f := range t.Frames {
				a.lines = append(a.lines, "   "+safe(f.Func)+paint(faint, "  "+x.here(f.File)+":"+strconv.Itoa(f.Line)))
			}
		}
	}
	return a
}

// census has the process look at what holds its memory, now.
func (p *processScreen) census(m *model) tea.Cmd {
	if why := p.dead(); why != "" {
		m.say("no census can be taken: "+why, true)
		return nil
	}
	m.say("a census is being taken …", false)
	return m.ask(p, func(ctx context.Context) any {
		r, err := p.x.s.Census(ctx, api.CensusRequest{PIDs: []int{p.pid}})
		if err != nil {
			return failure{"census", err}
		}
		if len(r.Censuses) == 0 {
			return censusAnswer{"no process answered"}
		}
		c := r.Censuses[0] // one process was asked
		if c.Error != nil {
			return failure{"census", c.Error.Unpack()}
		}
		return censusAnswer{fmt.Sprintf("census %d: %s objects seen, the trainer was held for at most %s at a time",
			c.ID, units.Count(c.Visited), units.Duration(c.Longest))}
	})
}

// typed takes a key of the prompt.
func (p *processScreen) typed(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		if p.running != nil {
			p.running()
			return nil
		}
		p.input.Blur()
	case "tab":
		return p.show(m, tensorsTab)
	case "up", "down":
		p.recallCode(map[string]int{"up": -1, "down": 1}[k.String()])
	case "pgup":
		p.scroll += 10 // the output scrolls away from its end
	case "pgdown":
		p.scroll = max(0, p.scroll-10)
	case "enter":
		return p.eval(m)
	default:
		var cmd tea.Cmd
		p.input, cmd = p.input.Update(k)
		return cmd
	}
	return nil
}

func (p *processScreen) recallCode(step int) {
	p.recall = max(0, min(len(p.past), p.recall+step))
	if p.recall < len(p.past) {
		p.input.SetValue(p.past[p.recall])
	} else {
		p.input.SetValue("")
	}
	p.input.CursorEnd()
}

// evalTimeout is that of the command eval.
const evalTimeout = 10 * time.Second

// maxSaid lines of output are kept, and maxOutput bytes of one answer are shown.
const (
	maxSaid   = 2000
	maxOutput = 64 << 10
)

func (p *processScreen) tell(lines ...string) {
	p.said = append(p.said, lines...)
	if n := len(p.said) - maxSaid; n > 0 {
		p.said = p.said[n:]
	}
	p.scroll = 0
}

func (p *processScreen) eval(m *model) tea.Cmd {
	code := p.input.Value()
	if strings.TrimSpace(code) == "" {
		return nil
	}
	if p.running != nil {
		m.say("other code runs still: Esc interrupts it", true)
		return nil
	}
	if why := p.dead(); why != "" {
		m.say("no code can be run: "+why, true)
		return nil
	}
	p.past = append(p.past, code)
	p.recall = len(p.past)
	p.input.SetValue("")
	p.tell(paint(bold, ">>> "+safe(code)))
	ctx, cancel := context.WithCancel(m.ctx)
	p.running = cancel
	return m.ask(p, func(context.Context) any {
		defer cancel()
		return evalAnswer{runCode(ctx, p.x.s, p.pid, code)}
	})
}

// runCode gives the lines that the code printed, its value, and what went wrong.
func runCode(ctx context.Context, s api.Session, pid int, code string) []string {
	var out strings.Builder
	reply, err := s.Eval(ctx, api.EvalRequest{Choice: api.Choice{PID: pid}, Code: code, Place: api.Main,
		Timeout: evalTimeout}, api.EvalOutput{
		Chosen: func([]api.Process) error { return nil },
		Print: func(_ int, _ bool, text []byte) error {
			if out.Len() < maxOutput {
				out.Write(text)
			}
			return nil
		}})
	lines := textLines(out.String())
	if err != nil {
		return append(lines, paint(red, safe(err.Error())))
	}
	for _, r := range reply.Results {
		if r.Value != "" {
			lines = append(lines, textLines(r.Value)...)
		}
		for _, l := range textLines(r.Exception) {
			lines = append(lines, paint(red, l))
		}
		if err := r.Failure(evalTimeout); err != nil && r.Exception == "" {
			lines = append(lines, paint(red, safe(err.Error())))
		}
		lines = append(lines, paint(faint, fmt.Sprintf("%s, %s", r.Outcome, units.Duration(r.Elapsed))))
	}
	return lines
}

// textLines makes foreign text of several lines safe, tabs as blanks.
func textLines(s string) (lines []string) {
	if s == "" {
		return nil
	}
	s = strings.TrimSuffix(s[:min(len(s), maxOutput)], "\n")
	for l := range strings.SplitSeq(s, "\n") {
		lines = append(lines, plain.Line(strings.ReplaceAll(strings.TrimSuffix(l, "\r"), "\t", "    ")))
	}
	return lines
}

func (p *processScreen) draw(m *model, wide, high int) []string {
	x := p.x
	lines := []string{p.head(m, wide)}
	proc := x.rec.process(p.pid)
	lines = append(lines, cut(" "+paint(faint, safe(proc.command)), wide))
	part := max(6, high*2/5)
	legend := legendIn(wide)
	n := dotsAcross * (wide - legend - axis)
	one := []*process{proc}
	lines = append(lines, rule("its memory, last "+ago(x.time.shown(x.rec)), wide))
	if devices := x.deviceSeries(one, n); devices != nil && part >= 8 {
		lines = append(lines, chartOf(x.classSeries(one, n), wide, part/2, legend, 0)...)
		lines = append(lines, chartOf(devices, wide, part-part/2, legend, 0)...)
	} else {
		lines = append(lines, chartOf(x.classSeries(one, n), wide, part, legend, 0)...)
	}
	lines = append(lines, p.tabLine(wide))
	return append(lines, pad(p.tabBody(wide, high-len(lines)), high-len(lines))...)
}

func (p *processScreen) head(m *model, wide int) string {
	x := p.x
	proc, at := x.rec.process(p.pid), x.time.at(x.rec)
	var b builder
	b.put(title, " "+cut(safe(x.rec.about.Name), 24))
	b.put(plainText, fmt.Sprintf("  %s  pid %d", safe(proc.role), p.pid))
	if proc.rank >= 0 {
		b.put(plainText, fmt.Sprintf("  rank %d", proc.rank))
	}
	if v, ok := proc.memory.when(at, x.rec.stale()); ok {
		b.put(bold, "  "+size(v.rss))
	} else {
		b.put(faint, "  not there at this moment")
	}
	if c := proc.cpuShare(at); c >= 0 {
		b.put(plainText, "  CPU "+percent(c))
	}
	if i := proc.steps.upTo(at) - 1; i >= 0 {
		b.put(plainText, "  step "+units.Count(proc.steps.v[i].step))
	}
	when, wc := x.time.text(x.rec, x.rec.end.Live, m.o.Location)
	return ends(b.String(), paint(wc, when)+" ", wide)
}

func (p *processScreen) tabLine(wide int) string {
	var b builder
	b.put(grey, "─ ")
	for i, name := range tabNames {
		c := faint
		if i == p.tab {
			c = reversed
		}
		b.put(c, fmt.Sprintf(" %d %s ", i+1, name))
		b.put(grey, " ")
	}
	left := wide - width(b.Builder.String())
	b.put(grey, strings.Repeat("─", max(0, left)))
	return b.String()
}

func (p *processScreen) tabBody(wide, high int) []string {
	switch p.tab {
	case stacksTab:
		if p.stacksWhy != "" && len(p.stacks) == 0 {
			return []string{paint(faint, " no stacks: "+p.stacksWhy)}
		}
		return p.window(p.stacks, high)
	case evalTab:
		return p.evalBody(wide, high)
	}
	return p.window(p.tensorLines(wide), high)
}

// window is the part of lines that is scrolled to.
func (p *processScreen) window(lines []string, high int) []string {
	p.scroll = max(0, min(p.scroll, len(lines)-high))
	return lines[p.scroll:min(len(lines), p.scroll+high)]
}

func (p *processScreen) evalBody(wide, high int) []string {
	said := p.said
	p.scroll = max(0, min(p.scroll, len(said)-(high-1)))
	said = said[:len(said)-p.scroll]
	if n := len(said) - (high - 1); n > 0 {
		said = said[n:]
	}
	p.input.SetWidth(wide - 6)
	lines := append([]string{}, said...)
	switch {
	case p.running != nil:
		lines = append(lines, paint(faint, "it runs … Esc interrupts it"))
	case p.typing():
		lines = append(lines, p.input.View())
	default:
		lines = append(lines, paint(faint, " 3 or Enter: type Python that runs in this process, between two bytecodes"))
	}
	return lines
}

func (p *processScreen) tensorLines(wide int) (lines []string) {
	for _, h := range p.x.holders {
		if h.PID != p.pid {
			continue
		}
		if len(lines) == 0 {
			lines = append(lines, paint(grey, fit(fmt.Sprintf("%10s %8s %8s  %s", "bytes", "count", "new",
				fmt.Sprintf("held by (census after step %s)", units.Count(h.Step))), wide)))
		}
		fresh := ""
		if h.Fresh > 0 {
			fresh = "+" + units.Count(h.Fresh)
		}
		holder := safe(h.Holder)
		if holder == "" {
			holder = "nothing that was found"
		}
		text := holder + paint(faint, "  "+p.x.here(h.Site)+"  "+safe(h.Text))
		if h.Kind != "tensors" {
			text = paint(sky, h.Kind+" ") + text
		}
		if h.Oldest > 0 && h.Kind == "tensors" {
			text += paint(faint, " since step "+units.Count(h.Oldest))
		}
		lines = append(lines, cut(right(size(h.Bytes), 10)+" "+right(units.Count(h.Count), 8)+" "+
			paint(orange, right(fresh, 8))+"  "+text, wide))
	}
	if len(lines) == 0 {
		return []string{paint(faint, " no census of this process until this moment; c takes one")}
	}
	return lines
}
