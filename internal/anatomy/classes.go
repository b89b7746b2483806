package anatomy

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/snapshot"
)

// Rule is a category of the user's own: what is allocated below a frame whose function or file matches.
type Rule struct {
	Name    string
	Pattern *regexp.Regexp
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
	return Rule{name, compiled}, nil
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
	rules   int
	byStack []int // the rule of each stack, None where none matches
	bytes   []int64
}

// ClassLevels follows a device's history through so many stretches.
func (h *History) ClassLevels(d *Device, rules []Rule, stretches int) ClassLevels {
	c := &classifier{h: h, d: d, rules: len(rules), byStack: h.matches(rules),
		bytes: make([]int64, len(rules)+int(categories))}
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

// matches finds the rule of every stack.
func (h *History) matches(rules []Rule) []int {
	frames := make([]uint64, h.Frames()) // the rules that match, as bits
	for i := range frames {
		f := h.Frame(uint32(i))
		for k, r := range rules {
			if r.Pattern.MatchString(f.Name) || r.Pattern.MatchString(f.File) {
				frames[i] |= 1 << k
			}
		}
	}
	out := make([]int, h.Stacks())
	for i := range out {
		var all uint64
		for _, f := range h.StackFrames(uint32(i)) {
			all |= frames[f]
		}
		out[i] = None
		if all != 0 {
			out[i] = bits.TrailingZeros64(all)
		}
	}
	return out
}

// MaxRules is how many rules there may be.
const MaxRules = 64

func (c *classifier) class(stack uint32, use Category) int {
	if rule := c.byStack[stack]; rule != None {
		return rule
	}
	return c.rules + int(use)
}

func (c *classifier) before() {
	for _, b := range c.d.Old {
		c.bytes[c.class(c.h.Blocks[b].Stack, c.h.BlockCategory(b))] += c.h.Blocks[b].Requested
	}
	for _, row := range c.d.OldFrees {
		c.bytes[c.rules+int(UnknownUse)] += c.h.Size[row]
	}
}

// follow counts an event, and says of which class; None if it counts for none.
func (c *classifier) follow(row int) int {
	switch c.h.Action[row] {
	case snapshot.IsAlloc:
		class := c.class(c.h.Stack[row], c.h.Category(row))
		c.bytes[class] += c.h.Size[row]
		return class
	case snapshot.IsFreeCompleted:
		class := c.rules + int(UnknownUse)
		if made := int(c.h.Partner[row]); made != None {
			class = c.class(c.h.Stack[made], c.h.Category(made))
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
