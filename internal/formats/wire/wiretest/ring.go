// Package wiretest writes rings for tests, as an observed process would: in memory, or in a mapped file that a reader
// reads at the same time. Only tests import it; it knows the format from package wire and nothing of who reads.
package wiretest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/formats/wire"
)

var le = binary.LittleEndian

// Options say what ring to make; zero values are replaced by those of a small live ring of this format version.
type Options struct {
	Minor      uint16
	RingID     uint64
	Slots      int // a power of two
	NamesSize  int // bytes
	PID        uint32
	Start      uint64 // clock ticks
	Generation uint32
	Wall, Mono uint64 // ns
	Info       map[string]string
}

// Record is one of package wire's record types.
type Record interface {
	Encode(*[wire.SlotSize]byte)
}

// Ring is a ring and its one writer.
type Ring struct {
	Path  string // empty in memory
	mem   []byte
	slots int
	names int // offset
	room  int
	used  int
	seq   uint64
	known map[string]uint32
}

func (o Options) filled() Options {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.Slots, 256)
	set(&o.NamesSize, 16<<10)
	if o.RingID == 0 {
		o.RingID = uint64(o.PID)<<32 | uint64(o.Generation) + 1
	}
	return o
}

// Size is the length of the file in bytes.
func (o Options) Size() int {
	o = o.filled()
	return wire.HeaderSize + o.Slots*wire.SlotSize + o.NamesSize
}

// FileName is how the ring's file is called.
func (o Options) FileName() string {
	return fmt.Sprintf("%d.%d.%d.ring", o.PID, o.Start, o.Generation)
}

// New makes a live ring in memory.
func New(o Options) *Ring {
	r := &Ring{mem: make([]byte, o.Size())}
	r.init(o.filled())
	return r
}

// Create makes a live ring in dir and maps it.
func Create(dir string, o Options) (*Ring, error) {
	path := filepath.Join(dir, o.FileName())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(o.Size())); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, o.Size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	r := &Ring{Path: path, mem: mem}
	r.init(o.filled())
	return r, nil
}

func (r *Ring) init(o Options) {
	r.slots, r.names, r.room = o.Slots, wire.HeaderSize+o.Slots*wire.SlotSize, o.NamesSize
	r.known = map[string]uint32{}
	m := r.mem
	copy(m, wire.Magic)
	le.PutUint16(m[wire.OffMajor:], wire.Major)
	le.PutUint16(m[wire.OffMinor:], o.Minor)
	le.PutUint32(m[wire.OffHeaderSize:], wire.HeaderSize)
	le.PutUint64(m[wire.OffRingID:], o.RingID)
	le.PutUint32(m[wire.OffSlotSize:], wire.SlotSize)
	le.PutUint32(m[wire.OffSlotCount:], uint32(o.Slots))
	le.PutUint64(m[wire.OffSlotsOffset:], wire.HeaderSize)
	le.PutUint64(m[wire.OffNamesOffset:], uint64(r.names))
	le.PutUint64(m[wire.OffNamesSize:], uint64(o.NamesSize))
	le.PutUint32(m[wire.OffPID:], o.PID)
	le.PutUint32(m[wire.OffGeneration:], o.Generation)
	le.PutUint64(m[wire.OffStartTicks:], o.Start)
	le.PutUint64(m[wire.OffClockWall:], o.Wall)
	le.PutUint64(m[wire.OffClockMono:], o.Mono)
	r.SetRank(-1, -1)
	info := infoText(o.Info)
	le.PutUint32(m[wire.InfoOffset:], uint32(len(info)))
	copy(m[wire.InfoOffset+4:wire.HeaderSize], info)
	r.SetState(wire.StateLive)
}

func infoText(info map[string]string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(info)) {
		fmt.Fprintf(&b, "%s\t%s\n", k, escape.Replace(info[k]))
	}
	return b.String()
}

// Bytes is the ring as it is now, the ring's own memory.
func (r *Ring) Bytes() []byte { return r.mem }

// Head is the number of the newest record.
func (r *Ring) Head() uint64 { return r.seq }

// SetState stores the header's state.
func (r *Ring) SetState(s uint64) { r.store(wire.OffState, s) }

// SetRank stores rank and world size.
func (r *Ring) SetRank(rank, world int32) {
	le.PutUint32(r.mem[wire.OffRank:], uint32(rank))
	le.PutUint32(r.mem[wire.OffWorldSize:], uint32(world))
}

// Intern returns the number of a name, writing it if it is new; 0 if there is no room.
func (r *Ring) Intern(name string) uint32 {
	if n, ok := r.known[name]; ok {
		return n
	}
	size := 4 + (len(name)+3)&^3
	if r.used+size > r.room {
		r.store(wire.OffNamesDropped, le.Uint64(r.mem[wire.OffNamesDropped:])+1)
		return 0
	}
	le.PutUint32(r.mem[r.names+r.used:], uint32(len(name)))
	copy(r.mem[r.names+r.used+4:], name)
	r.used += size
	r.store(wire.OffNamesHead, uint64(r.used))
	r.known[name] = uint32(len(r.known) + 1)
	return r.known[name]
}

// Append gives the record the next number, writes and publishes it.
func (r *Ring) Append(rec Record) uint64 {
	var s [wire.SlotSize]byte
	rec.Encode(&s)
	return r.AppendSlot(&s)
}

// AppendSlot is Append for a slot of any kind; number and check are set here.
func (r *Ring) AppendSlot(s *[wire.SlotSize]byte) uint64 {
	r.seq++
	le.PutUint64(s[:], r.seq)
	le.PutUint32(s[wire.CheckOffset:], wire.Check(r.seq, le.Uint64(s[8:])))
	copy(r.mem[r.SlotOffset(r.seq):], s[:])
	r.store(wire.OffHead, r.seq)
	return r.seq
}

// SlotOffset is where record n lies in the file.
func (r *Ring) SlotOffset(n uint64) int {
	return wire.HeaderSize + int(n&uint64(r.slots-1))*wire.SlotSize
}

// Event appends an event with its text.
func (r *Ring) Event(ts uint64, name, text string, a, b int64) {
	var n uint32
	for rest := text; rest != ""; n++ {
		t := wire.Text{TS: ts, Index: uint16(n)}
		t.Length = uint8(copy(t.Data[:], rest))
		rest = rest[t.Length:]
		r.Append(&t)
	}
	r.Append(&wire.Event{TS: ts, TextLen: uint16(len(text)), TextSlots: n, Name: r.Intern(name), A: a, B: b})
}

// store publishes a word that a reader may look at meanwhile: one aligned store, after all that came before.
func (r *Ring) store(off int, v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.mem[off])), v) // pages and large slices are aligned
}

// Close unmaps the file and leaves it as it is, as kill -9 would.
func (r *Ring) Close() error {
	if r.Path == "" {
		return nil
	}
	mem := r.mem
	r.mem = nil
	return unix.Munmap(mem)
}
