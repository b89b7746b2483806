package store

import (
	"fmt"
	"slices"
	"strconv"
	"unsafe"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/model"
)

// sheet is a chunk of up to a vector's size of rows on its way into a table, column by column, by plain stores into
// DuckDB's memory: no call into C for a value.
type sheet struct {
	app   duck.Appender
	table string
	chunk duck.DataChunk
	width []uintptr // bytes of a value, by column
	col   int       // the column to be filled next
	n     int
	bad   error // a row that can't be stored
}

// fill appends rows to a table of schema store. columns must fill every column, in order.
func fill[T any](c *conn, table string, rows []T, columns func(*sheet, []T)) error {
	if len(rows) == 0 {
		return nil
	}
	s, err := newSheet(c, "store", table)
	if err != nil {
		return err
	}
	defer s.close()
	for part := range slices.Chunk(rows, int(duck.VectorSize())) {
		if err := s.append(len(part), func() { columns(s, part) }); err != nil {
			return err
		}
	}
	return s.finish()
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

// close frees the sheet; after finish there is nothing left to be written.
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

// put fills a column that has no NULL.
func put[T, V any](s *sheet, rows []T, get func(*T) V) {
	_, out := column[V](s)
	for i := range out {
		out[i] = get(&rows[i])
	}
}

// putOr fills a column in which null means NULL.
func putOr[T any, V comparable](s *sheet, rows []T, null V, get func(*T) V) {
	v, out := column[V](s)
	var valid []uint64
	for i := range out {
		x := get(&rows[i])
		out[i] = x
		if x != null {
			continue
		}
		if valid == nil {
			duck.VectorEnsureValidityWritable(v)
			valid = unsafe.Slice((*uint64)(duck.VectorGetValidity(v)), (s.n+63)/64)
		}
		valid[i/64] &^= 1 << (i % 64)
	}
}

// putSize fills a column of bytes, ns or counts in which model.Null is NULL.
func putSize[T any](s *sheet, rows []T, get func(*T) int64) { putOr(s, rows, model.Null, get) }

// putText fills a text column, at a call into C for each: for tables of few rows.
func putText[T any](s *sheet, rows []T, get func(*T) string) {
	v, _ := column[text](s)
	for i := range rows {
		duck.VectorAssignStringElementLen(v, duck.IdxT(i), []byte(utf8Only(get(&rows[i]))))
	}
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

// device is a device's code; every negative number is the host, whose code is 0.
func device(d int8) uint8 {
	if d < 0 {
		return 0
	}
	return deviceCode[d]
}

func nameColumns(s *sheet, rows []model.Name) {
	put(s, rows, func(r *model.Name) int32 { return r.ID })
	putText(s, rows, func(r *model.Name) string { return r.Text })
}

func (w *writer) traceColumns(s *sheet, rows []model.Trace) {
	put(s, rows, func(r *model.Trace) int64 { return r.Time })
	put(s, rows, func(r *model.Trace) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.Trace) int32 { return r.Rank })
	putOr(s, rows, -1, func(r *model.Trace) int32 { return r.World })
	put(s, rows, func(r *model.Trace) int64 { return r.Step })
	put(s, rows, func(r *model.Trace) int32 { return r.Micro })
	put(s, rows, func(r *model.Trace) int32 { return r.Seq })
	put(s, rows, w.module(s))
	put(s, rows, s.stage)
	put(s, rows, func(r *model.Trace) uint8 { return device(r.Device) })
	putSize(s, rows, func(r *model.Trace) int64 { return r.Allocated })
	putSize(s, rows, func(r *model.Trace) int64 { return r.MaxAllocated })
	putSize(s, rows, func(r *model.Trace) int64 { return r.Cached })
	putSize(s, rows, func(r *model.Trace) int64 { return r.MaxCached })
	putSize(s, rows, func(r *model.Trace) int64 { return r.AllocatedDelta })
	putSize(s, rows, func(r *model.Trace) int64 { return r.MaxAllocatedDelta })
	putSize(s, rows, func(r *model.Trace) int64 { return r.OffsetNS })
	putSize(s, rows, func(r *model.Trace) int64 { return r.DurationNS })
}

// module looks names up; neighbouring rows (pre and post of one module) often share one.
func (w *writer) module(s *sheet) func(*model.Trace) text {
	last, id := w.names[0], int32(0)
	return func(r *model.Trace) text {
		if r.Module != id {
			known := false
			if last, known = w.names[r.Module]; !known {
				s.bad = fmt.Errorf("trace row of pid %d, step %d: there is no name %d", r.PID, r.Step, r.Module)
			}
			id = r.Module
		}
		return last
	}
}

func (s *sheet) stage(r *model.Trace) uint8 {
	if int(r.Stage) >= len(stageCode) {
		s.bad = fmt.Errorf("trace row of pid %d, step %d: there is no stage %d", r.PID, r.Step, r.Stage)
		return 0
	}
	return stageCode[r.Stage]
}

func stepColumns(s *sheet, rows []model.Step) {
	put(s, rows, func(r *model.Step) int64 { return r.Time })
	put(s, rows, func(r *model.Step) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.Step) int32 { return r.Rank })
	putOr(s, rows, -1, func(r *model.Step) int32 { return r.World })
	put(s, rows, func(r *model.Step) int64 { return r.Step })
	put(s, rows, func(r *model.Step) int32 { return r.Steps })
	putSize(s, rows, func(r *model.Step) int64 { return r.DurationNS })
	put(s, rows, func(r *model.Step) bool { return r.Sampled })
	put(s, rows, func(r *model.Step) bool { return r.Inference })
	put(s, rows, func(r *model.Step) uint8 { return device(r.Device) })
	for _, get := range []func(*model.Step) int64{
		func(r *model.Step) int64 { return r.Allocated },
		func(r *model.Step) int64 { return r.MaxAllocated },
		func(r *model.Step) int64 { return r.Reserved },
		func(r *model.Step) int64 { return r.MaxReserved },
		func(r *model.Step) int64 { return r.RSS },
		func(r *model.Step) int64 { return r.Anon },
		func(r *model.Step) int64 { return r.MaxRSS },
		func(r *model.Step) int64 { return r.HeapInUse },
		func(r *model.Step) int64 { return r.HeapHeld },
		func(r *model.Step) int64 { return r.PyBlocks },
		func(r *model.Step) int64 { return r.GCCollections },
		func(r *model.Step) int64 { return r.GCFull },
		func(r *model.Step) int64 { return r.AgentNS },
	} {
		putSize(s, rows, get)
	}
}

