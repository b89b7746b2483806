package outbox

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// sheet gathers rows of a table until they are a frame.
type sheet struct {
	head  frame.Header // of the next frame
	build *frame.Builder
	rows  int
	bytes int
	sent  int64 // rows in frames
	large int64 // rows that no frame can hold
}

func newSheet(t *table.Table, h frame.Header) (*sheet, error) {
	fields, err := frame.Schema(t)
	if err != nil {
		return nil, err
	}
	return &sheet{head: h, build: frame.NewBuilder(fields)}, nil
}

// row takes one as statement selects it: rank, then the table's other columns.
func (s *sheet) row(values []string) error {
	columns := s.build.Fields()
	const names = 2 // job and node stand before
	if len(values)+names != len(columns) {
		return fmt.Errorf("a row of %d columns, not %d", len(values), len(columns)-names)
	}
	s.build.Text(0, s.head.Job)
	s.build.Text(1, s.head.Node)
	for i, text := range values {
		if err := s.value(i+names, columns[i+names].Type, text); err != nil {
			return err
		}
		s.bytes += len(text) + 1
	}
	s.rows++
	return nil
}

// value adds one that is written as text.
func (s *sheet) value(k int, kind frame.Type, text string) error {
	if text == "" {
		s.build.Null(k)
		return nil
	}
	switch kind {
	case frame.Int64, frame.Int32, frame.Time:
		bits := 64
		if kind == frame.Int32 {
			bits = 32
		}
		n, err := number(text, bits)
		s.build.Int(k, n)
		return err
	case frame.Float64:
		x, err := strconv.ParseFloat(text, 64)
		s.build.Float(k, x)
		return err
	case frame.Bool:
		s.build.Bool(k, text == "true")
		return nil
	case frame.Text:
		text = text[1:]
		if strings.IndexByte(text, '\\') >= 0 {
			text = unescape.Replace(text)
		}
		s.build.Text(k, text)
		return nil
	}
	return fmt.Errorf("a column of type %s", kind)
}

// flush makes a frame of the rows, if there are any.
func (s *sheet) flush(p *pack) error {
	if s.rows == 0 {
		return nil
	}
	s.rows, s.bytes = 0, 0
	return s.encode(s.build.Rows(), p)
}

// encode writes one frame, or where that is too large one of each half. A row that no frame can hold keeps its number,
// which then never comes.
func (s *sheet) encode(rows frame.Rows, p *pack) error {
	h, n := s.head, rows.Len()
	h.Count = n
	data, err := frame.Encode(frame.Batch{Header: h, Rows: rows})
	switch {
	case err == nil:
		s.head.First += uint64(n)
		s.sent += int64(n)
		return p.add(data)
	case n == 1:
		s.head.First++
		s.large++
		return nil
	}
	if err := s.encode(rows.Slice(0, n/2), p); err != nil {
		return err
	}
	return s.encode(rows.Slice(n/2, n), p)
}
