package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/units"
)

// FlushEvery is how long a sender should gather batches before AppendAll: each call makes a file of every hour that it
// has rows of, and many small files make questions slow (a hundred times at one every half minute of each node).
const FlushEvery = time.Minute

// Options say how a lake is kept.
type Options struct {
	Location string        // a directory, or s3://BUCKET/PREFIX
	Grace    time.Duration // an hour is merged so long after its end; 0: 10 minutes, which clocks may differ by
	Linger   time.Duration // replaced files stay so long for readers that have listed them; 0: 5 minutes
	MaxAge   time.Duration // older hours are given up; 0: none
	MaxBytes int64         // the oldest hours beyond it are given up; 0: none
	Memory   int64         // bytes for a merge, which spills beyond; 0: 256 MiB
}

// Writer puts rows into a lake. It may be used by several goroutines.
type Writer struct {
	o     Options
	place place
	files atomic.Int64 // made by this process
	taken atomic.Int64 // rows stored by this process
	again atomic.Int64 // rows left out because they had come before
	mu    struct {
		sync.Mutex
		parts map[hour]*part
	}
}

// part is a partition that rows have come for. Its lock is taken after the writer's is let go.
type part struct {
	sync.Mutex
	loaded     bool
	generation int
	rows       ledger
}

// New opens a lake for writing. A directory is locked: a lake has one writer.
func New(ctx context.Context, o Options) (*Writer, error) {
	if o.Grace <= 0 {
		o.Grace = 10 * time.Minute
	}
	if o.Linger <= 0 {
		o.Linger = 5 * time.Minute
	}
	if o.Memory <= 0 {
		o.Memory = int64(256 * units.MiB)
	}
	p, err := openPlace(ctx, o.Location, true)
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, place: p}
	w.mu.parts = map[hour]*part{}
	return w, nil
}

// Counts are rows that this writer stored, and those that it left out because they had come before.
func (w *Writer) Counts() (stored, again int64) { return w.taken.Load(), w.again.Load() }

// Close lets go of the lake.
func (w *Writer) Close() error { return w.place.close() }

// Append is AppendAll of one batch.
func (w *Writer) Append(ctx context.Context, b frame.Batch) error {
	return w.AppendAll(ctx, []frame.Batch{b})
}

// AppendAll takes batches over: when it returns nil every row is durable, and each is there once, also those that came
// before. After an error some may be; the same batches are to be sent again.
func (w *Writer) AppendAll(ctx context.Context, batches []frame.Batch) error {
	byHour := map[hour][]piece{}
	defer func() {
		for _, pieces := range byHour {
			for _, p := range pieces {
				p.rows.Release()
			}
		}
	}()
	for _, b := range batches {
		if err := split(b, byHour); err != nil {
			return err
		}
	}
	for h, pieces := range byHour {
		if err := w.store(ctx, h, pieces); err != nil {
			return fmt.Errorf("append to the lake %s: %w", w.place.text(), err)
		}
	}
	return nil
}

// piece is rows of one stream that lie in one hour, with the number of the first.
type piece struct {
	stream  string
	session string
	first   uint64
	rows    arrow.RecordBatch
}

func (p piece) span() span { return span{p.first, p.first + uint64(p.rows.NumRows()) - 1} }

func (p piece) slice(s span) piece {
	return piece{p.stream, p.session, s[0], p.rows.NewSlice(int64(s[0]-p.first), int64(s[1]-p.first+1))}
}

// split sorts a batch's rows by hour; rows that follow each other stay together.
func split(b frame.Batch, into map[hour][]piece) error {
	dir := directoryOf(b.Table)
	if dir == "" {
		return fmt.Errorf("append to the lake: there is no table %s", b.Table)
	}
	whole := piece{b.Node + "/" + b.Session, b.Session, b.First, b.Record}
	times := timesOf(b.Record)
	from := 0
	for i := 1; i <= int(b.Record.NumRows()); i++ {
		if i < int(b.Record.NumRows()) && hourAt(times, i).Equal(hourAt(times, from)) {
			continue
		}
		h := hour{dir, b.Job, hourAt(times, from)}
		into[h] = append(into[h], whole.slice(span{b.First + uint64(from), b.First + uint64(i) - 1}))
		from = i
	}
	return nil
}

// timesOf is the column that says when a row was: ts, or else the first time that it has.
func timesOf(r arrow.RecordBatch) (times *array.Timestamp) {
	for i := range int(r.NumCols()) {
		if t, ok := r.Column(i).(*array.Timestamp); ok && (times == nil || r.ColumnName(i) == "ts") {
			times = t
		}
	}
	return times
}

// The years that are written with four digits; a clock that says another one has none.
var (
	firstHour = time.Unix(0, 0).UTC()
	lastHour  = time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
)

// hourAt is the hour of a row; that of the epoch for one without a time.
func hourAt(times *array.Timestamp, row int) time.Time {
	if times == nil || times.IsNull(row) {
		return firstHour
	}
	t := time.UnixMicro(int64(times.Value(row))).UTC().Truncate(time.Hour)
	if t.Before(firstHour) || t.After(lastHour) {
		return firstHour
	}
	return t
}