func stepDeviceColumns(s *sheet, rows []model.StepDevice) {
	put(s, rows, func(r *model.StepDevice) int64 { return r.Time })
	put(s, rows, func(r *model.StepDevice) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.StepDevice) int32 { return r.Rank })
	put(s, rows, func(r *model.StepDevice) int64 { return r.Step })
	put(s, rows, func(r *model.StepDevice) int32 { return r.Steps })
	put(s, rows, func(r *model.StepDevice) bool { return r.Inference })
	put(s, rows, func(r *model.StepDevice) uint8 { return device(r.Device) })
	putSize(s, rows, func(r *model.StepDevice) int64 { return r.Allocated })
	putSize(s, rows, func(r *model.StepDevice) int64 { return r.MaxAllocated })
	putSize(s, rows, func(r *model.StepDevice) int64 { return r.Reserved })
	putSize(s, rows, func(r *model.StepDevice) int64 { return r.MaxReserved })
}

func eventColumns(s *sheet, rows []model.Event) {
	put(s, rows, func(r *model.Event) int64 { return r.Time })
	putOr(s, rows, 0, func(r *model.Event) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.Event) int32 { return r.Rank })
	putText(s, rows, func(r *model.Event) string { return r.Name })
	putText(s, rows, func(r *model.Event) string { return r.Text })
	putSize(s, rows, func(r *model.Event) int64 { return r.A })
	putSize(s, rows, func(r *model.Event) int64 { return r.B })
}

func overheadColumns(s *sheet, rows []model.Overhead) {
	put(s, rows, func(r *model.Overhead) int64 { return r.Time })
	putOr(s, rows, 0, func(r *model.Overhead) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.Overhead) int32 { return r.Rank })
	putText(s, rows, func(r *model.Overhead) string { return r.Part })
	put(s, rows, func(r *model.Overhead) int64 { return r.NS })
	put(s, rows, func(r *model.Overhead) int64 { return r.Count })
	put(s, rows, func(r *model.Overhead) int64 { return r.Steps })
	put(s, rows, func(r *model.Overhead) int64 { return r.CoveredNS })
	putSize(s, rows, func(r *model.Overhead) int64 { return r.Gap })
	put(s, rows, func(r *model.Overhead) bool { return r.Measured })
}

func dropColumns(s *sheet, rows []model.Drop) {
	put(s, rows, func(r *model.Drop) int64 { return r.Time })
	putOr(s, rows, 0, func(r *model.Drop) int32 { return r.PID })
	putText(s, rows, func(r *model.Drop) string { return r.Source })
	putText(s, rows, func(r *model.Drop) string { return r.Reason })
	put(s, rows, func(r *model.Drop) int64 { return r.Records })
	putText(s, rows, func(r *model.Drop) string { return r.Detail })
}

func processColumns(s *sheet, rows []model.Process) {
	put(s, rows, func(r *model.Process) int32 { return r.PID })
	put(s, rows, func(r *model.Process) int64 { return r.StartTicks })
	putOr(s, rows, 0, func(r *model.Process) int32 { return r.PPID })
	putOr(s, rows, 0, func(r *model.Process) int32 { return r.Parent })
	putOr(s, rows, -1, func(r *model.Process) int32 { return r.Rank })
	putOr(s, rows, -1, func(r *model.Process) int32 { return r.LocalRank })
	putOr(s, rows, -1, func(r *model.Process) int32 { return r.World })
	putOr(s, rows, 0, func(r *model.Process) int64 { return r.Started })
	putSize(s, rows, func(r *model.Process) int64 { return r.Ended })
	for _, get := range []func(*model.Process) string{
		func(r *model.Process) string { return r.End },
		func(r *model.Process) string { return r.Argv },
		func(r *model.Process) string { return r.Cwd },
		func(r *model.Process) string { return r.Executable },
		func(r *model.Process) string { return r.Python },
		func(r *model.Process) string { return r.Agent },
	} {
		putText(s, rows, get)
	}
}
