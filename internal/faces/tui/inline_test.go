package tui

import (
	"bytes"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/base/chart"
)

func TestInlineChart(t *testing.T) {
	c := chart.Chart{Across: "step", Panels: []chart.Panel{{Unit: chart.Count, Series: []chart.Series{
		{Name: "rss\x1b[2J", X: []float64{0, 5, 10}, Y: []float64{0, 50, 100}}}}}}
	var b bytes.Buffer
	if err := WriteInline(&b, c, Braille, 60); err != nil {
		t.Fatal(err)
	}
	if err := steers(b.String()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"100▏", "0▏", "10 step", `rss\x1b[2J`} {
		if !strings.Contains(strip(b.String()), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for g, begin := range map[Graphics]string{Kitty: "\x1b_G", Sixel: "\x1bP"} {
		b.Reset()
		if err := WriteInline(&b, c, g, 60); err != nil || !strings.HasPrefix(b.String(), begin) {
			t.Errorf("%d: %v, %.20q", g, err, b.String())
		}
	}
}

func TestGraphicsOf(t *testing.T) {
	for env, want := range map[string]Graphics{"TERM=xterm-kitty": Kitty, "TERM=foot": Sixel,
		"TERM=xterm-256color":  Braille,
		"TERM_PROGRAM=WezTerm": Kitty, "TERM=xterm-kitty TMUX=/tmp/x": Braille} {
		got := GraphicsOf(func(name string) string {
			for pair := range strings.FieldsSeq(env) {
				if v, ok := strings.CutPrefix(pair, name+"="); ok {
					return v
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%s: %d", env, got)
		}
	}
}

// The head of a wide and long table stays, whatever is scrolled to.
func TestPager(t *testing.T) {
	var b strings.Builder
	b.WriteString("name" + strings.Repeat(" ", 200) + "far\n----\n")
	for range 100 {
		b.WriteString("row" + strings.Repeat(" ", 201) + "\x1b[2Jend\n")
	}
	p := newPager(b.String())
	p.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	look := func(want ...string) {
		t.Helper()
		text := strings.Join(p.lines(), "\n")
		for _, w := range want {
			if !strings.Contains(strip(text), w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
		if err := steers(text); err != nil || len(p.lines()) != 10 {
			t.Errorf("%d lines, %v", len(p.lines()), err)
		}
	}
	look("name", "lines 1 to 7 of 100")
	p.Update(tea.KeyPressMsg{Code: tea.KeyEnd})
	look("name", "lines 94 to 100 of 100")
	for range 30 {
		p.Update(tea.KeyPressMsg{Code: tea.KeyRight})
	}
	look("far", "end")
	if _, cmd := p.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil {
		t.Error("q does not leave")
	}
}
