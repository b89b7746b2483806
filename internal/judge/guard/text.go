package guard

import (
	"fmt"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
)

// Condition is when a rule acts, in words.
func (r Rule) Condition() string {
	of := ""
	if r.Memory != "" {
		of = r.Memory + " "
	}
	switch r.Kind {
	case Above:
		if r.Share > 0 {
			if r.Memory == "limit" { // the tightest of several
				of = "memory "
			}
			return fmt.Sprintf("%sabove %s of its limit", of, units.Fraction(r.Share))
		}
		return fmt.Sprintf("%sabove %s", of, units.Bytes(r.Bytes))
	case Grown:
		return fmt.Sprintf("%shas grown by %s since the training's start", of, units.Bytes(r.Bytes))
	case Unused:
		return fmt.Sprintf("%s: %s of what PyTorch holds is unused", r.Memory, units.Fraction(r.Share))
	case Steps:
		return fmt.Sprintf("every %s steps", units.Count(r.Steps))
	case Ahead:
		if r.Steps > 0 {
			return fmt.Sprintf("%smemory runs out within %d steps", of, r.Steps)
		}
		return fmt.Sprintf("%smemory runs out within %s", of, units.Duration(r.Within*float64(time.Second)))
	}
	return string(r.Kind)
}

// String is an action in words.
func (a Action) String() string {
	switch a.Verb {
	case "clear":
		return "clear " + strings.Join(a.Lists, " ")
	case "cap":
		return fmt.Sprintf("cap %s at %d", a.Cap.List, a.Cap.Length)
	case "call":
		return "call " + a.Call
	}
	return a.Verb
}
