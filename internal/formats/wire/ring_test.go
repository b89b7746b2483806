package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

// hooked lets a test act between the reads of a reader.
type hooked struct {
	mem    []byte
	before func(off int64, n int)
	after  func(off int64, b []byte)
}

func (h *hooked) ReadAt(b []byte, off int64) (int, error) {
	if h.before != nil {
		h.before(off, len(b))
	}
	if off >= int64(len(h.mem)) {
		return 0, io.EOF
	}
	n := copy(b, h.mem[off:])
	if h.after != nil {
		h.after(off, b)
	}
	return n, nil
}

func step(n int) *wire.Step { return &wire.Step{TS: uint64(n) * 1e6, Step: uint32(n)} }

func numbers(c wire.Chunk) (list []uint32) {
	for i := range c.Len() {
		if s := c.Slot(i); wire.SlotKind(s) != wire.KindNone {
			var r wire.Step
			r.Decode(s)
			list = append(list, r.Step)
		}
	}
	return list
}

func TestWrap(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, Slots: 8})
	for n := range 21 {
		r.Append(step(n + 1))
	}
	g, err := open(r.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Read(make([]byte, 64*100), 3)
	if want := "[14 15 16 17 18 19 20 21]"; err != nil || fmt.Sprint(numbers(c)) != want || c.Overwritten != 11 ||
		c.First != 14 || c.Damaged != 0 {
		t.Errorf("%v %+v %v, want %s", numbers(c), c, err, want)
	}
	c, err = g.Read(make([]byte, 64*3), 16)
	if want := "[16 17 18]"; err != nil || fmt.Sprint(numbers(c)) != want || c.Next() != 19 {
		t.Errorf("%v %+v %v, want %s", numbers(c), c, err, want)
	}
	if c, err = g.Read(make([]byte, 64), 22); c.Len() != 0 || c.Overwritten != 0 || err != nil {
		t.Errorf("%+v %v after the end", c, err)
	}
}

// TestOverwrittenDuringCopy: the writer goes on between the copy and the second look at head.
func TestOverwrittenDuringCopy(t *testing.T) {
	for more := range 12 {
		r := wiretest.New(wiretest.Options{PID: 1, Slots: 8})
		for n := range 8 {
			r.Append(step(n + 1))
		}
		h := &hooked{mem: r.Bytes()}
		g, err := wire.OpenRing(h, int64(len(h.mem)))
		if err != nil {
			t.Fatal(err)
		}
		h.after = func(off int64, b []byte) {
			if len(b) == wire.SlotSize*8 || off == int64(r.SlotOffset(1)) && len(b) > wire.SlotSize {
				h.after = nil
				for n := range more {
					r.Append(step(9 + n))
				}
			}
		}
		c, err := g.Read(make([]byte, 64*8), 1)
		if err != nil || c.Overwritten != uint64(more) || c.Damaged != 0 || len(numbers(c)) != 8-min(more, 8) {
			t.Errorf("%d more: %v %+v %v", more, numbers(c), c, err)
		}
	}
}

