package lake

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// Flushed files are written here: flat columns, each row a value or NULL. DuckDB takes three times as long for one, and
// would have to run within the hub. Merges, which sort, are its work. The rows of a job lie in a group or some that
// follow each other, and each group says which jobs it has: a question about one reads no others.

// Numbers of parquet.thrift.
const (
	typeBoolean   = 0
	typeInt32     = 1
	typeInt64     = 2
	typeDouble    = 5
	typeBytes     = 6
	optional      = 1
	codecNone     = 0
	codecZstd     = 6
	encodingPlain = 0
	encodingRLE   = 3
	dataPage      = 0
)

const (
	// pageBytes ends a page: readers unpack one at a time.
	pageBytes = 1 << 20
	// tiny is a page that is not packed: of 25 columns most are NULL in every row, and take 6 bytes.
	tiny = 64
	// groupRows ends a group of rows, with the job that it has reached: a group takes 2 kB of the footer, and a
	// question reads it as a whole.
	groupRows = 4096
)

// physical is how values of a type lie in Parquet.
var physical = map[frame.Type]int64{frame.Int64: typeInt64, frame.Int32: typeInt32, frame.Float64: typeDouble,
	frame.Bool: typeBoolean, frame.Text: typeBytes, frame.Time: typeInt64}

// zstdPages packs pages. One goroutine suffices for what a hub flushes.
var zstdPages, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
	zstd.WithLowerEncoderMem(true))

// writeParquet makes a file of pieces, which are sorted by job: all of their table's columns, with the session and the
// number of each row.
func writeParquet(f io.Writer, pieces []piece, rows ledger) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	w := &parquetFile{out: bufio.NewWriterSize(f, 64<<10)}
	w.write([]byte(parquetMagic))
	from, n := 0, 0
	for i, p := range pieces {
		n += p.rows.Len()
		if last := i+1 == len(pieces); last || n >= groupRows && pieces[i+1].job != p.job {
			w.group(pieces[from : i+1])
			from, n = i+1, 0
		}
	}
	return w.close(string(text))
}

// group writes the rows of pieces as a group.
func (w *parquetFile) group(pieces []piece) {
	w.groups = append(w.groups, nil)
	for k, field := range pieces[0].rows.Fields() {
		c := w.column(field)
		if field.Name == jobColumn {
			c.first, c.last = pieces[0].job, pieces[len(pieces)-1].job
		}
		for _, p := range pieces {
			values := p.rows.Column(k)
			c.addAll(&values)
		}
		c.close()
	}
	session := w.column(frame.Field{Name: sessionColumn, Type: frame.Text})
	for _, p := range pieces {
		for range p.rows.Len() {
			session.text([]byte(p.session))
		}
	}
	session.close()
	number := w.column(frame.Field{Name: rowColumn, Type: frame.Int64})
	for _, p := range pieces {
		for i := range p.rows.Len() {
			number.int(int64(p.first) + int64(i)) // the frame's bound leaves 2^62
		}
	}
	number.close()
}

// parquetFile is a file that is being written.
type parquetFile struct {
	out    *bufio.Writer
	err    error
	offset int64
	rows   int64
	groups [][]chunk
	packed []byte // scratch
}

// chunk is what the footer says of a column.
type chunk struct {
	frame.Field
	offset           int64
	codec            int64
	values, nulls    int64
	unpacked, packed int64  // bytes
	least, most      int64  // of whole numbers and times
	first, last      string // of jobs
}

func (w *parquetFile) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	w.offset += int64(len(b))
}

// columnWriter takes a column's values, and writes a page whenever it has enough.
type columnWriter struct {
	chunk
	w           *parquetFile
	rows, given int    // of this page; rows that are not NULL
	has         []byte // a bit for each row, the lowest first
	plain       []byte // values
}

func (w *parquetFile) column(f frame.Field) *columnWriter {
	return &columnWriter{w: w, chunk: chunk{Field: f, offset: w.offset, least: math.MaxInt64, most: math.MinInt64}}
}

func (c *columnWriter) addAll(values *frame.Column) {
	for row := range values.Len() {
		switch {
		case values.Null(row):
			c.row(false)
		case c.Type == frame.Text:
			c.text(values.Bytes(row))
		case c.Type == frame.Float64:
			c.float(values.Float(row))
		case c.Type == frame.Bool:
			c.bool(values.Bool(row))
		default:
			c.int(values.Int(row))
		}
	}
}

// row notes whether the next row has a value.
func (c *columnWriter) row(has bool) {
	if len(c.plain) >= pageBytes || c.rows >= 8*pageBytes {
		c.page()
	}
	if c.rows%8 == 0 {
		c.has = append(c.has, 0)
	}
	if has {
		c.has[c.rows/8] |= 1 << (c.rows % 8)
		c.given++
	}
	c.rows++
}

func (c *columnWriter) text(v []byte) {
	c.row(true)
	c.plain = binary.LittleEndian.AppendUint32(c.plain, uint32(len(v)))
	c.plain = append(c.plain, v...)
}

func (c *columnWriter) float(v float64) {
	c.row(true)
	c.plain = binary.LittleEndian.AppendUint64(c.plain, math.Float64bits(v))
}

func (c *columnWriter) bool(v bool) {
	c.row(true)
	at := (c.given - 1) % 8
	if at == 0 {
		c.plain = append(c.plain, 0)
	}
	if v {
		c.plain[len(c.plain)-1] |= 1 << at
	}
}

