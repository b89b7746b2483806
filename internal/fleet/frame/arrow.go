package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memgauge/memgauge/internal/table"
)

// types are those that columns have, by the number that stands for them in a header. New ones come at the end.
var types = []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64,
	arrow.FixedWidthTypes.Boolean, arrow.BinaryTypes.String, &arrow.TimestampType{Unit: arrow.Microsecond}}

func typeNumber(t arrow.DataType) int {
	return slices.IndexFunc(types, func(have arrow.DataType) bool { return arrow.TypeEqual(have, t) })
}

// words are DuckDB's words for the types, in their order. Timestamps are µs of UTC.
var words = []string{"BIGINT", "INTEGER", "DOUBLE", "BOOLEAN", "VARCHAR", "TIMESTAMP"}

// front are the columns that come before a table's own. Rank is one of its own in most tables, and moves to the front.
var front = []arrow.Field{{Name: "job", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "node", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "rank", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}

// Schema is what the rows of a table look like in a frame: job, node and rank, then the view's columns.
func Schema(t *table.Table) (*arrow.Schema, error) {
	fields := slices.Clone(front)
	for _, c := range t.Columns {
		if c.Name == "" || c.Name == "rank" {
			continue
		}
		i := slices.Index(words, c.Type)
		if i < 0 {
			return nil, fmt.Errorf("table %s: column %s of type %s can't be shipped", t.View, c.Name, c.Type)
		}
		fields = append(fields, arrow.Field{Name: c.Name, Type: types[i], Nullable: true})
	}
	return arrow.NewSchema(fields, nil), nil
}

// schemaOf makes the schema that a header names.
func schemaOf(columns []field) (*arrow.Schema, error) {
	if len(columns) < len(front) || len(columns) > maxFields {
		return nil, fmt.Errorf("%w: %d columns", ErrCorrupt, len(columns))
	}
	seen := map[string]bool{}
	fields := make([]arrow.Field, 0, len(columns))
	for i, c := range columns {
		lower := strings.ToLower(c.Name) // SQL takes step and STEP for one
		if c.Type < 0 || c.Type >= len(types) || seen[lower] || CheckName("column", c.Name) != nil {
			return nil, fmt.Errorf("%w: column %.140q of type %d", ErrCorrupt, c.Name, c.Type)
		}
		seen[lower] = true
		fields = append(fields, arrow.Field{Name: c.Name, Type: types[c.Type], Nullable: true})
		if i < len(front) && (c.Name != front[i].Name || !arrow.TypeEqual(types[c.Type], front[i].Type)) {
			return nil, fmt.Errorf("%w: column %d is %.140q, not %s", ErrCorrupt, i, c.Name, front[i].Name)
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// encodeRows is the message of Arrow's IPC that holds the record, without the schema before it.
func encodeRows(r arrow.RecordBatch) ([]byte, error) {
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(r.Schema()))
	skip := 0
	err := w.Write(r) // the first Write puts the schema in front
	if err == nil {
		skip, err = schemaBytes(r.Schema())
	}
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	return out.Bytes()[skip:], nil // the end-of-stream mark is Close's, so there is none
}

// schemaBytes is how long the schema's own message is.
func schemaBytes(s *arrow.Schema) (int, error) {
	b, err := schemaMessage(s)
	return len(b), err
}

// schemaMessage is a stream that ends after its schema.
func schemaMessage(s *arrow.Schema) ([]byte, error) {
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(s))
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes()[:out.Len()-len(endOfStream)], nil
}

var endOfStream = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// decodeRows reads a record of the schema. Arrow's reader trusts lengths, so it gets messages that were cut out before,
// memory within bounds, and a schema of our own making.
func decodeRows(schema *arrow.Schema, raw []byte, count int) (r arrow.RecordBatch, err error) {
	defer func() {
		if p := recover(); p != nil { // arrow-go panics where a message contradicts itself
			r, err = nil, fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	head, err := schemaMessage(schema)
	if err != nil {
		return nil, fmt.Errorf("decode frame: %w", err)
	}
	mem := &bounded{Allocator: memory.NewGoAllocator()}
	reader, err := ipc.NewReaderFromMessageReader(&messages{parts: [][]byte{head, raw}}, ipc.WithAllocator(mem))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	defer reader.Release()
	r, err = reader.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	r.Retain()
	if err := sound(r, count); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// messages gives Arrow's reader one message after the other; each lies whole in memory.
type messages struct{ parts [][]byte }

// Message is the next one: a mark, the length of what describes it, that, and its body.
func (m *messages) Message() (*ipc.Message, error) {
	if len(m.parts) == 0 {
		return nil, io.EOF
	}
	b := m.parts[0]
	m.parts = m.parts[1:]
	if len(b) < 8 || !bytes.Equal(b[:4], endOfStream[:4]) {
		return nil, fmt.Errorf("%w: no message", ErrCorrupt)
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if n < 8 || n > int64(len(b)-8) {
		return nil, fmt.Errorf("%w: %d bytes describe a message of %d", ErrCorrupt, n, len(b))
	}
	about, body := b[8:8+n:8+n], b[8+n:len(b):len(b)]
	msg := ipc.NewMessage(memory.NewBufferBytes(about), memory.NewBufferBytes(body))
	if msg.BodyLen() != int64(len(body)) {
		return nil, fmt.Errorf("%w: a body of %d bytes, not %d", ErrCorrupt, len(body), msg.BodyLen())
	}
	return msg, nil
}

// Retain and Release have nothing to count: the bytes are the caller's.
func (m *messages) Retain()  {}
func (m *messages) Release() {}

// bounded refuses memory beyond what rows may take: a body that calls itself compressed names any size it likes.
type bounded struct {
	memory.Allocator
	taken int
}

func (a *bounded) take(size int) {
	if size < 0 || a.taken+size > maxRaw {
		panic("rows take too much memory")
	}
	a.taken += size
}

func (a *bounded) Allocate(size int) []byte {
	a.take(size)
	return a.Allocator.Allocate(size)
}

func (a *bounded) Reallocate(size int, b []byte) []byte {
	a.take(size)
	return a.Allocator.Reallocate(size, b)
}

// sound says whether every value of the record can be read.
func sound(r arrow.RecordBatch, count int) error {
	if r.NumRows() != int64(count) {
		return fmt.Errorf("%w: %d rows, not %d", ErrCorrupt, r.NumRows(), count)
	}
	for i, c := range r.Columns() {
		if err := soundColumn(c.Data(), count); err != nil {
			return fmt.Errorf("%w: column %s: %v", ErrCorrupt, r.ColumnName(i), err)
		}
		if s, ok := c.(*array.String); ok {
			if err := soundTexts(s); err != nil {
				return fmt.Errorf("%w: column %s: %v", ErrCorrupt, r.ColumnName(i), err)
			}
		}
	}
	return nil
}

func soundColumn(d arrow.ArrayData, count int) error {
	if d.Len() != count || d.Offset() != 0 {
		return fmt.Errorf("%d values from %d on", d.Len(), d.Offset())
	}
	need := []int{(count + 7) / 8, 0}
	switch t := d.DataType().(type) {
	case *arrow.StringType:
		need[1] = 4 * (count + 1)
	case arrow.FixedWidthDataType:
		need[1] = (t.BitWidth()*count + 7) / 8
	}
	for i, b := range d.Buffers() {
		if i >= len(need) || b == nil && i == 0 { // texts themselves; all values are there
			continue
		}
		if b == nil || b.Len() < need[i] && !(i == 0 && b.Len() == 0 && d.NullN() == 0) {
			return fmt.Errorf("buffer %d is too short", i)
		}
	}
	return nil
}

func soundTexts(s *array.String) error {
	offsets, texts := s.ValueOffsets(), s.ValueBytes()
	whole := s.Data().Buffers()[2]
	last := int32(0)
	for _, at := range offsets {
		if at < last || whole == nil && at > 0 || whole != nil && int(at) > whole.Len() {
			return fmt.Errorf("a text ends at %d", at)
		}
		last = at
	}
	if !utf8.Valid(texts) {
		return fmt.Errorf("a text is not UTF-8")
	}
	return nil
}
