// Package plain keeps texts from controlling a terminal. Names, messages and output come from other people's programs,
// files and sockets. An escape sequence among them may hide lines, forge them, or set the terminal's title and
// clipboard. Such characters are displayed instead of sent. The package guarantees that a text without them stays as it
// is, byte for byte, and that doing it twice changes nothing. It does not know where the texts come from.
package plain

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Steers recognises characters that move the cursor, change the screen or change the writing direction: C0, DEL, C1,
// line separators, and Unicode's marks of direction.
func Steers(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e,
		r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}

// Line makes a text safe and one line long: control characters appear as \n, \t, \x1b or \u202e, bytes that are no
// UTF-8 as \xHH. Nothing else changes, not even backslashes.
func Line(s string) string { return show(s, "") }

// Text is Line for a text that may have lines and tabs.
func Text(s string) string { return show(s, "\n\t") }

var noXML = strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd")

// XML is Text for a document: XML has no place for most control characters, nor for U+FFFE and U+FFFF. Its own
// characters are not escaped.
func XML(s string) string { return noXML.Replace(Text(s)) }

// Fprintf is fmt.Fprintf for prose. An argument that is a text or an error is one line there: a name of somebody else's
// forges no lines. Those of the format are ours.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	args = slices.Clone(args)
	for i, x := range args {
		if _, failed := x.(error); failed || reflect.ValueOf(x).Kind() == reflect.String {
			args[i] = Line(fmt.Sprint(x))
		}
	}
	return fmt.Fprintf(w, format, args...)
}

func show(s, keep string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || Steers(r) && !strings.ContainsRune(keep, r) }
	if !strings.ContainsFunc(s, bad) {
		return s // ContainsFunc reports a bad byte as U+FFFD
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !bad(r):
			b.WriteRune(r)
		case r == '\r' && keep != "" && strings.HasPrefix(s[i:], "\r\n"):
			b.WriteByte('\r')
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == utf8.RuneError && strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Faint and Unfaint are ECMA-48's "faint" and "neither bold nor faint". They are the only sequences that we print
// ourselves, in tables, and that a Writer passes on. A forged one can only make a text paler.
const (
	Faint   = "\x1b[2m"
	Unfaint = "\x1b[22m"
)

// Writer applies Text to what is written to it, on its way to w.
type Writer struct {
	w    io.Writer
	rest []byte // the beginning of a character, or of a Faint, whose end has not arrived yet; at most 4 bytes
}

// NewWriter makes a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer. An incomplete character at the end waits for the next Write.
func (w *Writer) Write(p []byte) (int, error) {
	data := p
	if len(w.rest) > 0 {
		data = append(w.rest, p...)
	}
	whole := len(data) - unfinished(data)
	w.rest = append([]byte(nil), data[whole:]...)
	if _, err := io.WriteString(w.w, text(string(data[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what is left: bytes that never became a character.
func (w *Writer) Flush() error {
	rest := w.rest
	w.rest = nil
	if len(rest) == 0 {
		return nil
	}
	_, err := io.WriteString(w.w, text(string(rest)))
	return err
}

// text keeps our own sequences.
func text(s string) string {
	if !strings.Contains(s, Faint) && !strings.Contains(s, Unfaint) {
		return Text(s)
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, 0x1b)
		switch {
		case i < 0:
			b.WriteString(Text(s))
			return b.String()
		case strings.HasPrefix(s[i:], Faint):
			b.WriteString(Text(s[:i]) + Faint)
			s = s[i+len(Faint):]
		case strings.HasPrefix(s[i:], Unfaint):
			b.WriteString(Text(s[:i]) + Unfaint)
			s = s[i+len(Unfaint):]
		default:
			b.WriteString(Text(s[:i+1]))
			s = s[i+1:]
		}
	}
	return b.String()
}

// unfinished counts the last bytes that may be the beginning of a character, of "\r\n", or of one of our own sequences.
func unfinished(data []byte) int {
	for n := min(len(data), len(Unfaint)-1); n > 0; n-- {
		tail := string(data[len(data)-n:])
		if strings.HasPrefix(Faint, tail) || strings.HasPrefix(Unfaint, tail) || tail == "\r" {
			return n
		}
		if n < utf8.UTFMax && utf8.RuneStart(tail[0]) && tail[0] >= utf8.RuneSelf && !utf8.FullRuneInString(tail) {
			return n
		}
	}
	return 0
}