// TestSlotUnderWrite: of the slot that the writer fills next any part may be new, and the head doesn't tell.
func TestSlotUnderWrite(t *testing.T) {
	for cut := 0; cut <= wire.SlotSize; cut += 4 {
		r := wiretest.New(wiretest.Options{PID: 1, Slots: 8})
		for n := range 8 {
			r.Append(step(n + 1))
		}
		var next [wire.SlotSize]byte
		(&wire.Step{Seq: 9, TS: 9e6, Step: 9}).Encode(&next)
		copy(r.Bytes()[r.SlotOffset(9):], next[:cut])
		g, err := open(r.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.Read(make([]byte, 64*8), 1)
		want := uint64(0)
		if cut > 0 {
			want = 1
		}
		if err != nil || c.Overwritten != want || c.Damaged != 0 || uint64(c.Len()) != 8-want {
			t.Errorf("%d bytes written: %+v %v", cut, c, err)
		}
	}
}

// TestTornCopyOfTheNextSlot: the copy ends in the new record, all that is checked of it is old.
func TestTornCopyOfTheNextSlot(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, Slots: 8})
	for n := range 8 {
		r.Append(step(n + 1))
	}
	h := &hooked{mem: r.Bytes()}
	g, err := wire.OpenRing(h, int64(len(h.mem)))
	if err != nil {
		t.Fatal(err)
	}
	h.after = func(off int64, b []byte) {
		if off == int64(r.SlotOffset(1)) && len(b) > wire.SlotSize { // while copying: seq, ts and check as they were
			h.after = nil
			(&wire.Step{Seq: 9, TS: 9e6}).Encode((*[64]byte)(h.mem[r.SlotOffset(9):]))
			copy(b[20:50], strings.Repeat("new ", 8))
		}
	}
	if c, err := g.Read(make([]byte, 64*7), 1); err != nil || c.Overwritten != 1 || c.First != 2 || c.Damaged != 0 {
		t.Errorf("%+v %v", c, err)
	}
}

// TestTornHead mixes the bytes of two heads at a carry, both ways.
func TestTornHead(t *testing.T) {
	for _, torn := range []uint64{0x1ff, 0x000} {
		r := wiretest.New(wiretest.Options{PID: 1, Slots: 1024})
		for n := range 0xff {
			r.Append(step(n + 1))
		}
		h := &hooked{mem: r.Bytes()}
		g, err := wire.OpenRing(h, int64(len(h.mem)))
		if err != nil {
			t.Fatal(err)
		}
		r.Append(step(0x100))
		h.after = func(off int64, b []byte) {
			if off == wire.OffHead {
				h.after = nil // the next reading is not torn
				le.PutUint64(b, torn)
			}
		}
		if changed, err := g.Poll(); err != nil || !changed || g.Head != 0x100 && g.Head != 0xff {
			t.Errorf("torn %#x: head %#x, changed %v, error %v", torn, g.Head, changed, err)
		}
	}
}

func TestDamagedSlots(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, Slots: 16})
	for n := range 10 {
		r.Append(step(n + 1))
	}
	le.PutUint64(r.Bytes()[r.SlotOffset(3):], 1<<60)
	r.Bytes()[r.SlotOffset(7)+60]++
	r.Bytes()[r.SlotOffset(8)+16] = 0 // no kind
	g, _ := open(r.Bytes())
	c, err := g.Read(make([]byte, 64*16), 1)
	if want := "[1 2 4 5 6 9 10]"; err != nil || fmt.Sprint(numbers(c)) != want || c.Damaged != 3 || c.DamagedAt != 3 {
		t.Errorf("%v %+v %v, want %s", numbers(c), c, err, want)
	}
}

func TestLateStoreIsReadAgain(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, Slots: 16})
	r.Append(step(1))
	h := &hooked{mem: r.Bytes()}
	g, _ := wire.OpenRing(h, int64(len(h.mem)))
	h.after = func(off int64, b []byte) {
		if off == int64(r.SlotOffset(1)) {
			h.after = nil
			clear(b) // the head is visible, the record not yet
		}
	}
	if c, err := g.Read(make([]byte, 64), 1); err != nil || c.Damaged != 0 || len(numbers(c)) != 1 {
		t.Errorf("%+v %v", c, err)
	}
}

