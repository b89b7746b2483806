package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/table"
)

// steps makes a batch of python.steps: half of the columns' values are NULL.
func steps(t testing.TB, rows int) Batch {
	t.Helper()
	return batchOf(t, table.Find("python.steps"), rows)
}

func batchOf(t testing.TB, of *table.Table, rows int) Batch {
	t.Helper()
	fields, err := Schema(of)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBuilder(fields)
	for row := range rows {
		for k, f := range fields {
			switch {
			case (row+k)%2 == 1 || k == 5 || k == 7 && rows > 1: // of some columns all rows
				b.Null(k)
			case f.Type == Int64:
				b.Int(k, int64(row)<<40)
			case f.Type == Float64:
				b.Float(k, float64(row)/3)
			case f.Type == Bool:
				b.Bool(k, row%3 == 0)
			case f.Type == Text:
				b.Text(k, fmt.Sprint("schön ", row))
			default:
				b.Int(k, int64(-row))
			}
		}
	}
	h := Header{Job: "llama", Node: "gpu-1.example", Rank: -1, Session: "a1b2", Table: of.View, First: 7, Count: rows,
		Schema: table.Latest()}
	return Batch{Header: h, Rows: b.Rows()}
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
		if got.Header != want.Header || !equal(got.Rows, want.Rows) {
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
	head := prefix + int(binary.LittleEndian.Uint32(good[4:]))
	more := packer.EncodeAll(make([]byte, maxRaw), bytes.Clone(good[:head]))
	binary.LittleEndian.PutUint32(more[8:], uint32(len(more)-head))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, b := range map[string][]byte{
		"empty":           {},
		"magic":           append([]byte("MGF\x01"), good[4:]...),
		"cut":             good[:len(good)-1],
		"longer":          append(bytes.Clone(good), 0),
		"header of 4 GiB": put(4, 1<<32-1),
		"rows of 4 GiB":   put(8, 1<<32-1),
		"unpacks to more": put(12, 1<<32-1),
		"unpacks to less": put(12, 3),
		"unpacks to all":  more, // and claims what good has
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

// TestFlippedBits: whatever byte of the rows differs, decoding tells or gives rows that can be read, and that are
// encoded as they came.
func TestFlippedBits(t *testing.T) {
	b := steps(t, 16)
	raw := encodeRows(b.Rows)
	taken := 0
	for i := range raw {
		for _, flip := range []byte{1, 0x80, 0xff} {
			other := bytes.Clone(raw)
			other[i] ^= flip
			r, err := decodeRows(b.Rows.Fields(), other, b.Count)
			if err != nil {
				continue
			}
			if taken++; !bytes.Equal(encodeRows(r), other) {
				t.Fatalf("byte %d: other rows", i)
			}
			read(r)
		}
	}
	if taken == 0 || taken == 3*len(raw) {
		t.Errorf("%d of %d were rows", taken, 3*len(raw))
	}
}

// TestNoRows: what is not exactly a column is refused.
func TestNoRows(t *testing.T) {
	for name, c := range map[string]struct {
		kind Type
		raw  string
	}{
		"nothing": {Int64, ""}, "flag": {Int64, "\x03"}, "short": {Int32, "\x01\x00\x00\x00\x00\x00\x00\x00"},
		"long": {Int32, "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"}, "more": {Int64, "\x00\x00"},
		"bits": {Bool, "\x02\x04\x00\x00"}, "no bits": {Bool, "\x02"}, "boolean": {Bool, "\x01\x00\x02"},
		"lengths": {Text, "\x01\x00\x00\x00\x00\x00\x00\x00"}, "texts": {Text, "\x01\x01\x00\x00\x00\x01\x00\x00\x00a"},
		"4 GiB":            {Text, "\x01\xff\xff\xff\xff\x02\x00\x00\x00a"},
		"UTF-8":            {Text, "\x01\x01\x00\x00\x00\x00\x00\x00\x00\xff"},
		"half a character": {Text, "\x01\x01\x00\x00\x00\x01\x00\x00\x00ö"},
	} {
		if r, err := decodeRows([]Field{{"x", c.kind}}, []byte(c.raw), 2); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestSlice: a part of rows is encoded as rows of its own, wherever it begins.
func TestSlice(t *testing.T) {
	b := steps(t, 40)
	for from := range 20 {
		part := b.Rows.Slice(from, 40-from/2)
		got, err := decodeRows(part.Fields(), encodeRows(part), part.Len())
		if err != nil || !equal(got, part) || !equal(got.Slice(1, 3), b.Rows.Slice(from+1, from+3)) {
			t.Errorf("from %d: %v", from, err)
		}
	}
}

// read gives every value as text.
func read(r Rows) (values []string) {
	for k := range r.Width() {
		c := r.Column(k)
		for row := range c.Len() {
			value := ""
			switch {
			case c.Null(row):
				value = "NULL"
			case c.Type == Float64:
				value = fmt.Sprint(c.Float(row))
			case c.Type == Bool:
				value = fmt.Sprint(c.Bool(row))
			case c.Type == Text:
				value = "=" + c.Text(row)
			default:
				value = fmt.Sprint(c.Int(row))
			}
			values = append(values, value)
		}
	}
	return values
}

func equal(a, b Rows) bool {
	return slices.Equal(a.Fields(), b.Fields()) && a.Len() == b.Len() && slices.Equal(read(a), read(b))
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
		read(got.Rows)
		again, err := Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(again); err != nil || back.Header != got.Header || !equal(back.Rows, got.Rows) {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}

// FuzzRows fuzzes what lies inside of the packing, which no fuzzer gets through.
func FuzzRows(f *testing.F) {
	b := steps(f, 5)
	f.Add(encodeRows(b.Rows))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeRows(b.Rows.Fields(), raw, b.Count)
		if err != nil {
			return
		}
		read(r)
		if !bytes.Equal(encodeRows(r), raw) {
			t.Fatal("they are encoded otherwise")
		}
	})
}
