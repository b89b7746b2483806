package store

import (
	"fmt"
	"slices"
	"strconv"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// sheet fills one chunk of rows (at most DuckDB's vector size) column by column. It writes directly into DuckDB's
// memory, so that no value needs a call into C.
type sheet struct {
	app   duck.Appender
	table string
	chunk duck.DataChunk
	width []uintptr // bytes of a value, by column
	col   int       // the column to be filled next
	n     int
	bad   error // a row that can't be stored
}

// newSheet begins to append to a table.
func newSheet(c *conn, schema, table string) (*sheet, error) {
	s := &sheet{table: table}
	if duck.AppenderCreateExt(c.c, "", schema, table, &s.app) == duck.StateError {
		err := appendError(s.app, table)
		duck.AppenderDestroy(&s.app)
		return nil, err
	}
	s.open()
	return s, nil
}

// append adds a chunk of n rows, whose columns are filled by columns.
func (s *sheet) append(n int, columns func()) error {
	duck.DataChunkReset(s.chunk)
	s.col, s.n = 0, n
	columns()
	if s.col != len(s.width) {
		panic(fmt.Sprintf("%s: %d of %d columns were filled", s.table, s.col, len(s.width)))
	}
	if s.bad != nil {
		return s.bad
	}
	duck.DataChunkSetSize(s.chunk, duck.IdxT(n))
	if duck.AppendDataChunk(s.app, s.chunk) == duck.StateError {
		return appendError(s.app, s.table)
	}
	return nil
}

// finish hands over what was appended.
func (s *sheet) finish() error {
	if duck.AppenderClose(s.app) == duck.StateError {
		return appendError(s.app, s.table)
	}
	return nil
}

// close frees the sheet. Without finish, the caller rolls the transaction back.
func (s *sheet) close() {
	duck.DestroyDataChunk(&s.chunk)
	duck.AppenderDestroy(&s.app)
}

// open makes a chunk of the table's own types, so that DuckDB has nothing to convert.
func (s *sheet) open() {
	var types []duck.LogicalType
	for i := range duck.AppenderColumnCount(s.app) {
		t := duck.AppenderColumnType(s.app, i)
		types = append(types, t)
		s.width = append(s.width, width(t))
	}
	s.chunk = duck.CreateDataChunk(types)
	for i := range types {
		duck.DestroyLogicalType(&types[i])
	}
}

func width(l duck.LogicalType) uintptr {
	t := duck.GetTypeId(l)
	if t == duck.TypeEnum {
		t = duck.EnumInternalType(l)
	}
	switch t {
	case duck.TypeBoolean, duck.TypeUTinyInt:
		return 1
	case duck.TypeUSmallInt:
		return 2
	case duck.TypeInteger, duck.TypeUInteger:
		return 4
	case duck.TypeVarchar:
		return unsafe.Sizeof(text{})
	}
	return 8
}

// column is the next column's memory.
func column[V any](s *sheet) (duck.Vector, []V) {
	if w := unsafe.Sizeof(*new(V)); w != s.width[s.col] {
		panic(fmt.Sprintf("store.%s: column %d holds %d bytes, not %d", s.table, s.col, s.width[s.col], w))
	}
	v := duck.DataChunkGetVector(s.chunk, duck.IdxT(s.col))
	s.col++
	return v, unsafe.Slice((*V)(duck.VectorGetData(v)), s.n)
}

// deviceCode and stageCode are the values' places in the enums device and stage, which are alphabetical.
var (
	deviceCode = makeDeviceCodes()
	// by model.Stage: pre forward, post forward, pre step, post step, pre backward, post backward
	stageCode = [...]uint8{4, 1, 5, 2, 3, 0}
)

func makeDeviceCodes() (codes [128]uint8) {
	names := []string{"cpu"}
	for i := range 127 {
		names = append(names, "cuda:"+strconv.Itoa(i))
	}
	sorted := slices.Sorted(slices.Values(names))
	for i := range 127 {
		codes[i] = uint8(slices.Index(sorted, names[i+1]))
	}
	return codes
}

// device returns a device's code in the enum. Every negative number is the host, whose code is 0.
func device(d int8) uint8 {
	if d < 0 {
		return 0
	}
	return deviceCode[d]
}