func TestNames(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, NamesSize: 64 << 10})
	g, err := open(r.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 300 {
		name := strings.Repeat("é", i%400) + fmt.Sprint(i)
		want = append(want, name)
		r.Intern(name)
		if i%17 == 0 {
			g.Poll()
			if err := g.ReadNames(); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.Poll()
	if err := g.ReadNames(); err != nil || !strings.HasPrefix(strings.Join(want, "|"), strings.Join(g.Names(), "|")) {
		t.Errorf("%d names, error %v", len(g.Names()), err)
	}
	if g.Name(0) != "?" || g.Name(1<<31) != "?" || g.Name(1) != "0" {
		t.Errorf("%q %q %q", g.Name(0), g.Name(1<<31), g.Name(1))
	}
}

func TestNamesGarbage(t *testing.T) {
	for _, c := range []struct {
		harm func(b []byte, names int)
		want string
	}{
		{func(b []byte, n int) { le.PutUint32(b[n+8:], 5000) }, "name at byte 20488: length 5000 exceeds 1024"},
		{func(b []byte, n int) { le.PutUint64(b[wire.OffNamesHead:], 1<<40) }, "byte 64: 1099511627776 bytes of names"},
		{func(b []byte, n int) { le.PutUint64(b[wire.OffNamesHead:], 10) },
			"name at byte 20488 is cut: names end at byte 20490"},
	} {
		r := wiretest.New(wiretest.Options{PID: 1})
		r.Intern("abc")
		r.Intern("defg")
		c.harm(r.Bytes(), 4096+256*64)
		g, err := open(r.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := g.ReadNames(); !errors.Is(err, wire.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// FuzzRing reads any bytes as a ring: it neither panics nor gives a record whose number and check don't hold, and what
// it allocates is bounded by the file.
func FuzzRing(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		f.Add(randomRing(rng).Bytes(), uint64(rng.IntN(30)))
	}
	f.Fuzz(func(t *testing.T, b []byte, from uint64) {
		wire.Dump(io.Discard, bytes.NewReader(b), int64(len(b)))
		g, err := open(b)
		if err != nil {
			return
		}
		g.ReadNames()
		if len(g.Names()) > len(b)/4 {
			t.Fatalf("%d names in %d bytes", len(g.Names()), len(b))
		}
		buf := make([]byte, 64*16)
		next, seen := max(from, 1), uint64(0)
		for rounds := 0; ; rounds++ {
			c, err := g.Read(buf, next)
			if err != nil || c.Len() == 0 && c.Overwritten == 0 {
				return
			}
			if seen += uint64(c.Len()); seen > g.SlotCount || rounds > len(b) {
				t.Fatalf("%d records of %d slots", seen, g.SlotCount)
			}
			for i := range c.Len() {
				if s := c.Slot(i); wire.SlotKind(s) != wire.KindNone && !wire.Whole(s, c.First+uint64(i)) {
					t.Fatalf("record %d was not there", c.First+uint64(i))
				}
			}
			next = c.Next()
		}
	})
}

// randomRing is a small ring with records of all kinds, of kinds of the future, and torn ones.
func randomRing(rng *rand.Rand) *wiretest.Ring {
	r := wiretest.New(wiretest.Options{PID: 7, Start: 9, Slots: 8, NamesSize: 128, RingID: 1,
		Info: map[string]string{"argv": "train.py"}})
	for range rng.IntN(30) {
		var s [wire.SlotSize]byte
		for i := range s {
			s[i] = byte(rng.Uint32())
		}
		if s[16] = byte(rng.IntN(9)); s[16] == 8 {
			s[16] = 200
		}
		r.AppendSlot(&s)
		r.Intern(fmt.Sprint("name", rng.IntN(9)))
	}
	if rng.IntN(2) == 0 {
		r.Bytes()[4096+rng.IntN(8*64)]++
	}
	return r
}

// TestNameOfTheNewestRecord: a name and a record that uses it come between Poll's first look and its reading of head.
func TestNameOfTheNewestRecord(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, Slots: 8})
	h := &hooked{mem: r.Bytes()}
	g, err := wire.OpenRing(h, int64(len(h.mem)))
	if err != nil {
		t.Fatal(err)
	}
	r.Append(step(1))
	h.after = func(int64, []byte) {
		h.after = nil
		r.Append(&wire.Trace{Name: r.Intern("late")})
	}
	if _, err := g.Poll(); err != nil {
		t.Fatal(err)
	}
	if err := g.ReadNames(); err != nil || g.Head != 2 || g.Name(1) != "late" {
		t.Errorf("head %d, name %q, error %v", g.Head, g.Name(1), err)
	}
}
