package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// What a frame packs are its columns, one after the other. A column is one of these bytes, the bits that say which rows
// have a value (the lowest first) where the byte says so, and the values, little-endian, one for each row: those of
// NULLs mean nothing. Of texts there are the lengths, 4 bytes each, and then their bytes, in UTF-8.
const (
	noValues   = 0 // all rows are NULL, and nothing follows
	allValues  = 1 // no row is NULL, and there are no bits
	someValues = 2
)

// encodeRows is what a frame of the rows packs.
func encodeRows(r Rows) []byte {
	size := 0
	for k := range r.Width() {
		c := r.Column(k)
		size += c.room()
	}
	raw := make([]byte, 0, size)
	for k := range r.Width() {
		c := r.Column(k)
		raw = c.encode(raw)
	}
	return raw
}

// room is how many bytes the column takes at most.
func (c *Column) room() int {
	switch {
	case c.empty:
		return 1
	case c.Type == Text:
		return 1 + (c.n+7)/8 + 4*c.n + int(c.ends[c.from+c.n]-c.ends[c.from])
	}
	return 1 + (c.n+7)/8 + c.n*c.Type.size()
}

func (c *Column) encode(raw []byte) []byte {
	switch {
	case c.empty:
		return append(raw, noValues)
	case c.has == nil:
		raw = append(raw, allValues)
	default:
		raw = append(raw, someValues)
		bits := len(raw)
		raw = append(raw, make([]byte, (c.n+7)/8)...)
		for row := range c.n {
			if !c.Null(row) {
				raw[bits+row/8] |= 1 << (row % 8)
			}
		}
	}
	if size := c.Type.size(); size > 0 {
		return append(raw, c.values[size*c.from:size*(c.from+c.n)]...)
	}
	ends := c.ends[c.from : c.from+c.n+1]
	for row := range c.n {
		raw = binary.LittleEndian.AppendUint32(raw, ends[row+1]-ends[row])
	}
	return append(raw, c.values[ends[0]:ends[c.n]]...)
}

// decodeRows reads rows of the columns. They share the bytes of raw.
func decodeRows(fields []Field, raw []byte, count int) (Rows, error) {
	r, rest := Rows{columns: make([]Column, len(fields)), n: count}, packed(raw)
	for k, f := range fields {
		c, err := rest.column(f, count)
		if err != nil {
			return Rows{}, fmt.Errorf("%w: column %s: %w", ErrCorrupt, f.Name, err)
		}
		r.columns[k] = c
	}
	if len(rest) > 0 {
		return Rows{}, fmt.Errorf("%w: %d bytes too many", ErrCorrupt, len(rest))
	}
	return r, nil
}

// packed is what is left of the rows of a frame.
type packed []byte

var errShort = errors.New("it ends too early")

func (p *packed) take(n int) ([]byte, error) {
	if n > len(*p) {
		return nil, errShort
	}
	b := (*p)[:n:n]
	*p = (*p)[n:]
	return b, nil
}

func (p *packed) column(f Field, count int) (c Column, err error) {
	c = Column{Field: f, n: count}
	flag, err := p.take(1)
	if err != nil {
		return c, err
	}
	switch flag[0] {
	case noValues:
		c.empty = true
		return c, nil
	case allValues:
	case someValues:
		if c.has, err = p.take((count + 7) / 8); err != nil {
			return c, err
		}
		if count%8 > 0 && c.has[count/8]>>(count%8) != 0 {
			return c, errors.New("it has values beyond the last row")
		}
	default:
		return c, fmt.Errorf("it begins with %d", flag[0])
	}
	if f.Type == Text {
		return c, p.texts(&c)
	}
	if c.values, err = p.take(count * f.Type.size()); err != nil {
		return c, err
	}
	if f.Type == Bool {
		for _, v := range c.values {
			if v > 1 {
				return c, fmt.Errorf("a boolean is %d", v)
			}
		}
	}
	return c, nil
}

// texts reads the values of a column of texts.
func (p *packed) texts(c *Column) error {
	lengths, err := p.take(4 * c.n)
	if err != nil {
		return err
	}
	end := uint64(0)
	c.ends = make([]uint32, c.n+1)
	for row := range c.n {
		end += uint64(binary.LittleEndian.Uint32(lengths[4*row:]))
		if end > uint64(len(*p)) {
			return errShort
		}
		c.ends[row+1] = uint32(end)
	}
	if c.values, err = p.take(int(end)); err != nil {
		return err
	}
	whole := utf8.Valid(c.values)
	for row := 0; whole && row < c.n; row++ { // none ends within a character
		at := int(c.ends[row])
		whole = at == len(c.values) || utf8.RuneStart(c.values[at])
	}
	if !whole {
		return errors.New("a text is not UTF-8")
	}
	return nil
}
