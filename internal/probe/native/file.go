package native

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
)

// Suffix of the files' names: PID.START.TIME.native.
const Suffix = ".native"

const (
	magic      = "MGNATIV\n"
	format     = 1
	headerSize = 4096
	slotSize   = 48
	maxFile    = 64 << 20 // the library makes 20 MB; areas of a file that says more are not read
	maxPython  = 96       // frames of a stack, as native.h has them
	maxC       = 48

	stateEnding = 2
)

// ErrCorrupt means that a file is not what the library writes.
var ErrCorrupt = errors.New("not a file of native samples")

// area is a stream of records that only grows: what was read stays as it is.
type area struct {
	offset, size, used uint64
	data               []byte // the first used bytes
}

// header is what changes of a file's first page, and what does not.
type header struct {
	PID                    int
	minor                  int // of Python 3; 0 unknown
	Start                  uint64
	wall, mono             int64 // ns
	Base, Interval         int64 // bytes
	State                  uint64
	slots                  uint64 // in use
	Samples, Lost          int64
	Cost                   int64 // ns
	changed                uint64
	slotsOffset, slotsSize uint64
	stacks, codes, modules area
}

func (h *header) decode(b []byte) error {
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	if len(b) < headerSize || string(b[:8]) != magic {
		return ErrCorrupt
	}
	if v := u32(8); v != format {
		return fmt.Errorf("%w: its format is %d, this memgauge reads %d", ErrCorrupt, v, format)
	}
	h.PID, h.Start = int(u32(16)), u64(24)
	if u32(20)>>24 == 3 {
		h.minor = int(u32(20) >> 16 & 0xFF)
	}
	h.wall, h.mono = int64(u64(32)), int64(u64(40))
	h.Base, h.Interval, h.State = int64(u64(48)), int64(u64(56)), u64(64)
	h.slots = u64(72)
	h.Samples, h.Lost, h.Cost, h.changed = int64(u64(104)), int64(u64(112)), int64(u64(120)), u64(136)
	h.slotsOffset, h.slotsSize = u64(144), u64(152)
	for i, a := range []*area{&h.stacks, &h.codes, &h.modules} {
		a.offset, a.size = u64(160+8*i), u64(184+8*i)
		a.used = u64(80 + 8*i)
		if a.used > a.size || a.size > maxFile || a.offset > maxFile {
			return fmt.Errorf("%w: an area of %d bytes at byte %d with %d in use", ErrCorrupt, a.size, a.offset, a.used)
		}
	}
	if h.slots > h.slotsSize/slotSize || h.slotsSize > maxFile || h.slotsOffset > maxFile {
		return fmt.Errorf("%w: %d slots in %d bytes", ErrCorrupt, h.slots, h.slotsSize)
	}
	return nil
}

// sample is a block that lives.
type sample struct {
	size     uint64
	interval float64
	stack    uint32
	heap     bool
}

// File is the table of one process.
type File struct {
	f *os.File
	header
	torn   int64 // samples that were being written when they were read
	stacks map[uint32]int64
}

// Open opens a file and reads its header.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := &File{f: f, stacks: map[uint32]int64{}}
	if err := file.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// Close closes it.
func (f *File) Close() error { return f.f.Close() }

// read reads the header, and what the areas have gained. A file that others have cut short is an error; mapping it
// would be a signal.
func (f *File) read() error {
	b := make([]byte, headerSize)
	if _, err := f.f.ReadAt(b, 0); err != nil {
		if err == io.EOF {
			return ErrCorrupt
		}
		return err
	}
	if err := f.header.decode(b); err != nil {
		return err
	}
	for _, a := range []*area{&f.header.stacks, &f.codes, &f.modules} {
		have := uint64(len(a.data))
		if a.used <= have {
			continue
		}
		more := make([]byte, a.used-have)
		if _, err := f.f.ReadAt(more, int64(a.offset+have)); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		a.data = append(a.data, more...)
	}
	return nil
}

// samples reads the slots. One that is being written is left out: the next reading has it.
func (f *File) samples(each func(sample)) error {
	data := make([]byte, f.slots*slotSize)
	if _, err := f.f.ReadAt(data, int64(f.slotsOffset)); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	for ; len(data) >= slotSize; data = data[slotSize:] {
		u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(data[at:]) }
		s := sample{size: u64(8), interval: math.Float64frombits(u64(16)), stack: binary.LittleEndian.Uint32(data[32:]),
			heap: binary.LittleEndian.Uint32(data[36:]) == 0}
		if s.stack == 0 {
			continue
		}
		check := mix(mix(mix(mix(1, u64(0)), s.size), u64(16)), uint64(s.stack))
		if check != u64(40) || !(s.interval >= 1) || s.size > 1<<56 {
			f.torn++
			continue
		}
		each(s)
	}
	return nil
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// call is a Python frame as it lies in the file; raw is a whole stack.
type call struct{ code, lasti uint32 }

type raw struct {
	python []call
	waits  bool // python is the main thread's, which waits while a thread without Python allocates
	pcs    []uint64
}

func (f *File) rawStack(at uint32) (r raw, ok bool) {
	d := f.header.stacks.data
	if uint64(at)+16 > uint64(len(d)) {
		return r, false
	}
	d = d[at:]
	np, nc := binary.LittleEndian.Uint32(d), binary.LittleEndian.Uint32(d[4:])
	r.waits = binary.LittleEndian.Uint32(d[8:]) == 1
	d = d[16:]
	if np > maxPython || nc > maxC || len(d) < int(8*np+8*nc) {
		return r, false
	}
	for ; np > 0; np, d = np-1, d[8:] {
		r.python = append(r.python, call{binary.LittleEndian.Uint32(d), binary.LittleEndian.Uint32(d[4:])})
	}
	for ; nc > 0; nc, d = nc-1, d[8:] {
		r.pcs = append(r.pcs, binary.LittleEndian.Uint64(d))
	}
	return r, true
}

// frame is a Python frame with its names.
func (f *File) frame(c call) Frame {
	d := f.codes.data
	if c.code == 0 || uint64(c.code)+24 > uint64(len(d)) {
		return Frame{Func: "?"}
	}
	d = d[c.code:]
	first := int(int32(binary.LittleEndian.Uint32(d[4:])))
	file, name := int(binary.LittleEndian.Uint16(d[8:])), int(binary.LittleEndian.Uint16(d[10:]))
	lines := int(binary.LittleEndian.Uint32(d[16:]))
	kinds := d[12:14]
	d = d[24:]
	if lines > maxFile || len(d) < file+name+lines {
		return Frame{Func: "?"}
	}
	return Frame{Func: decode(d[file:file+name], kinds[1]), File: decode(d[:file], kinds[0]),
		Line: lineAt(f.minor, d[file+name:file+name+lines], first, int(c.lasti))}
}

// module finds the newest module that an address lay in, and the address as the module's file counts.
func (f *File) module(pc uint64) (path string, addr uint64) {
	d := f.modules.data
	for at := 8; at+32 <= len(d); {
		r := d[at:]
		u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(r[at:]) }
		low, high, bias := u64(0), u64(8), u64(16)
		n := int(binary.LittleEndian.Uint32(r[24:]))
		if n > len(r)-32 {
			break
		}
		if pc >= low && pc < high {
			path, addr = string(r[32:32+n]), pc-bias
		}
		at += 32 + (n+7)&^7
	}
	return path, addr
}
