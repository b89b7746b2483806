package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/plain"
	"github.com/memgauge/memgauge/internal/units"
)

// screen is the line at the bottom of a terminal that tells how far a watch is; without a terminal it is silent.
// Warnings are printed in any case.
type screen struct {
	line     io.Writer // stderr, nil if that is no terminal
	warnings io.Writer
	width    int
	tool     string
	duration time.Duration // 0: open end
	shown    time.Time
	dirty    bool
}

func (a *app) newScreen(o watchOptions) *screen {
	s := &screen{warnings: a.text(), tool: o.tool, duration: time.Duration(o.duration)}
	if o.json {
		s.warnings = a.stderr // stdout is for the report alone
	}
	if width := terminalWidth(a.stderr); width > 0 {
		f, _ := fileOf(a.stderr)
		s.line, s.width = f, width // the line moves the cursor itself
	}
	return s
}

func (s *screen) warn(w *monitor.Warning) {
	s.clear()
	fmt.Fprint(s.warnings, w.Text())
}

// show draws the line anew, at most some times a second.
func (s *screen) show(w *monitor.Watch, spent time.Duration) {
	if s.line == nil || time.Since(s.shown) < maxSilence {
		return
	}
	s.shown, s.dirty = time.Now(), true
	text := []rune(s.progress(spent) + "  " + status(w))
	if len(text) > s.width-1 { // the figures matter more than the progress
		text = []rune(status(w))
		text = text[:min(len(text), s.width-1)]
	}
	fmt.Fprintf(s.line, "\r\x1b[K%s", plain.Line(string(text)))
}

// progress is a bar with the time left, or the time spent where the end is open.
func (s *screen) progress(spent time.Duration) string {
	if s.duration <= 0 {
		return fmt.Sprintf("%s %s, Ctrl-C ends", s.tool, units.Duration(spent.Round(time.Second)))
	}
	const cells = 16
	full := min(cells, int(cells*spent/s.duration))
	return fmt.Sprintf("%s [%s%s] %s left", s.tool, strings.Repeat("#", full), strings.Repeat(".", cells-full), units.Duration((s.duration - spent).Round(time.Second)))
}

// status is each device's usage, and the risk where there is one.
func status(w *monitor.Watch) string {
	var parts []string
	for _, t := range w.Devices {
		switch {
		case t.Lost != "":
			parts = append(parts, t.Device.Label()+" lost")
		case t.History.Len() == 0:
			parts = append(parts, t.Device.Label()+" …")
		default:
			text := fmt.Sprintf("%s %.1f%%", t.Device.Label(), t.History.Last.Percent())
			if t.Risk.Level > monitor.Low {
				text += " risk " + t.Risk.Level.String()
			}
			if t.Risk.Predicted {
				text += " OOM in " + monitor.Span(t.Risk.Seconds)
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " · ")
}

// clear takes the line away.
func (s *screen) clear() {
	if s.line != nil && s.dirty {
		fmt.Fprint(s.line, "\r\x1b[K")
		s.dirty = false
	}
}
