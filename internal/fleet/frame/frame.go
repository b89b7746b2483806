// Package frame owns the unit that a node ships to the hub of a fleet: rows of one table of one session, numbered, as
// bytes that a stranger may have sent. Decode believes none of them: every length is checked before memory is asked
// for, and what does not fit is refused whole. It knows nothing of who carries frames, and nothing of where rows end up
// but the interface Sink.
package frame

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Bounds of a frame.
const (
	MaxBytes  = 8 << 20  // of a frame; the largest message that the bus carries
	maxRaw    = 64 << 20 // of the rows unpacked: eight times that, which numbers seldom reach
	maxHeader = 64 << 10 // the widest table has some 60 columns of 40 bytes
	maxFields = 1024     // columns
	// MaxRows is how many rows a frame has at most: of the widest table they take some 30 MB unpacked.
	MaxRows = 1 << 16
	maxName = 128 // bytes of a job's, node's, session's or table's name
)

// Header says what the rows are. Rows of one (Node, Session, Table) are numbered from 1 without a gap, in the order in
// which the session stored them; the numbers stay the same however often rows are sent.
type Header struct {
	Job     string `json:"job"`
	Node    string `json:"node"`
	Rank    int32  `json:"rank"`    // of all rows; -1: each row says its own
	Session string `json:"session"` // its id
	Table   string `json:"table"`   // the view's name in package table, such as python.steps
	First   uint64 `json:"first"`   // number of the first row, from 1
	Count   int    `json:"count"`   // rows
	Schema  int    `json:"schema"`  // table.Latest() of who sent it
}

// Last is the number of the last row.
func (h Header) Last() uint64 { return h.First + uint64(h.Count) - 1 }

// Batch is a frame's content.
type Batch struct {
	Header
	Rows Rows // columns job, node, rank, then the table's own (see Schema)
	// Arrived is when whoever keeps the rows got them, the same however often they come to it; zero: now.
	Arrived time.Time
}

// Sink takes batches over. Append returns when the rows would survive the death of the process; then the sender forgets
// them. Batches of one (Node, Session, Table) come in order, and may come again: rows that were appended before, by
// their numbers, are left out. The Batch is the caller's again after Append.
type Sink interface {
	Append(ctx context.Context, b Batch) error
}

// ErrCorrupt is a frame that is not what Encode makes.
var ErrCorrupt = errors.New("corrupt frame")

// Version is that of the format. Rows of version 1 were a message of Arrow's.
const Version = 2

// magic begins a frame.
var magic = []byte{'M', 'G', 'F', Version}

// prefix is the magic, then three lengths of 4 bytes, little-endian: header, packed rows, rows unpacked.
const prefix = 4 + 3*4

// named is a header as it travels.
type named struct {
	Header
	Columns []Field `json:"columns"`
}

// Encode makes the bytes of a frame; an error names what is out of bounds.
func Encode(b Batch) ([]byte, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	if b.Count != b.Rows.Len() {
		return nil, fmt.Errorf("encode frame: %d rows, the header says %d", b.Rows.Len(), b.Count)
	}
	head, err := json.Marshal(named{b.Header, b.Rows.Fields()})
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	raw := encodeRows(b.Rows)
	if len(raw) > maxRaw {
		return nil, fmt.Errorf("encode frame: rows of %d bytes, at most %d", len(raw), maxRaw)
	}
	out := make([]byte, prefix, prefix+len(head)+len(raw)/4)
	copy(out, magic)
	out = append(out, head...)
	begin := len(out)
	out = packer.EncodeAll(raw, out)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(head)))
	binary.LittleEndian.PutUint32(out[8:], uint32(len(out)-begin))
	binary.LittleEndian.PutUint32(out[12:], uint32(len(raw)))
	if len(out) > MaxBytes {
		return nil, fmt.Errorf("encode frame: %d bytes, at most %d", len(out), MaxBytes)
	}
	return out, nil
}

// Decode reads a frame. An error is ErrCorrupt; nothing that the bytes say makes it take more memory than the bounds
// allow, or panic.
func Decode(b []byte) (batch Batch, err error) {
	h, packed, raw, err := split(b)
	if err != nil {
		return Batch{}, err
	}
	rows, err := unpacker.DecodeAll(packed, make([]byte, 0, raw))
	if err != nil || len(rows) != raw {
		return Batch{}, fmt.Errorf("%w: %d bytes of rows, want %d: %v", ErrCorrupt, len(rows), raw, err)
	}
	if err := checkFields(h.Columns); err != nil {
		return Batch{}, err
	}
	batch = Batch{Header: h.Header}
	batch.Rows, err = decodeRows(h.Columns, rows, h.Count)
	return batch, err
}

