package tui

import (
	"strings"
	"testing"
)

func text(p *plot) string { return strip(strings.Join(p.rows(), "\n")) }

func TestPlot(t *testing.T) {
	check := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	p := newPlot(4, 2)
	p.line([]float64{0, 1, 2, 3, 4, 5, 6, 7}, 0, 7, blue)
	check("a rising line", text(p), "  ⡠⠊\n⡠⠊  ")
	p = newPlot(4, 1)
	p.line([]float64{none, none, 5, 5, none, none, 5, 5}, 0, 5, blue)
	check("gaps", text(p), " ⠉ ⠉")
	p = newPlot(3, 1)
	p.line([]float64{0, 0, 3, 3, 0, 0}, 0, 3, blue)
	check("steps are joined", text(p), "⣀⠏⣆")
	p = newPlot(2, 2)
	p.stack([][]float64{{1, 1, 1, 1}, {0, 1, none, 1}}, []colour{blue, red}, 2)
	check("a stack", text(p), "⢸⢸\n⣿⣿")
	p = newPlot(2, 2)
	p.stack([][]float64{{1, 1, 1, 1}}, []colour{blue}, 0)
	p.level(5, 4, red)
	p.set(-1, 3, red)
	p.set(99, 99, red)
	check("nothing", text(p), "  \n  ")
	for _, size := range [][2]int{{0, 0}, {-3, 2}, {2, -1}} {
		p := newPlot(size[0], size[1])
		p.line([]float64{1, 2}, 0, 2, blue)
		p.level(1, 2, red)
	}
}

func TestTexts(t *testing.T) {
	if got := fit("日本語", 4); width(got) != 4 || got != "日…" && got != "日… " {
		t.Errorf("%q", got)
	}
	if got := ends("left side", "right", 12); got != "left … right" {
		t.Errorf("%q", got)
	}
	if got := cut("abc", 0); got != "" {
		t.Errorf("%q", got)
	}
	if got := strip(bar(0.5, 4)); got != "██··" {
		t.Errorf("%q", got)
	}
	if got := short("/a/very/long/path/of/a/cgroup", 12); got != "…/cgroup" {
		t.Errorf("%q", got)
	}
	lines := folded("one two three four five six", 10, 2)
	if len(lines) != 2 || lines[0] != "one two" || width(lines[1]) > 10 {
		t.Errorf("%q", lines)
	}
}

// Times as people say them.
func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 s", 59: "59 s", 150: "2 min", 3600: "60 min", 7300: "2 h",
		200_000: "2 d", -1: "?", 1e12: "?"} {
		if got := span(seconds); got != want {
			t.Errorf("%g s: %q, want %q", seconds, got, want)
		}
	}
}
