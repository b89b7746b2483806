package store

import (
	"fmt"
	"math/big"
	"time"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// decoder turns DuckDB's vectors into Go values. It reads C memory that belongs to the loaded chunk; the values that it
// gives are copies.
type decoder struct {
	columns []model.Column
	readers []reader
	size    int
}

// reader reads one column or a nested part of one.
type reader interface {
	load(v duck.Vector)
	value(i int) any // of a row that is not NULL
	null(i int) bool
}

func newDecoder(res *duck.Result) *decoder {
	d := &decoder{}
	for i := range duck.ColumnCount(res) {
		t := duck.ColumnLogicalType(res, i)
		d.columns = append(d.columns, model.Column{Name: duck.ColumnName(res, i), Type: typeName(t)})
		d.readers = append(d.readers, newReader(t))
		duck.DestroyLogicalType(&t)
	}
	return d
}

func (d *decoder) load(chunk duck.DataChunk) {
	d.size = int(duck.DataChunkGetSize(chunk))
	for i, r := range d.readers {
		r.load(duck.DataChunkGetVector(chunk, duck.IdxT(i)))
	}
}

// row decodes row i of the loaded chunk.
func (d *decoder) row(i int) ([]any, error) {
	row := make([]any, len(d.readers))
	for c, r := range d.readers {
		row[c] = get(r, i)
		if u, bad := row[c].(unreadable); bad {
			return nil, remedy.Add(&Error{Msg: fmt.Sprintf("column %q has type %s, which can't be shown",
				d.columns[c].Name, string(u))},
				"cast it: "+d.columns[c].Name+"::VARCHAR")
		}
	}
	return row, nil
}

func (d *decoder) close() { d.readers = nil }

func get(r reader, i int) any {
	if r.null(i) {
		return nil
	}
	return r.value(i)
}

// unreadable is the name of a type that we can't decode, in place of its value.
type unreadable string

// base is what every reader has: the vector's data and its validity bits.
type base struct {
	data, valid unsafe.Pointer
}

func (b *base) load(v duck.Vector) {
	b.data, b.valid = duck.VectorGetData(v), duck.VectorGetValidity(v)
}

func (b *base) null(i int) bool {
	return b.valid != nil && *at[uint64](b.valid, i/64)&(1<<(i%64)) == 0
}

// at is element i of a C array.
func at[T any](p unsafe.Pointer, i int) *T {
	return (*T)(unsafe.Add(p, uintptr(i)*unsafe.Sizeof(*new(T))))
}

// flat reads a type whose values lie side by side, as T.
type flat[T any] struct {
	base
	convert func(*T) any
}

func (f *flat[T]) value(i int) any { return f.convert(at[T](f.data, i)) }

func newFlat[T any](convert func(*T) any) reader { return &flat[T]{convert: convert} }

type huge struct {
	lower uint64
	upper int64
}

func (h *huge) big() *big.Int {
	n := big.NewInt(h.upper)
	n.Lsh(n, 64)
	return n.Add(n, new(big.Int).SetUint64(h.lower))
}

// text is duckdb_string_t: up to 12 bytes lie in it, of longer ones four and a pointer to all.
type text struct {
	length uint32
	prefix [4]byte
	rest   uint64 // eight more bytes, or the pointer
}

const inlineText = 12

// inline returns the bytes of a short text, which lie in the struct itself.
func (t *text) inline() *[inlineText]byte { return (*[inlineText]byte)(unsafe.Pointer(&t.prefix)) }

// far returns the address of a long text's pointer.
func (t *text) far() *unsafe.Pointer { return (*unsafe.Pointer)(unsafe.Pointer(&t.rest)) }

func (t *text) bytes() []byte {
	if t.length <= inlineText {
		return t.inline()[:t.length]
	}
	return unsafe.Slice((*byte)(*t.far()), t.length)
}

// newReader chooses by type; scalars first.
func newReader(t duck.LogicalType) reader {
	switch duck.GetTypeId(t) {
	case duck.TypeBoolean:
		return newNumbers(func(p *uint8) any { return *p != 0 })
	case duck.TypeTinyInt:
		return newNumbers(func(p *int8) any { return int64(*p) })
	case duck.TypeSmallInt:
		return newNumbers(func(p *int16) any { return int64(*p) })
	case duck.TypeInteger:
		return newNumbers(func(p *int32) any { return int64(*p) })
	case duck.TypeBigInt:
		return newNumbers(func(p *int64) any { return *p })
	case duck.TypeUTinyInt:
		return newNumbers(func(p *uint8) any { return uint64(*p) })
	case duck.TypeUSmallInt:
		return newNumbers(func(p *uint16) any { return uint64(*p) })
	case duck.TypeUInteger:
		return newNumbers(func(p *uint32) any { return uint64(*p) })
	case duck.TypeUBigInt:
		return newNumbers(func(p *uint64) any { return *p })
	case duck.TypeFloat:
		return newNumbers(func(p *float32) any { return *p })
	case duck.TypeDouble:
		return newNumbers(func(p *float64) any { return *p })
	case duck.TypeHugeInt:
		return newFlat(func(p *huge) any { return p.big() })
	case duck.TypeVarchar:
		return newFlat(func(p *text) any { return string(p.bytes()) })
	case duck.TypeBlob:
		return newFlat(func(p *text) any { return append([]byte{}, p.bytes()...) })
	case duck.TypeSQLNull:
		return newFlat(func(*uint8) any { return nil })
	}
	if r := newTimeReader(duck.GetTypeId(t)); r != nil {
		return r
	}
	if r := newOddReader(t); r != nil {
		return r
	}
	if r := newNestedReader(t); r != nil {
		return r
	}
	name := unreadable(typeName(t))
	return newFlat(func(*uint8) any { return name })
}

const (
	never   = 1<<63 - 1 // DuckDB's infinity in a timestamp; minus that: -infinity
	neverIn = 1<<31 - 1 // in a date
)

func newTimeReader(t duck.Type) reader {
	stamp := func(unit time.Duration) reader {
		return newFlat(func(p *int64) any { return timestamp(*p, unit) })
	}
	switch t {
	case duck.TypeTimestamp, duck.TypeTimestampTZ:
		return stamp(time.Microsecond)
	case duck.TypeTimestampS:
		return stamp(time.Second)
	case duck.TypeTimestampMS:
		return stamp(time.Millisecond)
	case duck.TypeTimestampNS:
		return stamp(time.Nanosecond)
	case duck.TypeDate:
		return newFlat(func(p *int32) any { return date(*p) })
	case duck.TypeTime:
		return newFlat(func(p *int64) any { return clock(*p*1000, 6) })
	case duck.TypeTimeNS:
		return newFlat(func(p *int64) any { return clock(*p, 9) })
	case duck.TypeTimeTZ:
		return newFlat(func(p *uint64) any { return clockTZ(*p) })
	case duck.TypeInterval:
		return newFlat(func(p *interval) any { return p.String() })
	}
	return nil
}

func timestamp(n int64, unit time.Duration) any {
	switch n {
	case never:
		return "infinity"
	case -never:
		return "-infinity"
	}
	per := int64(time.Second / unit)
	sec, rest := n/per, n%per
	return time.Unix(sec, rest*int64(unit)).UTC()
}

func date(days int32) any {
	switch days {
	case neverIn:
		return "infinity"
	case -neverIn:
		return "-infinity"
	}
	return time.Unix(int64(days)*86400, 0).UTC()
}

// clock writes a time of day with as many digits as it needs, up to limit.
func clock(ns int64, limit int) string {
	s := fmt.Sprintf("%02d:%02d:%02d", ns/3600e9, ns/60e9%60, ns/1e9%60)
	return s + fraction(ns%1e9, limit)
}

func fraction(ns int64, limit int) string {
	if ns == 0 {
		return ""
	}
	digits := fmt.Sprintf("%09d", ns)[:limit]
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return "." + digits
}

// clockTZ is a time of day with its offset: 40 bits of µs, 24 of (max offset - offset) in seconds.
func clockTZ(bits uint64) string {
	const maxOffset = 16*3600 - 1
	offset := maxOffset - int(bits&(1<<24-1))
	sign := "+"
	if offset < 0 {
		sign, offset = "-", -offset
	}
	zone := fmt.Sprintf("%s%02d", sign, offset/3600)
	if m := offset / 60 % 60; m != 0 || offset%60 != 0 {
		zone += fmt.Sprintf(":%02d", m)
	}
	if s := offset % 60; s != 0 {
		zone += fmt.Sprintf(":%02d", s)
	}
	return clock(int64(bits>>24)*1000, 6) + zone
}

type interval struct {
	months, days int32
	micros       int64
}

// String formats like DuckDB: "1 year 2 months 3 days 04:05:06.5".
func (v *interval) String() string {
	var s string
	part := func(n int32, unit string) {
		if n == 0 {
			return
		}
		if s != "" {
			s += " "
		}
		s += fmt.Sprintf("%d %s", n, unit)
		if n != 1 && n != -1 {
			s += "s"
		}
	}
	part(v.months/12, "year")
	part(v.months%12, "month")
	part(v.days, "day")
	if v.micros == 0 && s != "" {
		return s
	}
	if s != "" {
		s += " "
	}
	us := v.micros
	if us < 0 {
		s += "-"
	}
	abs := uint64(us)
	if us < 0 {
		abs = -abs
	}
	return s + fmt.Sprintf("%02d:%02d:%02d", abs/3600e6, abs/60e6%60, abs/1e6%60) + fraction(int64(abs%1e6)*1000, 6)
}
