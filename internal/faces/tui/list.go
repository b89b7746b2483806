package tui

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// column of a list. The one that is wide 0 takes what the others leave.
type column struct {
	name  string
	wide  int
	right bool
	from  int // shown in a list at least so wide
}

// item is a row of a list. Its cells are safe and may be coloured.
type item struct {
	key   string
	cells []string
	text  string // what a filter looks through
}

// list shows items and points at one. It keeps pointing at it when the order changes.
type list struct {
	chosen    string // key
	picked    bool   // somebody has chosen it
	at        int
	offset    int
	sort      int // which of the screen's orders
	reverse   bool
	input     textinput.Model
	filtering bool
	shown     []string // keys of what is shown, in order
	top       int      // line of the screen at which the first row stood, for the mouse
	rows      int      // that were shown
}

func newList() *list {
	return &list{input: newInput("/", 100)}
}

// newInput is a line of text with a cursor that does not blink: it would wake us for nothing.
func newInput(prompt string, most int) textinput.Model {
	in := textinput.New()
	in.Prompt, in.CharLimit = prompt, most
	styles := in.Styles()
	styles.Cursor.Blink = false
	in.SetStyles(styles)
	return in
}

func (l *list) filter() string { return strings.ToLower(l.input.Value()) }

// draw shows the items in a size; line is where the list stands on the screen.
func (l *list) draw(columns []column, items []item, wide, high, line int, focus bool) []string {
	if f := l.filter(); f != "" {
		items = slices.DeleteFunc(slices.Clone(items), func(i item) bool {
			return !strings.Contains(strings.ToLower(i.text), f)
		})
	}
	l.point(items)
	rows := max(0, high-1)
	if l.filtering || l.filter() != "" {
		rows = max(0, rows-1)
	}
	l.offset = max(0, min(l.offset, len(items)-rows))
	if l.at < l.offset {
		l.offset = l.at
	} else if l.at >= l.offset+rows {
		l.offset = l.at - rows + 1
	}
	wides := shares(columns, wide)
	lines := []string{paint(grey, header(columns, wides))}
	l.top, l.rows = line+1, 0
	for i := l.offset; i < len(items) && l.rows < rows; i++ {
		text := rowOf(columns, wides, items[i].cells)
		if i == l.at && focus {
			text = paint(reversed, strip(text))
		}
		lines = append(lines, text)
		l.rows++
	}
	if l.filtering {
		lines = append(lines, l.input.View())
	} else if l.filter() != "" {
		lines = append(lines, paint(sky, "filter: "+safe(l.input.Value())+"  (/ changes it)"))
	}
	return lines
}

// point finds the chosen item again.
func (l *list) point(items []item) {
	l.shown = l.shown[:0]
	at := -1
	for i, it := range items {
		l.shown = append(l.shown, it.key)
		if it.key == l.chosen {
			at = i
		}
	}
	if at < 0 {
		at = max(0, min(l.at, len(items)-1))
	}
	if l.at = at; at < len(items) {
		l.chosen = items[at].key
	} else {
		l.chosen = ""
	}
}

func shares(columns []column, wide int) []int {
	out := make([]int, len(columns))
	left, flexible := wide, -1
	for i, c := range columns {
		switch {
		case wide < c.from:
		case c.wide == 0:
			flexible = i
		default:
			out[i] = c.wide
			left -= c.wide + 1
		}
	}
	if flexible >= 0 {
		out[flexible] = max(0, left)
	}
	return out
}

func header(columns []column, wides []int) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.name
	}
	return rowOf(columns, wides, cells)
}

func rowOf(columns []column, wides []int, cells []string) string {
	var parts []string
	for i, c := range columns {
		switch {
		case wides[i] == 0:
		case c.right:
			parts = append(parts, right(cells[i], wides[i]))
		default:
			parts = append(parts, fit(cells[i], wides[i]))
		}
	}
	return strings.Join(parts, " ")
}

// move points n items further.
func (l *list) move(n int) {
	if len(l.shown) == 0 {
		return
	}
	l.at = max(0, min(len(l.shown)-1, l.at+n))
	l.chosen, l.picked = l.shown[l.at], true
}

// key answers the keys that every list has; done says that it was one.
func (l *list) key(k tea.KeyPressMsg, orders int) (done bool) {
	if l.filtering {
		switch k.String() {
		case "enter":
			l.filtering = false
			l.input.Blur()
		case "esc":
			l.filtering = false
			l.input.Blur()
			l.input.SetValue("")
		default:
			l.input, _ = l.input.Update(k)
		}
		return true
	}
	switch k.String() {
	case "up", "k":
		l.move(-1)
	case "down", "j":
		l.move(1)
	case "pgup":
		l.move(-max(1, l.rows))
	case "pgdown":
		l.move(max(1, l.rows))
	case "/":
		l.filtering = true
		l.input.Focus()
	case "s":
		l.sort = (l.sort + 1) % max(1, orders)
	case "S":
		l.reverse = !l.reverse
	default:
		return false
	}
	return true
}

// click points at the row on a line; again says that it was pointed at already.
func (l *list) click(line int) (hit, again bool) {
	i := line - l.top
	if i < 0 || i >= l.rows || l.offset+i >= len(l.shown) {
		return false, false
	}
	again = l.at == l.offset+i
	l.at = l.offset + i
	l.chosen, l.picked = l.shown[l.at], true
	return true, again
}

var listKeys = []binding{{"↑ ↓ j k", "choose; PgUp and PgDn by pages", ""},
	{"/", "filter: what contains the text", "filter"},
	{"s", "another order; S turns it around", "sort"}}