// part finds or makes the entry of a partition, locked and loaded.
func (w *Writer) part(ctx context.Context, h hour) (*part, error) {
	w.mu.Lock()
	p := w.mu.parts[h]
	if p == nil {
		p = &part{}
		w.mu.parts[h] = p
	}
	w.mu.Unlock()
	p.Lock()
	if p.loaded {
		return p, nil
	}
	if err := w.load(ctx, h, p); err != nil {
		p.Unlock()
		return nil, err
	}
	return p, nil
}

// load learns from the files themselves which rows a partition has: after a crash nothing else knows.
func (w *Writer) load(ctx context.Context, h hour, p *part) error {
	files, err := w.place.list(ctx, h.dir())
	if err != nil {
		return err
	}
	c := sortOut(files)[h]
	if c == nil {
		c = &content{}
	}
	m, err := readMarker(ctx, w.place, c)
	if err != nil {
		return err
	}
	for _, f := range c.raw {
		rows, err := rowsOf(ctx, w.place, f.name)
		if err != nil {
			return err
		}
		m.Rows.addAll(rows)
	}
	p.loaded, p.generation, p.rows = true, c.generation, m.Rows
	return nil
}

// store makes files of the pieces' rows that the partition does not have yet: one for each schema, which is one unless
// nodes have different versions.
func (w *Writer) store(ctx context.Context, h hour, pieces []piece) error {
	p, err := w.part(ctx, h)
	if err != nil {
		return err
	}
	defer p.Unlock()
	taken := ledger{}
	taken.addAll(p.rows)
	bySchema := map[string][]piece{}
	defer func() {
		for _, list := range bySchema {
			for _, x := range list {
				x.rows.Release()
			}
		}
	}()
	came, fresh := int64(0), int64(0)
	for _, x := range pieces {
		came += x.rows.NumRows()
		for _, s := range taken[x.stream].minus(x.span()) {
			fresh += int64(s[1] - s[0] + 1)
			key := x.rows.Schema().Fingerprint()
			bySchema[key] = append(bySchema[key], x.slice(s))
			taken.add(x.stream, s)
		}
	}
	for _, list := range bySchema {
		rows, err := w.file(ctx, h, p.generation, list)
		if err != nil {
			return err
		}
		p.rows.addAll(rows)
	}
	w.taken.Add(fresh)
	w.again.Add(came - fresh)
	return nil
}

// file makes one file durable and returns what it holds.
func (w *Writer) file(ctx context.Context, h hour, generation int, pieces []piece) (ledger, error) {
	rows := ledger{}
	for _, x := range pieces {
		rows.add(x.stream, x.span())
	}
	base := fmt.Sprintf("%d-%d-%d.parquet", time.Now().UnixNano(), os.Getpid(), w.files.Add(1))
	err := w.place.stage().Make(base, func(f *os.File) error { return writeParquet(f, pieces, rows) })
	if err == nil {
		err = w.place.put(ctx, h.dir()+tier(rawTier, generation)+base, base)
	}
	if err != nil {
		_ = w.place.stage().Remove(base) // a full disk needs the room
		return nil, err
	}
	return rows, nil
}

// Columns that a flushed file has besides the table's. A merged one has the session alone.
const (
	sessionColumn = "_session"
	rowColumn     = "_row"
)

// writeParquet makes a file of pieces of one schema. The job is in the partition's name, so the column goes.
func writeParquet(f *os.File, pieces []piece, rows ledger) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	schema := fileSchema(pieces[0].rows.Schema())
	// the caller closes the file: pqarrow's Close would close it a second time
	out, err := pqarrow.NewFileWriter(schema, &unclosed{f},
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	for _, x := range pieces {
		r := fileRows(schema, x)
		err := out.WriteBuffered(r)
		r.Release()
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := out.AppendKeyValueMetadata(rowsKey, string(text)); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}

// unclosed writes to a file and leaves it open.
type unclosed struct{ f *os.File }

func (u *unclosed) Write(b []byte) (int, error) { return u.f.Write(b) }

func fileSchema(s *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	for _, f := range s.Fields() {
		if f.Name != "job" {
			fields = append(fields, f)
		}
	}
	fields = append(fields, arrow.Field{Name: sessionColumn, Type: arrow.BinaryTypes.String},
		arrow.Field{Name: rowColumn, Type: arrow.PrimitiveTypes.Int64})
	return arrow.NewSchema(fields, nil)
}

func fileRows(schema *arrow.Schema, x piece) arrow.RecordBatch {
	var columns []arrow.Array
	for i := range int(x.rows.NumCols()) {
		if x.rows.ColumnName(i) != "job" {
			columns = append(columns, x.rows.Column(i))
		}
	}
	n := int(x.rows.NumRows())
	session := array.NewStringBuilder(memory.DefaultAllocator)
	defer session.Release()
	number := array.NewInt64Builder(memory.DefaultAllocator)
	defer number.Release()
	for i := range n {
		session.Append(x.session)
		number.Append(int64(x.first) + int64(i)) // the frame's bound leaves 2^62
	}
	last := []arrow.Array{session.NewArray(), number.NewArray()}
	defer func() { last[0].Release(); last[1].Release() }()
	return array.NewRecordBatch(schema, append(columns, last...), int64(n))
}
