package anatomy

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Rule is a category of the user's own: what is allocated below a frame whose function or file matches, or what has a
// text that matches (Attached).
type Rule struct {
	Name     string
	Pattern  *regexp.Regexp
	metadata bool // texts alone count
}

// ParseRule reads NAME=REGEX.
func ParseRule(text string) (Rule, error) {
	name, pattern, ok := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !ok || name == "" || pattern == "" {
		return Rule{}, fmt.Errorf("%q is not NAME=REGEX", text)
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return Rule{}, fmt.Errorf("category %s: %w", name, err)
	}
	return Rule{Name: name, Pattern: compiled}, nil
}

// ClassLevels are the bytes that were live by category, over time: by the rules' categories, of which the first that
// matches counts, and by use where none does.
type ClassLevels struct {
	Device int          `json:"device"`
	Names  []string     `json:"categories"` // of the columns: what is never live is left out
	Peak   ClassLevel   `json:"peak"`
	Levels []ClassLevel `json:"levels"` // at the end of each of some stretches of as many events
	// Highest is for each category the moment when most of it was live.
	Highest []ClassLevel `json:"highest"`
}

// ClassLevel is what was live after an event.
type ClassLevel struct {
	Row   int     `json:"row"` // -1: before the first
	Time  int64   `json:"time_us"`
	Live  int64   `json:"live_bytes"`
	Bytes []int64 `json:"bytes"` // by category, in the order of their names
}

// classifier follows the live bytes of a device by class: the rules' first, then the categories by use.
type classifier struct {
	h       *History
	d       *Device
	rules   []Rule
	byStack []uint64          // the rules that match a stack, as bits
	byText  map[uint32]uint64 // and a text
	notes   Notes
	bytes   []int64
}

// ClassLevels follows a device's history through so many stretches.
func (h *History) ClassLevels(d *Device, rules []Rule, stretches int) ClassLevels {
	c := &classifier{h: h, d: d, rules: rules, byStack: h.matches(rules), byText: map[uint32]uint64{},
		notes: h.NotesOf(d), bytes: make([]int64, len(rules)+int(categories))}
	out := ClassLevels{Device: d.Number, Levels: []ClassLevel{}}
	for _, r := range rules {
		out.Names = append(out.Names, r.Name)
	}
	out.Names = append(out.Names, categoryNames[:]...)
	c.before()
	out.Highest = make([]ClassLevel, len(c.bytes))
	for i := range out.Highest {
		out.Highest[i] = c.level(d.From - 1)
	}
	out.Peak = c.level(d.From - 1)
	stretches = max(1, min(stretches, d.To-d.From))
	next := 1
	for row := d.From; row < d.To; row++ {
		if changed := c.follow(row); changed != None && c.bytes[changed] > out.Highest[changed].Bytes[changed] {
			out.Highest[changed] = c.level(row)
		}
		if row == d.Peak {
			out.Peak = c.level(row)
		}
		if row+1-d.From == (d.To-d.From)*next/stretches {
			out.Levels = append(out.Levels, c.level(row))
			next++
		}
	}
	return out.withoutEmpty()
}

// matches finds the rules that match each stack, as bits.
func (h *History) matches(rules []Rule) []uint64 {
	frames := make([]uint64, h.Frames())
	for i := range frames {
		f := h.Frame(uint32(i))
		for k, r := range rules {
			if !r.metadata && (r.Pattern.MatchString(f.Name) || r.Pattern.MatchString(f.File)) {
				frames[i] |= 1 << k
			}
		}
	}
	out := make([]uint64, h.Stacks())
	for i := range out {
		for _, f := range h.StackFrames(uint32(i)) {
			out[i] |= frames[f]
		}
	}
	return out
}

// MaxRules is how many rules there may be.
const MaxRules = 64

// text finds the rules that match a text, as bits.
func (c *classifier) text(id uint32) uint64 {
	if len(c.rules) == 0 || id == snapshot.NoText {
		return 0
	}
	found, known := c.byText[id]
	if !known {
		text := c.h.Text(id)
		for k, r := range c.rules {
			if text != "" && r.Pattern.MatchString(text) {
				found |= 1 << k
			}
		}
		c.byText[id] = found
	}
	return found
}

// class is the first of the rules that match, or else of the use.
func (c *classifier) class(matching uint64, later []uint32, use Category) int {
	for _, id := range later {
		matching |= c.text(id)
	}
	if matching != 0 {
		return bits.TrailingZeros64(matching)
	}
	return len(c.rules) + int(use)
}

// made is the class of what an event has allocated.
func (c *classifier) made(row int) int {
	matching := c.byStack[c.h.Stack[row]] | c.text(c.h.Metadata[row])
	return c.class(matching, c.notes.made[row], c.h.Category(row))
}

// older is the class of what an event frees that was there before the history.
func (c *classifier) older(row int) int { return c.class(0, c.notes.old[c.h.Addr[row]], UnknownUse) }

func (c *classifier) before() {
	for _, i := range c.d.Old {
		b := &c.h.Blocks[i]
		c.bytes[c.class(c.byStack[b.Stack], c.notes.old[b.Address], c.h.BlockCategory(i))] += b.Requested
	}
	for _, row := range c.d.OldFrees {
		c.bytes[c.older(row)] += c.h.Size[row]
	}
}

// follow counts an event, and says of which class; None if it counts for none.
func (c *classifier) follow(row int) int {
	switch c.h.Action[row] {
	case snapshot.IsAlloc:
		class := c.made(row)
		c.bytes[class] += c.h.Size[row]
		return class
	case snapshot.IsFreeCompleted:
		var class int
		if made := int(c.h.Partner[row]); made != None {
			class = c.made(made)
		} else {
			class = c.older(row)
		}
		c.bytes[class] -= c.h.Size[row]
		return class
	}
	return None
}

func (c *classifier) level(row int) ClassLevel {
	l := ClassLevel{Row: row, Live: c.h.liveAfter(c.d, row), Bytes: slices.Clone(c.bytes)}
	if row < c.d.From {
		l.Row = None
		return l
	}
	l.Time = c.h.Time[row]
	return l
}

// withoutEmpty leaves out the categories of which nothing was ever live.
func (l ClassLevels) withoutEmpty() ClassLevels {
	var keep []int
	for i := range l.Names {
		if l.Highest[i].Bytes[i] > 0 {
			keep = append(keep, i)
		}
	}
	cut := func(level ClassLevel) ClassLevel {
		level.Bytes = picked(level.Bytes, keep)
		return level
	}
	l.Names, l.Highest = picked(l.Names, keep), picked(l.Highest, keep)
	for i := range l.Highest {
		l.Highest[i] = cut(l.Highest[i])
	}
	for i := range l.Levels {
		l.Levels[i] = cut(l.Levels[i])
	}
	l.Peak = cut(l.Peak)
	return l
}

func picked[T any](list []T, keep []int) []T {
	out := make([]T, 0, len(keep))
	for _, i := range keep {
		out = append(out, list[i])
	}
	return out
}
