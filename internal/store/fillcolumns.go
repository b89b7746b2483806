package store

import (
	"context"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// This file fills columns by the number of the row, for tables whose rows lie in columns before they come here.

// fillTable appends rows 0 to n-1; columns fills every column of a chunk, in order, for s.n rows from a row on.
func fillTable(ctx context.Context, c *conn, schema, table string, n int, columns func(s *sheet, from int)) error {
	if n == 0 {
		return nil
	}
	s, err := newSheet(c, schema, table)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.ranges(ctx, 0, n, func(from int) { columns(s, from) }); err != nil {
		return err
	}
	return s.finish()
}

// ranges appends rows in chunks; fill is told the first of each, and s.n says how many there are.
func (s *sheet) ranges(ctx context.Context, from, to int, fill func(from int)) error {
	for ; from < to; from += s.n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.append(min(int(duck.VectorSize()), to-from), func() { fill(from) }); err != nil {
			return err
		}
	}
	return nil
}

// plain copies a column that has no NULL.
func plain[V any](s *sheet, from []V) {
	_, out := column[V](s)
	copy(out, from)
}

// each fills a column that has no NULL.
func each[V any](s *sheet, get func(i int) V) {
	_, out := column[V](s)
	for i := range out {
		out[i] = get(i)
	}
}

// eachOr fills a column; what is not ok is NULL.
func eachOr[V any](s *sheet, get func(i int) (v V, ok bool)) {
	v, out := column[V](s)
	var valid []uint64
	for i := range out {
		x, ok := get(i)
		out[i] = x
		if ok {
			continue
		}
		if valid == nil {
			valid = s.validity(v)
		}
		valid[i/64] &^= 1 << (i % 64)
	}
}

// validity is a vector's mask, with every row valid.
func (s *sheet) validity(v duck.Vector) []uint64 {
	duck.VectorEnsureValidityWritable(v)
	return unsafe.Slice((*uint64)(duck.VectorGetValidity(v)), (s.n+63)/64)
}

// enum fills a column of places in an enum, as wide as the enum is large (see maxEnum); noCode is NULL.
func (s *sheet) enum(get func(i int) uint32) {
	if s.width[s.col] == 1 {
		enumOf[uint8](s, get)
	} else {
		enumOf[uint16](s, get)
	}
}

func enumOf[V uint8 | uint16](s *sheet, get func(i int) uint32) {
	eachOr(s, func(i int) (V, bool) {
		code := get(i)
		if code == noCode {
			return 0, false // the first value: DuckDB looks at it even where it is NULL
		}
		return V(code), true
	})
}

// texts fills a text column, at a call into C for each: for tables of few rows.
func (s *sheet) texts(get func(i int) string) {
	v, _ := column[text](s)
	for i := range s.n {
		duck.VectorAssignStringElementLen(v, duck.IdxT(i), []byte(utf8Only(get(i))))
	}
}
