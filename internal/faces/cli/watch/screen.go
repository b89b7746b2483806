package watch

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/monitor"
)

// screen is the status line at the bottom of a terminal with the progress of a watch. Without a terminal it prints only
// warnings.
type screen struct {
	line     *term.StatusLine
	warnings io.Writer
	tool     string
	duration time.Duration // 0: open end
	shown    time.Time
}

func (a *commands) newScreen(o watchOptions) *screen {
	s := &screen{line: term.NewStatusLine(a.Stderr), warnings: a.Text(), tool: o.tool,
		duration: time.Duration(o.duration)}
	if o.json {
		s.warnings = a.Stderr // stdout is for the report alone
	}
	return s
}

func (s *screen) warn(w *monitor.Warning) {
	s.line.Clear()
	fmt.Fprint(s.warnings, w.Text())
}

// Show draws the line anew, at most some times a second.
func (s *screen) Show(w *monitor.Watch, spent time.Duration) {
	if !s.line.Shown() || time.Since(s.shown) < maxSilence {
		return
	}
	s.shown = time.Now()
	text := s.progress(spent) + "  " + status(w)
	if utf8.RuneCountInString(text) > s.line.Room() { // in a narrow terminal drop the progress, not the figures
		text = status(w)
	}
	s.line.Show("%s", text)
}

// progress is a bar with the time left, or the time spent where the end is open.
func (s *screen) progress(spent time.Duration) string {
	if s.duration <= 0 {
		return fmt.Sprintf("%s %s, Ctrl-C ends", s.tool, units.Duration(spent.Round(time.Second)))
	}
	const cells = 16
	full := min(cells, int(cells*spent/s.duration))
	return fmt.Sprintf("%s [%s%s] %s left", s.tool, strings.Repeat("#", full), strings.Repeat(".", cells-full),
		units.Duration((s.duration - spent).Round(time.Second)))
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
