package tui

import (
	"context"
	"fmt"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
)

// pager scrolls through a table that is wider or longer than the terminal. Its head stays in sight.
type pager struct {
	head, body []string
	x, y       int
	wide, high int
	widest     int
}

// headLines of a table: the names of the columns, and the line below them.
const headLines = 2

// Page shows a text in full screen until the user leaves. Its first two lines stay where they are.
func Page(ctx context.Context, text string, in, out *os.File, environ []string) error {
	p := tea.NewProgram(newPager(text), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(environ),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	if _, err := p.Run(); err != nil {
		return fmt.Errorf("show the answer: %w", err)
	}
	return nil
}

func newPager(text string) *pager {
	p := &pager{wide: 80, high: 24}
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		l = plain.Line(strings.ReplaceAll(l, "\t", "    "))
		p.widest = max(p.widest, width(l))
		p.body = append(p.body, l)
	}
	n := min(headLines, len(p.body))
	p.head, p.body = p.body[:n], p.body[n:]
	return p
}

// Init has nothing to ask.
func (p *pager) Init() tea.Cmd { return nil }

// rows is how many lines of the body are shown.
func (p *pager) rows() int { return max(1, p.high-len(p.head)-1) }

// Update takes keys, the wheel and sizes.
func (p *pager) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.wide, p.high = msg.Width, msg.Height
	case tea.MouseWheelMsg:
		p.y += map[tea.MouseButton]int{tea.MouseWheelUp: -3, tea.MouseWheelDown: 3}[msg.Button]
	case tea.KeyPressMsg:
		if p.key(msg.String()) {
			return p, tea.Quit
		}
	}
	p.y = max(0, min(p.y, len(p.body)-p.rows()))
	p.x = max(0, min(p.x, p.widest-p.wide))
	return p, nil
}

// key says that the user leaves.
func (p *pager) key(name string) (leave bool) {
	switch name {
	case "q", "esc", "ctrl+c", "ctrl+d", "enter":
		return true
	case "up", "k":
		p.y--
	case "down", "j":
		p.y++
	case "pgup", "b":
		p.y -= p.rows()
	case "pgdown", "space", "f":
		p.y += p.rows()
	case "left":
		p.x -= p.wide / 2
	case "right":
		p.x += p.wide / 2
	case "home", "g":
		p.x, p.y = 0, 0
	case "end", "G":
		p.y = len(p.body)
	}
	return false
}

// View draws.
func (p *pager) View() tea.View {
	v := tea.NewView(strings.Join(p.lines(), "\n"))
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	return v
}

func (p *pager) lines() []string {
	var lines []string
	for _, l := range append(append([]string{}, p.head...), p.body[p.y:min(len(p.body), p.y+p.rows())]...) {
		lines = append(lines, cut2(l, p.x, p.x+p.wide))
	}
	for len(lines) < p.high-1 {
		lines = append(lines, "")
	}
	foot := fmt.Sprintf(" lines %s to %s of %s   ↑ ↓ PgUp PgDn ← → scroll, q leaves", units.Count(int64(p.y+1)),
		units.Count(int64(min(len(p.body), p.y+p.rows()))), units.Count(int64(len(p.body))))
	return append(lines, paint(reversed, cut(foot, p.wide)))
}
