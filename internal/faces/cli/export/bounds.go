package export

import (
	"bytes"
	"errors"
	"fmt"
)

// Bounds of an answer to an assistant, which reads all of it and pays for each word.
const (
	maxAnswer = 48 << 10 // bytes; some 12,000 words
	maxNotes  = 4 << 10  // bytes of errors and notes beside it
	maxReport = 16 << 20 // bytes of a report before its lists are cut; the longest is 3 MB
)

// cut is a writer that keeps the beginning of its input.
type cut struct {
	most int
	kept []byte
	lost int
}

func (c *cut) Write(p []byte) (int, error) {
	n := min(len(p), c.most-len(c.kept))
	c.kept = append(c.kept, p[:n]...)
	c.lost += len(p) - n
	return len(p), nil
}

// text returns the kept text. If more was written, it ends with the last whole line and advice how to get the rest.
func (c *cut) text(advice string) string {
	if c.lost == 0 {
		return string(c.kept)
	}
	kept := c.kept
	if end := bytes.LastIndexByte(kept, '\n'); end > len(kept)/2 {
		kept = kept[:end+1]
	}
	cut := fmt.Sprintf("[cut: %d of %d bytes are shown", len(kept), len(c.kept)+c.lost)
	if advice != "" {
		cut += "; " + advice
	}
	return string(kept) + "\n" + cut + "]\n"
}

// errEnough ends a query whose further rows would be cut.
var errEnough = errors.New("enough rows")

// lines keeps whole lines, up to a number and a size.
type lines struct {
	cut
	rows, seen int
	full       bool // there was more
}

// Reset forgets what was written.
func (l *lines) Reset() { l.kept, l.lost, l.seen, l.full = nil, 0, 0, false }

func (l *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		part := rest
		if end > 0 {
			part = rest[:end]
		}
		if l.seen == l.rows || len(l.kept)+len(part) > l.most {
			l.full = true
			return 0, errEnough
		}
		l.kept = append(l.kept, part...)
		if end > 0 {
			l.seen++
		}
		rest = rest[len(part):]
	}
	return len(p), nil
}

// text returns the whole rows, and whether there are more.
func (l *lines) text() string {
	end := bytes.LastIndexByte(l.kept, '\n') + 1
	if !l.full {
		return fmt.Sprintf("%s[%d rows]\n", l.kept, l.seen)
	}
	return fmt.Sprintf("%s[cut: the first %d rows, %d bytes; there are more: aggregate, or say LIMIT and OFFSET]\n",
		l.kept[:end], l.seen, end)
}

// shorten cuts each list after its first `most` items, and says how many more there were.
func shorten(v any, most int) any {
	switch v := v.(type) {
	case map[string]any:
		short := make(map[string]any, len(v))
		for k, x := range v {
			short[k] = shorten(x, most)
		}
		return short
	case []any:
		short := make([]any, 0, min(len(v), most+1))
		for i, x := range v {
			if i == most {
				return append(short, fmt.Sprintf("[cut: %d of %d are shown]", most, len(v)))
			}
			short = append(short, shorten(x, most))
		}
		return short
	}
	return v
}
