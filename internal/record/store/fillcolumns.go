package store

import (
	"context"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// This file fills tables from data that is already stored by column: a value is read by the number of its row.

// fillTable appends rows 0 to n-1. columns is called for each chunk: it fills all columns in order, with s.n rows
// beginning at from.
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

// ranges appends rows in chunks. fill gets the first row of a chunk; s.n is the number of its rows.
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

// eachOr fills a column; a value without ok becomes NULL.
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

// validity returns a vector's validity mask after it has set every row valid.
func (s *sheet) validity(v duck.Vector) []uint64 {
	duck.VectorEnsureValidityWritable(v)
	return unsafe.Slice((*uint64)(duck.VectorGetValidity(v)), (s.n+63)/64)
}

// enum fills a column with codes of an enum, whose width depends on the enum's size (see maxEnum). noCode is NULL.
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

// texts fills a text column with a call into C for each value. It is for tables of few rows.
func (s *sheet) texts(get func(i int) string) {
	v, _ := column[text](s)
	for i := range s.n {
		duck.VectorAssignStringElementLen(v, duck.IdxT(i), []byte(utf8Only(get(i))))
	}
}
