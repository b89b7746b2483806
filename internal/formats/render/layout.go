package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

const (
	ellipsis    = "…"
	narrowest   = 12 // a text column is not cut below this: the beginnings of names must still distinguish them
	tableMargin = 2  // the blank before the first column, and the line below the head extends one beyond the last
	tableGap    = 3  // " | "
)

// layoutNotes is what was left out to fit a table into a terminal.
type layoutNotes struct {
	hidden    int
	shortened int
}

// fit makes the table as narrow as the terminal. First the widest text columns are cut, evenly. If that isn't enough,
// columns are hidden: the spare ones first, then those in the middle. Numbers and times are never cut, since a part of
// a number is another number.
func fit(columns []column, width int, spare []string) layoutNotes {
	var notes layoutNotes
	full := make([]int, len(columns))
	for i, c := range columns {
		full[i] = c.width
	}
	for {
		for i := range columns {
			columns[i].width = full[i]
		}
		if tableWidth(columns) <= width || cut(columns, width) || !hideOne(columns, spare) {
			break
		}
		notes.hidden++
	}
	for i, c := range columns {
		if !c.hidden && c.width < full[i] {
			notes.shortened++
		}
	}
	return notes
}

func tableWidth(columns []column) int {
	total, shown, hidden := tableMargin, 0, 0
	for _, c := range columns {
		if c.hidden {
			hidden = 1
			continue
		}
		total += c.width
		shown++
	}
	total += hidden
	return total + tableGap*max(shown+hidden-1, 0)
}

// cut finds the widest limit of text columns with which the table fits, and applies it. If even the narrowest is too
// wide, it applies that one and returns false.
func cut(columns []column, width int) bool {
	var widths []int
	for _, c := range columns {
		if !c.hidden && !c.whole && c.width > narrowest {
			widths = append(widths, c.width)
		}
	}
	slices.Sort(widths)
	excess := tableWidth(columns) - width
	limit := narrowest
	for i := len(widths) - 1; i >= 0 && excess > 0; i-- {
		next := narrowest
		if i > 0 {
			next = widths[i-1]
		}
		wide := len(widths) - i // columns that are cut together at this level
		if room := wide * (widths[i] - next); room >= excess {
			limit = widths[i] - (excess+wide-1)/wide
			excess = 0
		} else {
			excess -= room
		}
	}
	for i := range columns {
		if !columns[i].whole && columns[i].width > limit {
			columns[i].width = limit
		}
	}
	return excess <= 0
}

// hideOne hides a spare column, or the one in the middle of the remaining columns; the first one stays.
func hideOne(columns []column, spare []string) bool {
	for _, name := range spare {
		i := slices.IndexFunc(columns, func(c column) bool { return c.Name == name && !c.hidden })
		if i > 0 {
			columns[i].hidden = true
			return true
		}
	}
	var shown []int
	for i, c := range columns {
		if !c.hidden {
			shown = append(shown, i)
		}
	}
	if len(shown) < 2 {
		return false
	}
	// Of an even number the right one is hidden: what a SELECT names first matters more.
	columns[shown[len(shown)/2]].hidden = true
	return true
}

func (n layoutNotes) lines(columns []column, o Options) []string {
	var out []string
	if n.hidden > 0 {
		var names []string
		for _, c := range columns {
			if c.hidden {
				names = append(names, c.title)
			}
		}
		out = append(out, shorten(fmt.Sprintf("%d of %d columns not shown: %s", n.hidden, len(columns),
			strings.Join(names, ", ")), o.Width))
	}
	if n.shortened > 0 {
		out = append(out, shorten(fmt.Sprintf("%d %s shortened to fit the terminal", n.shortened,
			plural(n.shortened, "column")), o.Width))
	}
	if out != nil {
		whole := o.Whole
		if whole == "" {
			whole = "nothing is left out with -f csv, -f json, -o FILE or in a pipe"
		}
		out = append(out, shorten(whole, o.Width))
	}
	return out
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// textWidth is how many cells a terminal uses for s, which is printable.
func textWidth(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return uniseg.StringWidth(s)
		}
	}
	return len(s)
}

// shorten cuts s to a width of at most n cells, at the border of a character as readers see it.
func shorten(s string, n int) string {
	if textWidth(s) <= n {
		return s
	}
	width, end, state := 0, 0, -1
	for rest := s; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if width+w > n-1 {
			break
		}
		width += w
		end += len(cluster)
	}
	return s[:end] + ellipsis
}
