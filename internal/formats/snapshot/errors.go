package snapshot

import (
	"errors"
	"fmt"
)

// ErrFormat is wrapped by every error about a file's content.
var ErrFormat = errors.New("malformed file")

// FormatError is a place where a file is wrong.
type FormatError struct {
	Unit string // "byte" or "line"
	At   int64  // bytes from 0, lines from 1
	What string
}

// Error names what is wrong and where.
func (e *FormatError) Error() string { return fmt.Sprintf("%s at %s %d", e.What, e.Unit, e.At) }

// Is makes errors.Is(err, ErrFormat) true.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func atByte(at int64, format string, args ...any) error {
	return &FormatError{"byte", at, fmt.Sprintf(format, args...)}
}

func atLine(line int64, format string, args ...any) error {
	return &FormatError{"line", line, fmt.Sprintf(format, args...)}
}
