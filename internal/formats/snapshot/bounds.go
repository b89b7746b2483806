package snapshot

import (
	"io"
	"sync/atomic"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// What a file may cost. A small file must not take all memory of the machine on which somebody looks at it, neither by
// what it unpacks to nor by what is made of it; a large honest one must be read.
const (
	// A packed file may unpack to so much, and to so many times its own size: real histories come to 10 to 50 times,
	// gzip's best is 1,032 times.
	freeUnpacked = 64 << 20
	maxRatio     = 32
	// What is made of a file may take so much memory, and so many times the file's size on disk: a text of events as
	// short as they can be takes 10 times its bytes, a pickle less (TestHonestFilesFit).
	freeMemory = 768 << 20
	maxMemory  = 24
)

// Costs of what is made of a file, in bytes. While a slice grows, and until garbage is collected, it is up to twice
// that.
const (
	costRow   = 240 // an Event, a Segment or a Block
	costFrame = 64
)

// tightGC is the share of garbage, in percent of what is live, while a large file is read.
const tightGC = 30

// budget is the memory that may still be used.
type budget struct{ left int64 }

// budgetFor is that of a file with so many bytes on disk.
func budgetFor(disk int64) *budget { return &budget{freeMemory + maxMemory*disk} }

// take uses bytes; false when there are too few left.
func (b *budget) take(bytes int64) bool {
	b.left -= bytes
	return b.left >= 0
}

// errTooMuch says where a file became too large for what it is.
func errTooMuch(at int64) error {
	return remedy.Add(atByte(at,
		"file would take more memory than %d MiB and %d times its size on disk: reading stopped", freeMemory>>20,
		maxMemory),
		"if you trust a packed file, unpack it first")
}

// counter counts what was read; anybody may ask meanwhile.
type counter struct {
	io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// bounded reads what a file unpacks to, as long as it keeps to the bounds. A pickle is read as a stream and needs no
// such.
type bounded struct {
	io.Reader
	packed *counter
	n      int64
}

func (u *bounded) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.n += int64(n); u.n > freeUnpacked+maxRatio*u.packed.n.Load() {
		return 0, remedy.Add(atByte(u.n, "unpacks to more than %d MiB and %d times its size", freeUnpacked>>20,
			maxRatio),
			"if you trust the file, unpack it first")
	}
	return n, err
}

// maxBlank bounds white space at one place of a text, in bytes: json.Decoder looks through all of it again with each
// piece that is read, so that 300 MiB of it, 300 KiB packed, would take minutes. Indentation is a thousandth of that.
const maxBlank = 64 << 10

// spaced ends with an error where a text has too much white space.
type spaced struct {
	io.Reader
	at, blank int64 // bytes read; of them blank at the end
}

func (s *spaced) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	for i, c := range p[:n] {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.blank = 0
		} else if s.blank++; s.blank > maxBlank {
			return 0, atByte(s.at+int64(i), "more than %d KiB of white space", maxBlank>>10)
		}
	}
	s.at += int64(n)
	return n, err
}
