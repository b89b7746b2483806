package tui

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// screen is one level: the machine, a session, a process of it.
type screen interface {
	// start asks for what the screen shows first, tick for what is new.
	start(m *model) tea.Cmd
	tick(m *model) tea.Cmd
	// key answers a key that the model has no use for.
	key(m *model, k tea.KeyPressMsg) tea.Cmd
	// took takes an answer to a question of this screen.
	took(m *model, answer any) tea.Cmd
	mouse(m *model, e tea.Mouse, wheel int) tea.Cmd
	// draw fills a size.
	draw(m *model, wide, high int) []string
	// name stands in the path at the top; keys are those of this screen, for the bottom line and the help.
	name() string
	keys() []binding
	// typing says that keys are text now.
	typing() bool
	close()
}

// binding is a key with what it does; one that is Foot stands in the bottom line too.
type binding struct {
	key, does string
	short     string // for the bottom line; "" leaves it out there
}

// width is what it takes of the bottom line.
func (k binding) width() int { return width(k.key) + width(k.short) + 2 }

// model is all that is on the terminal. Bubbletea calls it from one goroutine.
type model struct {
	ctx        context.Context
	o          Options
	wide, high int
	stack      []screen // the last is shown
	jobs       jobs
	help       bool
	question   *question
	note       string
	noteUntil  time.Time
	noteBad    bool
	crash      error
	after      func(d time.Duration, msg tea.Msg) tea.Cmd // sends a message later
}

// question waits for y.
type question struct {
	text string
	yes  func() tea.Cmd
}

// answer is what a question of a screen has found.
type answer struct {
	to  screen
	got any
}

// failure is an answer that is none.
type failure struct {
	what string
	err  error
}

type tickMsg struct{}

func newModel(ctx context.Context, o Options) *model {
	if o.now == nil {
		o.now = time.Now
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	m := &model{ctx: ctx, o: o, wide: 80, high: 24}
	m.after = m.later
	m.stack = []screen{newHome()}
	if o.Session != nil {
		m.stack = append(m.stack, newSession(o.Session, o.PID, o.Speed))
	}
	return m
}

func (m *model) top() screen { return m.stack[len(m.stack)-1] }

func (m *model) close() {
	for _, s := range m.stack {
		s.close()
	}
	m.stack = m.stack[:0]
}

// Init begins with the first questions.
func (m *model) Init() tea.Cmd { return tea.Batch(m.top().start(m), m.nextTick()) }

func (m *model) nextTick() tea.Cmd { return m.after(m.o.Interval, tickMsg{}) }

// later is tea.Tick that ends with the screen.
func (m *model) later(d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if !m.jobs.enter() {
			return nil
		}
		defer m.jobs.group.Done()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return msg
		case <-m.ctx.Done():
			return nil
		}
	}
}

// ask runs a question beside the screen; its answer goes to the screen that asked.
func (m *model) ask(to screen, question func(ctx context.Context) any) tea.Cmd {
	return func() (msg tea.Msg) {
		if !m.jobs.enter() {
			return nil
		}
		defer m.jobs.group.Done()
		defer func() {
			if r := recover(); r != nil {
				msg = crashMsg{crashed(r)}
			}
		}()
		return answer{to, question(m.ctx)}
	}
}

// crashMsg is a panic of ours in a question: the screen ends, so that the terminal is restored.
type crashMsg struct{ err error }

func crashed(why any) error { return fmt.Errorf("panic: %v\n%s", why, debug.Stack()) }

// Update takes a key, a size, a tick or an answer.
func (m *model) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	defer func() {
		if r := recover(); r != nil {
			m.crash, cmd = crashed(r), tea.Quit
		}
	}()
	if m.crash != nil { // of View, which can't end the program
		return m, tea.Quit
	}
	switch msg := msg.(type) {
	case crashMsg:
		m.crash = msg.err
		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.wide, m.high = msg.Width, msg.Height
	case tickMsg:
		return m, tea.Batch(m.top().tick(m), m.nextTick())
	case answer:
		return m, m.takeAnswer(msg)
	case tea.KeyPressMsg:
		return m, m.takeKey(msg)
	case tea.MouseClickMsg:
		if msg.Button == tea.MouseLeft && m.question == nil && !m.help {
			return m, m.top().mouse(m, tea.Mouse(msg), 0)
		}
	case tea.MouseWheelMsg:
		return m, m.takeWheel(tea.Mouse(msg))
	case tea.PasteMsg:
		return m, m.takePaste(string(msg.Content))
	}
	return m, nil
}

func (m *model) takeAnswer(a answer) tea.Cmd {
	if f, ok := a.got.(failure); ok && m.ctx.Err() == nil {
		text := safe(f.what + ": " + f.err.Error())
		if hint := remedy.Of(f.err); hint != "" {
			text += " (" + safe(hint) + ")"
		}
		m.say(text, true)
	}
	for _, s := range m.stack {
		if s == a.to {
			return s.took(m, a.got)
		}
	}
	return nil // its screen is closed
}

func (m *model) takeWheel(e tea.Mouse) tea.Cmd {
	if m.question != nil || m.help {
		return nil
	}
	switch e.Button {
	case tea.MouseWheelUp:
		return m.top().mouse(m, e, -1)
	case tea.MouseWheelDown:
		return m.top().mouse(m, e, 1)
	}
	return nil
}

