package tui

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// limit is a memory with its limit, and when it will meet it. Bytes; -1 unknown.
type limit struct {
	name        string
	used, total int64
	note        string  // safe
	seconds     float64 // until it is full; 0: not foreseen
	low, high   float64 // of its interval; high 0: unknown
}

func (l limit) share() float64 {
	if l.total <= 0 || l.used < 0 {
		return -1
	}
	return float64(l.used) / float64(l.total)
}

// drawLimits draws a bar for each, at most so many lines: then the fullest, and how many were left out.
func drawLimits(list []limit, wide, most int) []string {
	left := 0
	if len(list) > most {
		left = len(list) - most + 1
		full := slices.Clone(list)
		order.Stable(full, func(a, b limit) int { return cmp.Compare(b.share(), a.share()) })
		keep := full[:len(full)-left]
		list = slices.DeleteFunc(slices.Clone(list), func(l limit) bool { return !slices.Contains(keep, l) })
	}
	names := 4
	for _, l := range list {
		names = max(names, len(l.name))
	}
	tail := 0
	for _, l := range list {
		tail = max(tail, width(l.tail()))
	}
	var lines []string
	for _, l := range list {
		lines = append(lines, l.draw(names, min(tail, wide/3), wide))
	}
	if left > 0 {
		lines = append(lines, paint(faint, fmt.Sprintf(" %d more, less full", left)))
	}
	return lines
}

// tail is what stands behind the figures.
func (l limit) tail() string {
	if l.seconds > 0 {
		return paint(alarm, "full in "+l.when()) + " " + paint(faint, l.note)
	}
	return paint(faint, l.note)
}

func (l limit) draw(names, tail, wide int) string {
	head := " " + fit(l.name, names) + " "
	share := l.share()
	if share < 0 {
		return head + paint(faint, "no figures "+l.note)
	}
	figures := fmt.Sprintf(" %3.0f %% %9s of %-9s", 100*share, doc.Size(l.used), doc.Size(l.total))
	bars := min(60, wide-width(head)-width(figures)-tail-1)
	return head + bar(share, max(bars, 4)) + figures + " " + l.tail()
}

// when is the time that is left, with its interval.
func (l limit) when() string {
	text := span(l.seconds)
	if l.high > 0 {
		low, high := span(l.low), span(l.high)
		if low != text || high != text {
			text += " (" + low + " to " + high + ")"
		}
	}
	return text
}

// span is a time with two digits, as one says it.
func span(seconds float64) string {
	if math.IsNaN(seconds) || seconds < 0 || seconds > 1e9 {
		return "?"
	}
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f d", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// size is bytes as text; nothing where they are not known.
func size(n int64) string {
	if n < 0 {
		return ""
	}
	return units.Bytes(n).String()
}

func percent(share float64) string {
	if share < 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// short is a path's end where the whole does not fit.
func short(path string, wide int) string {
	if width(path) <= wide {
		return path
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return cut("…"+path[i:], wide)
	}
	return cut(path, wide)
}
