package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memgauge/memgauge/internal/table"
)

// steps makes a batch of python.steps: half of the columns' values are NULL.
func steps(t testing.TB, rows int) Batch {
	t.Helper()
	return batchOf(t, table.Find("python.steps"), rows)
}

func batchOf(t testing.TB, of *table.Table, rows int) Batch {
	t.Helper()
	schema, err := Schema(of)
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	defer b.Release()
	for row := range rows {
		for i, f := range b.Fields() {
			if (row+i)%2 == 1 {
				f.AppendNull()
				continue
			}
			switch f := f.(type) {
			case *array.Int64Builder:
				f.Append(int64(row) << 40)
			case *array.Int32Builder:
				f.Append(int32(row))
			case *array.Float64Builder:
				f.Append(float64(row) / 3)
			case *array.BooleanBuilder:
				f.Append(row%3 == 0)
			case *array.StringBuilder:
				f.Append(fmt.Sprint("schön ", row))
			case *array.TimestampBuilder:
				f.Append(arrow.Timestamp(row))
			default:
				t.Fatalf("%T", f)
			}
		}
	}
	h := Header{Job: "llama", Node: "gpu-1.example", Rank: -1, Session: "a1b2", Table: of.View, First: 7, Count: rows,
		Schema: table.Latest()}
	return Batch{Header: h, Record: b.NewRecordBatch()}
}

// TestEveryTable: what is encoded comes back the same, of every table that there is.
func TestEveryTable(t *testing.T) {
	for _, of := range table.All {
		if of.View == "" {
			continue
		}
		want := batchOf(t, of, 300)
		raw, err := Encode(want)
		if err != nil {
			t.Fatalf("%s: %v", of.View, err)
		}
		got, err := Decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", of.View, err)
		}
		if got.Header != want.Header || !array.RecordEqual(got.Record, want.Record) {
			t.Errorf("%s: %+v came back as %+v", of.View, want, got)
		}
		if h, err := Peek(raw); err != nil || h != want.Header {
			t.Errorf("%s: peek: %+v, %v", of.View, h, err)
		}
	}
}

// TestBounds: what is too large is not encoded.
func TestBounds(t *testing.T) {
	for name, change := range map[string]func(*Batch){
		"no rows":      func(b *Batch) { b.Count = 0 },
		"other count":  func(b *Batch) { b.Count++ },
		"node's path":  func(b *Batch) { b.Node = "../x" },
		"hidden job":   func(b *Batch) { b.Job = ".x" },
		"no session":   func(b *Batch) { b.Session = "" },
		"long name":    func(b *Batch) { b.Job = strings.Repeat("x", 129) },
		"no table":     func(b *Batch) { b.Table = "steps; DROP" },
		"no number":    func(b *Batch) { b.First = 0 },
		"many rows":    func(b *Batch) { b.Count = MaxRows + 1 },
		"wrong number": func(b *Batch) { b.First = 1 << 63 },
	} {
		b := steps(t, 3)
		change(&b)
		if raw, err := Encode(b); err == nil {
			t.Errorf("%s: %d bytes", name, len(raw))
		}
	}
}

// TestForged: a frame that lies about its lengths is refused, and takes no memory for what it says.
func TestForged(t *testing.T) {
	good, err := Encode(steps(t, 64))
	if err != nil {
		t.Fatal(err)
	}
	put := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, b := range map[string][]byte{
		"empty":           {},
		"magic":           append([]byte("MGF\x02"), good[4:]...),
		"cut":             good[:len(good)-1],
		"longer":          append(bytes.Clone(good), 0),
		"header of 4 GiB": put(4, 1<<32-1),
		"rows of 4 GiB":   put(8, 1<<32-1),
		"unpacks to more": put(12, 1<<32-1),
		"unpacks to less": put(12, 3),
		"9 MiB":           make([]byte, 9<<20),
	} {
		if got, err := Decode(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 32<<20 {
		t.Errorf("it took %d bytes", after.TotalAlloc-before.TotalAlloc)
	}
}

// TestFlippedBits: whatever byte of the rows differs, decoding tells or gives rows that can be read.
func TestFlippedBits(t *testing.T) {
	b := steps(t, 16)
	raw, err := encodeRows(b.Record)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for _, flip := range []byte{1, 0x80, 0xff} {
			other := bytes.Clone(raw)
			other[i] ^= flip
			if r, err := decodeRows(b.Record.Schema(), other, b.Count); err == nil {
				read(r)
				r.Release()
			}
		}
	}
}

// read reads every value.
func read(r arrow.RecordBatch) (n int) {
	for _, c := range r.Columns() {
		for i := range c.Len() {
			n += len(c.ValueStr(i))
		}
	}
	return n
}

func FuzzDecode(f *testing.F) {
	good, err := Encode(steps(f, 5))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		read(got.Record)
		again, err := Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(again); err != nil || back.Header != got.Header {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}

// FuzzRows fuzzes what lies inside of the packing, which no fuzzer gets through.
func FuzzRows(f *testing.F) {
	b := steps(f, 5)
	raw, err := encodeRows(b.Record)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if r, err := decodeRows(b.Record.Schema(), raw, b.Count); err == nil {
			read(r)
		}
	})
}