// takePaste types what was pasted, line ends as blanks, where text is expected.
func (m *model) takePaste(text string) tea.Cmd {
	if !m.top().typing() {
		return nil
	}
	var cmds []tea.Cmd
	for _, r := range strings.ReplaceAll(text, "\n", " ") {
		cmds = append(cmds, m.top().key(m, tea.KeyPressMsg{Code: r, Text: string(r)}))
	}
	return tea.Batch(cmds...)
}

func (m *model) takeKey(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if q := m.question; q != nil {
		m.question = nil
		if name == "y" || name == "Y" {
			return q.yes()
		}
		m.say("left as it is", false)
		return nil
	}
	if m.help {
		m.help = false
		return nil
	}
	if m.top().typing() {
		return m.top().key(m, k)
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h", "f1":
		m.help = true
		return nil
	case "esc", "backspace":
		return m.back()
	case "ctrl+z":
		return tea.Suspend
	}
	return m.top().key(m, k)
}

// back goes one level up; on the first one it stays.
func (m *model) back() tea.Cmd {
	if len(m.stack) == 1 {
		return nil
	}
	m.top().close()
	m.stack = m.stack[:len(m.stack)-1]
	return m.top().tick(m)
}

// enter goes one level down.
func (m *model) enter(s screen) tea.Cmd {
	m.stack = append(m.stack, s)
	return s.start(m)
}

// noteFor is how long a note stands.
const noteFor = 8 * time.Second

// say shows a note in the bottom line. Its text is safe.
func (m *model) say(text string, bad bool) {
	m.note, m.noteUntil, m.noteBad = text, m.o.now().Add(noteFor), bad
}

// View draws.
func (m *model) View() (v tea.View) {
	v.AltScreen = true
	defer func() {
		if r := recover(); r != nil && m.crash == nil {
			m.crash = crashed(r)
		}
	}()
	v.SetContent(strings.Join(m.lines(), "\n"))
	v.WindowTitle = "memgauge top"
	if m.o.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// Least size of a screen: below it there is room for a hint only.
const leastWide, leastHigh = 40, 12

func (m *model) lines() []string {
	if m.wide < leastWide || m.high < leastHigh {
		return []string{cut(fmt.Sprintf("memgauge top needs %d×%d", leastWide, leastHigh), m.wide)}
	}
	var body []string
	if m.help {
		body = m.helpLines(m.wide, m.high-1)
	} else {
		body = m.top().draw(m, m.wide, m.high-1)
	}
	for len(body) < m.high-1 {
		body = append(body, "")
	}
	lines := append(body[:m.high-1], m.foot())
	for i, l := range lines {
		lines[i] = cut(l, m.wide)
	}
	return lines
}

// foot is the bottom line: a question, a note, or the keys.
func (m *model) foot() string {
	switch {
	case m.question != nil:
		return paint(alarm, " "+m.question.text+" ") + paint(bold, "y/N")
	case m.note != "" && m.o.now().Before(m.noteUntil):
		return paint(map[bool]colour{true: orange, false: sky}[m.noteBad], " "+m.note)
	}
	var b builder
	put := func(k binding) {
		b.put(plainText, " ")
		b.put(reversed, k.key)
		b.put(plainText, " "+k.short)
	}
	common := slices.DeleteFunc(slices.Clone(commonKeys), func(k binding) bool {
		return k.short == "" || k.key == "esc" && len(m.stack) == 1
	})
	room := m.wide
	for _, k := range common { // how to leave, and how to see all keys, has its place whatever else there is
		room -= k.width()
	}
	for _, k := range m.top().keys() {
		if k.short == "" {
			continue
		}
		if room -= k.width(); room < 0 {
			break
		}
		put(k)
	}
	for _, k := range common {
		put(k)
	}
	return b.String()
}

var commonKeys = []binding{{"esc", "one level up", "back"}, {"?", "these keys", "keys"},
	{"q", "leave; Ctrl-C too", "quit"}, {"ctrl+z", "suspend; fg comes back", ""}}

func (m *model) helpLines(wide, high int) []string {
	keys := append(m.top().keys(), commonKeys...)
	lines := []string{"", paint(title, " keys of "+m.top().name()), ""}
	half := (len(keys) + 1) / 2
	columns := 1
	if len(keys) > high-4 && wide >= 76 {
		columns = 2
	} else {
		half = len(keys)
	}
	for i := range half {
		line := helpKey(keys[i], wide/columns)
		if j := i + half; columns == 2 && j < len(keys) {
			line += helpKey(keys[j], wide-wide/2)
		}
		lines = append(lines, line)
	}
	return append(lines, "", paint(faint, " any key goes on"))
}

func helpKey(k binding, wide int) string {
	return fit("  "+paint(bold, fit(k.key, 12))+" "+k.does, wide)
}

// settle answers a command and those that follow from it at once: for a frame without a terminal.
func (m *model) settle(cmd tea.Cmd) error {
	for pending := []tea.Cmd{cmd}; len(pending) > 0; {
		next := pending[0]
		pending = pending[1:]
		if next == nil {
			continue
		}
		switch msg := next().(type) {
		case nil, tickMsg:
		case tea.BatchMsg:
			pending = append(pending, msg...)
		case answer:
			if f, ok := msg.got.(failure); ok {
				return fmt.Errorf("%s: %w", f.what, f.err)
			}
			pending = append(pending, m.takeAnswer(msg))
		}
	}
	return nil
}