// Peek reads a frame's header alone.
func Peek(b []byte) (Header, error) {
	h, _, _, err := split(b)
	return h.Header, err
}

// Unpacked is how many bytes a frame's rows take unpacked, as its first bytes say: Decode refuses those that take more
// or fewer. It is 0 for what is no frame.
func Unpacked(b []byte) int {
	if len(b) < prefix {
		return 0
	}
	return int(min(binary.LittleEndian.Uint32(b[12:]), maxRaw))
}

// split checks the lengths and the header.
func split(b []byte) (h named, packed []byte, raw int, err error) {
	if len(b) > MaxBytes {
		return h, nil, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrCorrupt, len(b), MaxBytes)
	}
	if len(b) < prefix || !bytes.Equal(b[:4], magic) {
		return h, nil, 0, fmt.Errorf("%w: it does not begin as one of version %d", ErrCorrupt, Version)
	}
	head, pack := int64(binary.LittleEndian.Uint32(b[4:])), int64(binary.LittleEndian.Uint32(b[8:]))
	unpacked := int64(binary.LittleEndian.Uint32(b[12:]))
	switch {
	case head > maxHeader || head+pack != int64(len(b)-prefix):
		return h, nil, 0, fmt.Errorf("%w: header of %d and rows of %d bytes, in %d", ErrCorrupt, head, pack, len(b))
	case unpacked > maxRaw:
		return h, nil, 0, fmt.Errorf("%w: rows of %d bytes, at most %d", ErrCorrupt, unpacked, maxRaw)
	}
	if err := json.Unmarshal(b[prefix:prefix+head], &h); err != nil {
		return h, nil, 0, fmt.Errorf("%w: header: %v", ErrCorrupt, err)
	}
	if err := h.Check(); err != nil {
		return h, nil, 0, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	return h, b[prefix+head:], int(unpacked), nil
}

var (
	// Names become parts of paths and of subjects of the bus, so they begin with no dot and have no separator.
	nameForm  = pattern.Of(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	tableForm = pattern.Of(`^[a-z]+\.[a-z_]+$`)
)

// noNames are what engines take for no value where a name stands in a path (job=NULL), in any case.
var noNames = []string{"NULL", "__HIVE_DEFAULT_PARTITION__"}

// CheckName refuses what can't be the name of a job, a node or a session.
func CheckName(what, name string) error {
	if len(name) > maxName || !nameForm().MatchString(name) {
		return fmt.Errorf("%s %.140q: not 1 to %d letters, digits, '_', '-' and '.'", what, name, maxName)
	}
	if slices.ContainsFunc(noNames, func(no string) bool { return strings.EqualFold(no, name) }) {
		return fmt.Errorf("%s %q: engines read that as no value", what, name)
	}
	return nil
}

// Check refuses a header that no frame may have.
func (h Header) Check() error {
	for _, n := range [][2]string{{"job", h.Job}, {"node", h.Node}, {"session", h.Session}} {
		if err := CheckName(n[0], n[1]); err != nil {
			return err
		}
	}
	switch {
	case len(h.Table) > maxName || !tableForm().MatchString(h.Table):
		return fmt.Errorf("table %.140q: no name of a table", h.Table)
	case h.Count < 1 || h.Count > MaxRows:
		return fmt.Errorf("%d rows, not 1 to %d", h.Count, MaxRows)
	case h.First < 1 || h.First > 1<<62:
		return fmt.Errorf("first row %d", h.First)
	case h.Rank < -1:
		return fmt.Errorf("rank %d", h.Rank)
	}
	return nil
}

// Both are made once: each holds tables of some MB, and both may be used by many at a time. One goroutine suffices to
// pack what a node ships; a frame of ours states its size, which bounds the unpacker's memory.
var (
	packer, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithLowerEncoderMem(true))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxRaw),
		zstd.WithDecodeAllCapLimit(true)) // no byte beyond what the frame claims is unpacked
)
