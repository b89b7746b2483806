package outbox

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/table"
)

// sheet gathers rows of a table until they are a frame.
type sheet struct {
	head  frame.Header // of the next frame
	build *array.RecordBuilder
	rows  int
	bytes int
	sent  int64 // rows in frames
	large int64 // rows that no frame can hold
}

func newSheet(t *table.Table, h frame.Header) (*sheet, error) {
	schema, err := frame.Schema(t)
	if err != nil {
		return nil, err
	}
	return &sheet{head: h, build: array.NewRecordBuilder(memory.NewGoAllocator(), schema)}, nil
}

func (s *sheet) close() { s.build.Release() }

// row takes one as statement selects it: rank, then the table's other columns.
func (s *sheet) row(fields []string) error {
	columns := s.build.Fields()
	const names = 2 // job and node stand before
	if len(fields)+names != len(columns) {
		return fmt.Errorf("a row of %d columns, not %d", len(fields), len(columns)-names)
	}
	columns[0].(*array.StringBuilder).Append(s.head.Job)
	columns[1].(*array.StringBuilder).Append(s.head.Node)
	for i, text := range fields {
		if err := appendText(columns[i+names], text); err != nil {
			return err
		}
		s.bytes += len(text) + 1
	}
	s.rows++
	return nil
}

func appendText(to array.Builder, text string) error {
	if text == "" {
		to.AppendNull()
		return nil
	}
	switch to := to.(type) {
	case *array.Int64Builder:
		n, err := number(text, 64)
		to.Append(n)
		return err
	case *array.TimestampBuilder:
		n, err := number(text, 64)
		to.Append(arrow.Timestamp(n))
		return err
	case *array.Int32Builder:
		n, err := number(text, 32)
		to.Append(int32(n))
		return err
	case *array.Float64Builder:
		x, err := strconv.ParseFloat(text, 64)
		to.Append(x)
		return err
	case *array.BooleanBuilder:
		to.Append(text == "true")
		return nil
	case *array.StringBuilder:
		text = text[1:]
		if strings.IndexByte(text, '\\') >= 0 {
			text = unescape.Replace(text)
		}
		to.Append(text)
		return nil
	}
	return fmt.Errorf("a column of type %s", to.Type())
}

// flush makes a frame of the rows, if there are any.
func (s *sheet) flush(p *pack) error {
	if s.rows == 0 {
		return nil
	}
	record := s.build.NewRecordBatch()
	defer record.Release()
	s.rows, s.bytes = 0, 0
	return s.encode(record, p)
}

// encode writes one frame, or where that is too large one of each half. A row that no frame can hold keeps its number,
// which then never comes.
func (s *sheet) encode(record arrow.RecordBatch, p *pack) error {
	h, n := s.head, record.NumRows()
	h.Count = int(n)
	data, err := frame.Encode(frame.Batch{Header: h, Record: record})
	switch {
	case err == nil:
		s.head.First += uint64(n)
		s.sent += n
		return p.add(data)
	case n == 1:
		s.head.First++
		s.large++
		return nil
	}
	for _, half := range [][2]int64{{0, n / 2}, {n / 2, n}} {
		part := record.NewSlice(half[0], half[1])
		err := s.encode(part, p)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