func (c *columnWriter) int(v int64) {
	c.row(true)
	c.least, c.most = min(c.least, v), max(c.most, v)
	c.plain = c.whole(c.plain, v)
}

// whole appends a whole number as the column has it.
func (c *chunk) whole(to []byte, v int64) []byte {
	if c.Type == frame.Int32 {
		return binary.LittleEndian.AppendUint32(to, uint32(int32(v)))
	}
	return binary.LittleEndian.AppendUint64(to, uint64(v))
}

// page writes what has gathered.
func (c *columnWriter) page() {
	if c.rows == 0 {
		return
	}
	raw := c.levels(make([]byte, 4, len(c.plain)+len(c.has)+16))
	binary.LittleEndian.PutUint32(raw, uint32(len(raw)-4))
	raw = append(raw, c.plain...)
	if c.values == 0 && len(raw) > tiny { // a column with a tiny page has no other
		c.codec = codecZstd
	}
	packed := raw
	if c.codec == codecZstd {
		packed = zstdPages.EncodeAll(raw, c.w.packed[:0])
		c.w.packed = packed
	}
	var h compact
	h.int32(1, dataPage)
	h.int32(2, int64(len(raw)))
	h.int32(3, int64(len(packed)))
	h.begin(5)
	h.int32(1, int64(c.rows))
	h.int32(2, encodingPlain)
	h.int32(3, encodingRLE)
	h.int32(4, encodingRLE)
	h.end()
	h.end()
	c.w.write(h.text)
	c.w.write(packed)
	c.values, c.nulls = c.values+int64(c.rows), c.nulls+int64(c.rows-c.given)
	c.unpacked += int64(len(h.text) + len(raw))
	c.packed += int64(len(h.text) + len(packed))
	c.rows, c.given, c.has, c.plain = 0, 0, c.has[:0], c.plain[:0]
}

// levels says which rows have a value, as a run of Parquet's hybrid of run lengths and bits.
func (c *columnWriter) levels(to []byte) []byte {
	switch c.given {
	case 0:
		return append(binary.AppendUvarint(to, uint64(c.rows)<<1), 0)
	case c.rows:
		return append(binary.AppendUvarint(to, uint64(c.rows)<<1), 1)
	}
	return append(binary.AppendUvarint(to, uint64(len(c.has))<<1|1), c.has...)
}

func (c *columnWriter) close() {
	c.page()
	at := len(c.w.groups) - 1
	if len(c.w.groups[at]) == 0 {
		c.w.rows += c.values
	}
	c.w.groups[at] = append(c.w.groups[at], c.chunk)
}

// close writes the footer: FileMetaData of parquet.thrift.
func (w *parquetFile) close(rows string) error {
	var f compact
	f.int32(1, 2) // version
	columns := w.groups[0]
	f.list(2, kindStruct, 1+len(columns))
	f.element()
	f.string(4, "schema")
	f.int32(5, int64(len(columns)))
	f.end()
	for _, c := range columns {
		c.schema(&f)
	}
	f.int64(3, w.rows)
	f.list(4, kindStruct, len(w.groups))
	for _, columns := range w.groups {
		f.element()
		f.list(1, kindStruct, len(columns))
		size := int64(0)
		for _, c := range columns {
			c.meta(&f)
			size += c.unpacked
		}
		f.int64(2, size)
		f.int64(3, columns[0].values)
		f.end()
	}
	f.list(keyValues, kindStruct, 1)
	f.element()
	f.string(keyField, rowsKey)
	f.string(textField, rows)
	f.end()
	f.string(6, "memgauge")
	f.list(7, kindStruct, len(columns)) // least and most are in the order of their type
	for range columns {
		f.element()
		f.begin(1)
		f.end()
		f.end()
	}
	f.end()
	w.write(f.text)
	w.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(f.text))), parquetMagic...))
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// schema is the column's SchemaElement.
func (c *chunk) schema(f *compact) {
	f.element()
	f.int32(1, physical[c.Type])
	f.int32(3, optional)
	f.string(4, c.Name)
	switch c.Type {
	case frame.Text:
		f.int32(6, 0) // UTF8
		f.begin(10)
		f.begin(1) // STRING
		f.end()
		f.end()
	case frame.Time:
		f.begin(10)
		f.begin(8)       // TIMESTAMP
		f.bool(1, false) // of no time zone, as in every session's tables
		f.begin(2)
		f.begin(2) // µs
		f.end()
		f.end()
		f.end()
		f.end()
	}
	f.end()
}

// meta is the column's ColumnChunk.
func (c *chunk) meta(f *compact) {
	f.element()
	f.int64(2, c.offset)
	f.begin(3)
	f.int32(1, physical[c.Type])
	f.list(2, kindInt32, 2)
	f.number(encodingPlain)
	f.number(encodingRLE)
	f.list(3, kindBytes, 1)
	f.bytes(c.Name)
	f.int32(4, c.codec)
	f.int64(5, c.values)
	f.int64(6, c.unpacked)
	f.int64(7, c.packed)
	f.int64(9, c.offset)
	f.begin(12) // statistics
	f.int64(3, c.nulls)
	if c.first != "" {
		f.string(5, c.last)
		f.string(6, c.first)
	} else if c.least <= c.most {
		f.string(5, string(c.whole(nil, c.most)))
		f.string(6, string(c.whole(nil, c.least)))
	}
	f.end()
	f.end()
	f.end()
}
