package tui

import (
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/memgauge/memgauge/internal/base/plain"
)

// colour is how a text is shown: the parameters of SGR (ECMA-48), "" for the terminal's own. They are colours of the
// 256 that every terminal over ssh knows; bubbletea reduces them further, and leaves them out with NO_COLOR.
type colour string

// The colours can be told apart by colour-blind readers (Okabe and Ito), as in the pictures of package chart.
const (
	plainText colour = ""
	bold      colour = "1"
	faint     colour = "2"
	reversed  colour = "7"

	blue   colour = "38;5;39"
	orange colour = "38;5;214"
	green  colour = "38;5;36"
	pink   colour = "38;5;175"
	sky    colour = "38;5;117"
	yellow colour = "38;5;227"
	red    colour = "38;5;203"
	grey   colour = "38;5;245"
	alarm  colour = "1;38;5;203"
	fine   colour = "38;5;78"
	title  colour = "1;38;5;117"
)

// builder joins coloured pieces and changes the colour only where it differs.
type builder struct {
	strings.Builder
	now colour
}

func (b *builder) put(c colour, s string) {
	if s == "" {
		return
	}
	if c != b.now {
		if b.now != plainText {
			b.WriteString("\x1b[m")
		}
		if c != plainText {
			b.WriteString("\x1b[" + string(c) + "m")
		}
		b.now = c
	}
	b.WriteString(s)
}

func (b *builder) String() string {
	if b.now != plainText {
		return b.Builder.String() + "\x1b[m"
	}
	return b.Builder.String()
}

// paint colours a text of ours. Other people's text goes through safe first.
func paint(c colour, s string) string {
	if c == plainText || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[m"
}

// safe makes other people's text one line that steers nothing.
func safe(s string) string { return plain.Line(s) }

// width is how many columns a text takes, its colours aside.
func width(s string) int { return ansi.StringWidth(s) }

// cut shortens a text to a width, with an ellipsis where something is missing.
func cut(s string, wide int) string {
	if wide <= 0 {
		return ""
	}
	return ansi.Truncate(s, wide, "…")
}

// fit is cut, and fills up with blanks.
func fit(s string, wide int) string {
	s = cut(s, wide)
	if n := wide - width(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// right is fit with the text at the right.
func right(s string, wide int) string {
	s = cut(s, wide)
	if n := wide - width(s); n > 0 {
		return strings.Repeat(" ", n) + s
	}
	return s
}

// ends puts one text at the left and one at the right of a line; the left one gives way.
func ends(left, rightmost string, wide int) string {
	w := width(rightmost)
	if w+1 >= wide {
		return fit(left, wide)
	}
	return fit(left, wide-w-1) + " " + rightmost
}

// rule is a line with a heading in it.
func rule(heading string, wide int) string {
	head := "─ " + heading + " "
	if n := wide - width(head); n > 0 {
		return paint(grey, "─ ") + paint(title, heading) + paint(grey, " "+strings.Repeat("─", n))
	}
	return paint(title, cut(heading, wide))
}

// bar draws a share as a filled bar in eighths of a cell.
func bar(share float64, wide int) string {
	if wide <= 0 {
		return ""
	}
	if share = min(1, max(0, share)); math.IsNaN(share) { // 0 of 0
		share = 0
	}
	eighths := int(share*float64(wide*8) + 0.5)
	full, rest := eighths/8, eighths%8
	text := strings.Repeat("█", full)
	if rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	c := fine
	switch {
	case share >= 0.95:
		c = alarm
	case share >= 0.85:
		c = orange
	}
	return paint(c, text) + paint(grey, strings.Repeat("·", wide-width(text)))
}

// beside puts two blocks of lines next to each other.
func beside(left, rightmost []string, wideLeft, wideRight int) []string {
	n := max(len(left), len(rightmost))
	out := make([]string, n)
	for i := range out {
		l, r := "", ""
		if i < len(left) {
			l = left[i]
		}
		if i < len(rightmost) {
			r = rightmost[i]
		}
		out[i] = fit(l, wideLeft) + paint(grey, " │ ") + fit(r, wideRight)
	}
	return out
}

// strip takes the colours away.
func strip(s string) string { return ansi.Strip(s) }

// cut2 is the part of a line between two columns, with its colours.
func cut2(s string, from, to int) string { return ansi.Cut(s, from, to) }

// folded breaks a line at a blank into at most so many.
func folded(s string, wide, most int) []string {
	const indent = "      " // of what goes on
	first, rest, more := strings.Cut(ansi.Wordwrap(s, wide, ""), "\n")
	lines := []string{first}
	if more {
		rest = ansi.Wordwrap(strings.ReplaceAll(rest, "\n", " "), max(1, wide-len(indent)), "")
		lines = append(lines, strings.Split(rest, "\n")...)
	}
	if len(lines) > most {
		lines[most-1] = strings.Join(lines[most-1:], " ")
		lines = lines[:most]
	}
	for i := range lines {
		if i > 0 {
			lines[i] = indent + lines[i]
		}
		lines[i] = cut(lines[i], wide)
	}
	return lines
}
