package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Counted is the result of a census: the payload of a Counted frame, lines "key TAB value".
type Counted struct {
	Census   uint32        // its number in the process; rows and events carry it
	Step     uint32        // the last step that had ended, 0 before the first
	Visited  uint64        // objects visited
	Tensors  uint64        // among them
	Rows     uint64        // written into the ring
	CPU      time.Duration // upper bound of the trainer's time that it took
	Longest  time.Duration // the longest pause of the trainer
	Wall     time.Duration // from the request to the last row
	Complete bool          // false: its time budget ended before the walk did; Note says where
	Note     string        // for the user
}

// ParseCounted reads a Counted frame's payload; unknown keys are of a newer minor version.
func ParseCounted(p []byte) (Counted, error) {
	var c Counted
	for line := range strings.Lines(valid(p)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			return c, fmt.Errorf("%w: counted frame with the line %q", ErrCorrupt, line)
		}
		if key == "note" {
			c.Note = value
			continue
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			if c.known(key, 0) {
				return c, fmt.Errorf("%w: counted frame: %s is %q", ErrCorrupt, key, value)
			}
			continue
		}
		c.known(key, n)
	}
	return c, nil
}

// known sets a field of a number; false for a key that this version doesn't know.
func (c *Counted) known(key string, n uint64) bool {
	switch key {
	case "census":
		c.Census = uint32(n)
	case "step":
		c.Step = uint32(n)
	case "visited":
		c.Visited = n
	case "tensors":
		c.Tensors = n
	case "rows":
		c.Rows = n
	case "cpu_ns":
		c.CPU = time.Duration(n)
	case "longest_ns":
		c.Longest = time.Duration(n)
	case "wall_ns":
		c.Wall = time.Duration(n)
	case "complete":
		c.Complete = n != 0
	default:
		return false
	}
	return true
}
