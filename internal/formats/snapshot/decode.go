package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"unsafe"

	"github.com/memgauge/memgauge/internal/base/units"
)

// This file is a machine for pickles of protocols 2 to 5 that writes what it reads into columns at once: it makes no
// object for an event, a frame or a stack. It knows plain data only. Whatever makes Python call something (GLOBAL,
// REDUCE, BUILD, …) is refused by name: it is how a pickle runs code.
// https://github.com/python/cpython/blob/3.13/Lib/pickletools.py describes the opcodes.

// val is a value on the machine's stack: a tag in the upper 4 bits, its content in the lower 60.
type val uint64

const (
	tNone   = iota
	tBool   // 0, 1
	tInt    // signed
	tBig    // index in bigs: an integer of more than 60 bits
	tFloat  // index in bigs, as IEEE bits
	tText   // number of a text
	tDict   // a dict with nothing in it yet
	tList   // a list with nothing in it yet
	tTuple  // index in tuples: at most 3 integers
	tFrame  // number of a frame
	tStack  // number of a stack
	tEvent  // a row
	tBlock  // index in Blocks
	tRegion // index in Segments
	tNote   // index in Annotations
	tOther  // index in others: what has no place in Columns
)

const contentMask = 1<<60 - 1

func mk(tag, content uint64) val { return val(tag<<60 | content&contentMask) }
func (v val) tag() uint64        { return uint64(v) >> 60 }
func (v val) content() uint64    { return uint64(v) & contentMask }
func (v val) signed() int64      { return int64(v<<4) >> 4 }
func packed(v val) uint32        { return uint32(v>>60)<<28 | uint32(v)&memoContent }
func unpackedVal(m uint32) val   { return val(m>>28)<<60 | val(m&memoContent) }
func (v val) fits() bool         { return v.content() < memoContent }

// memoContent is what a memo entry, 32 bits, holds beside its tag; numbers of rows, texts and stacks stay below it.
const memoContent = 1<<28 - 1

// other is a dict (keys and values in turn) or a list that is no row, and a list of rows.
type other struct {
	kind   uint8 // 'd', 'l', or the tag of the rows from lo to below hi
	vals   []val
	lo, hi int
}

// decoder is the machine.
type decoder struct {
	*Columns
	in     *window
	p      int      // of the next byte, in in.d
	at     int      // of the opcode that is being read, for errors
	err    error    // the first thing that is wrong
	budget int64    // bytes that all that is kept may take
	disk   *counter // what was read of the file, which bounds it too; nil where budget knows the file's size

	stk     []val
	slot    []uint32 // for each value on the stack that has no content yet: its memo index + 1
	stkMem  grown    // theirs
	slotMem grown
	sp      int
	marks   []int

	memo    []uint32
	memoMem grown
	memoLen int

	bigs      []uint64
	tuples    [][3]int64
	tupleOf   map[[3]int64]uint64
	others    []other
	runStacks []uint32 // by number of a run, one more than its stack; 0 is not known yet
	scratch   []uint32
	fast      record // of fastEvent
	keys      [maxKeys]eventKey

	actionOf    map[uint32]uint8
	lastPair    [3]int64 // see smallPair
	lastPairVal val
	streamOf    map[uint64]uint16
	poolOf      map[[2]int64]uint16
	lastPool    val // and its place in Pools
	lastPoolAt  uint16
	n           int // rows
	root        val
	sized       int64 // what was counted last; see spend
}

// maxMarks is how deep containers may nest; a snapshot needs 10.
const maxMarks = 64

// ReadColumns reads a pickle of torch.cuda.memory._snapshot(), or of its segments alone, plain, gzipped or zstd. It
// runs nothing that is in the file. A trace of torch.profiler with memory events is read as well. What it keeps takes
// at most budget bytes, and no more than a file of that size on disk may. A file that is cut short is read as far as it
// goes; see Columns.Cut. Other errors wrap ErrFormat, with the place.
func ReadColumns(ctx context.Context, r io.Reader, budget int64) (*Columns, error) {
	disk := &counter{Reader: r}
	src, closeSrc, err := unpack(disk)
	if err != nil {
		return nil, err
	}
	defer closeSrc()
	in, trace, err := peekTrace(src)
	switch {
	case err != nil:
		return nil, err
	case trace:
		return readProfile(ctx, in, disk, budget)
	}
	return readColumns(ctx, in, disk, budget)
}

// readColumns is ReadColumns of what is not packed.
func readColumns(ctx context.Context, src io.Reader, disk *counter, budget int64) (*Columns, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(tightGC)) // of what a slice has grown from
	d := newDecoder(budget)
	d.disk = disk
	defer d.freeScratch()
	d.in = newWindow(ctx, src)
	defer d.in.close()
	d.run()
	if err := ctx.Err(); err != nil {
		d.err = fmt.Errorf("read snapshot: %w", err)
	}
	if d.err == nil {
		d.finish()
	}
	if d.err != nil {
		d.Columns.Close()
		return nil, d.err
	}
	return d.Columns, nil
}

func newDecoder(budget int64) *decoder {
	d := &decoder{
		Columns: &Columns{Format: TorchPickle, texts: newInterner(), frames: newInterner(), stacks: newInterner()},
		budget:  budget,
		tupleOf: map[[3]int64]uint64{}, lastPair: [3]int64{noItem},
		actionOf: map[uint32]uint8{}, streamOf: map[uint64]uint16{}, poolOf: map[[2]int64]uint16{},
	}
	for _, k := range keyNames {
		d.texts.id([]byte(k))
	}
	for i, a := range actionNames {
		id, _ := d.texts.id([]byte(a))
		d.actionOf[id] = uint8(i)
		d.Actions = append(d.Actions, string(a))
	}
	for i := range d.keys {
		d.keys[i].code = 1 // with no mask, no opcode is like it
	}
	d.stacks.id(nil)
	d.poolOf[[2]int64{}], d.Pools = 0, [][2]int64{{}}
	return d
}

// fail keeps the first error.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = atByte(d.in.base+int64(d.at), format, args...)
	}
}

// run reads one pickle to its STOP, or to where the file is cut.
func (d *decoder) run() {
	d.p = d.in.more(0)
	if d.in.err != nil && d.in.end < 2 {
		d.err = d.in.err
		return
	}
	if d.at = 0; d.in.end == 0 {
		d.fail("file is empty")
		return
	}
	if d.in.end < 2 || d.in.d[0] != 0x80 || d.in.d[1] < 2 || d.in.d[1] > 5 {
		d.fail("not a pickle of protocol 2 to 5: begins with %.10q", d.in.d[:d.in.end])
		return
	}
	d.p = 2
	for d.err == nil {
		limit := len(d.in.d) - slack
		if d.in.final {
			limit = d.in.end
		}
		switch op := d.common(limit); {
		case d.err != nil:
			return
		case op == '.':
			d.stop()
			return
		case op != 0:
			d.rare(op)
		case !d.in.final:
			d.p = d.in.more(d.p)
		default:
			d.cut()
			return
		}
	}
}

// stop takes the one value that a pickle leaves.
func (d *decoder) stop() {
	if d.sp != 1 || len(d.marks) != 0 {
		d.fail("pickle ends with %d values on its stack, want 1", d.sp)
		return
	}
	d.root = d.stk[0]
	d.Pickle = d.in.base + int64(d.p)
	d.Trailing = int64(d.in.end - d.p)
	for !d.in.final {
		d.p = d.in.more(d.in.end)
		d.Trailing += int64(d.in.end)
	}
}

// cut ends what is open where the file ends before its time.
func (d *decoder) cut() {
	d.Cut = d.in.err
	if d.Cut == nil {
		d.Cut = atByte(d.in.base+int64(d.in.end), "pickle is cut short")
	}
	if d.p > d.in.end && d.sp > 0 { // its operand was not there
		d.sp--
	}
	for len(d.marks) > 0 && d.err == nil {
		d.closeOpen()
	}
	d.unmarked(0)
	if d.err == nil && d.sp > 0 {
		d.root = d.stk[0]
	}
}

// firstValues is how many the stack has room for at first; it doubles from there.
const firstValues = 4096

// room makes the stack larger. C++'s pickler puts all events on it before it makes a list of them. Its memory grows in
// place: copies that wait for the garbage collector would come to three times what is counted.
func (d *decoder) room() bool {
	n := max(firstValues, 2*len(d.stk))
	err := d.stkMem.resize(n * int(unsafe.Sizeof(val(0))))
	if err == nil {
		err = d.slotMem.resize(n * 4)
	}
	if err != nil {
		d.err = fmt.Errorf("read snapshot: stack: %w", err)
		return false
	}
	d.stk, d.slot = as[val](&d.stkMem, n), as[uint32](&d.slotMem, n)
	d.spend()
	return d.err == nil
}

// freeScratch gives back what only reading needs.
func (d *decoder) freeScratch() {
	d.memoMem.free()
	d.stkMem.free()
	d.slotMem.free()
}

// spend counts what is kept against the budget. It is asked whenever something has grown.
func (d *decoder) spend() {
	used := int64(d.rows.cap)*rowBytes + int64(len(d.memoMem.mem)) + 12*int64(len(d.stk)) + d.texts.bytes() +
		d.frames.bytes() +
		d.stacks.bytes() + d.in.last.held + 4*int64(cap(d.runStacks)) +
		64*int64(cap(d.others)) + 96*int64(cap(d.Segments)) +
		48*int64(cap(d.Blocks)) +
		80*int64(cap(d.Annotations)) + 8*int64(cap(d.bigs)) + 64*int64(len(d.tuples)) + d.sized
	if used > d.budget {
		d.fail("reading takes more than the %v that it may take", units.Bytes(d.budget))
	}
	if d.disk != nil && d.err == nil && used > budgetFor(d.disk.n.Load()).left {
		d.err = errTooMuch(d.in.base + int64(d.at))
	}
}

// common runs the opcodes that snapshots are made of. It returns the first other one with p behind it, or 0 at limit.
func (d *decoder) common(limit int) byte {
	b, p := d.in.d, d.p
	for p < limit {
		d.at = p
		if d.sp+2 > len(d.stk) && !d.room() {
			break
		}
		op := b[p]
		p++
		switch op {
		case 'h': // BINGET
			d.recall(uint64(b[p]))
			p++
		case 'j': // LONG_BINGET
			d.recall(uint64(binary.LittleEndian.Uint32(b[p:])))
			p += 4
		case 0x94: // MEMOIZE
			d.remember(uint64(d.memoLen))
		case '}': // EMPTY_DICT
			if next := d.fastEvent(b, p); next != 0 {
				p = next
			} else {
				d.push(mk(tDict, 0))
			}
		case ']': // EMPTY_LIST
			if next := d.fastStack(b, p); next != 0 {
				p = next
			} else {
				d.push(mk(tList, 0))
			}
		case '(': // MARK
			d.mark()
		case 'e', 'u', 'a', 's': // APPENDS, SETITEMS, APPEND, SETITEM
			d.extend(op)
		case 0: // it would be taken for the end of the window
			d.fail("unknown pickle opcode 0x00")
		default:
			d.p = p
			return op
		}
		if d.err != nil {
			break
		}
	}
	d.p = p
	return 0
}

func (d *decoder) push(v val) {
	d.stk[d.sp], d.slot[d.sp] = v, 0
	d.sp++
}

func (d *decoder) mark() {
	if len(d.marks) >= maxMarks {
		d.fail("containers nested deeper than %d", maxMarks)
		return
	}
	d.marks = append(d.marks, d.sp)
}

// floor is where values end that opcodes may take: at the last mark.
func (d *decoder) floor() int {
	if len(d.marks) == 0 {
		return 0
	}
	return d.marks[len(d.marks)-1]
}

func (d *decoder) recall(i uint64) {
	if i >= uint64(d.memoLen) || d.memo[i] == 0 {
		d.fail("pickle recalls value %d, which it has not stored", i)
		return
	}
	d.push(unpackedVal(d.memo[i] - 1))
}

// remember stores the top of the stack under a number that is used once.
func (d *decoder) remember(i uint64) {
	if d.sp <= d.floor() {
		d.fail("pickle remembers a value that it does not have")
		return
	}
	v := d.stk[d.sp-1]
	if !d.memoRoom(i+1) || !v.fits() {
		d.fail("pickle remembers value %d, before it can have that many", i)
		return
	}
	if i < uint64(d.memoLen) && d.memo[i] != 0 && d.memo[i] != packed(v)+1 {
		d.fail("pickle stores value %d twice", i)
		return
	}
	if i >= uint64(d.memoLen) {
		clear(d.memo[d.memoLen:i]) // fastEvent may have left something
		d.memoLen = int(i) + 1
	}
	d.memo[i] = packed(v) + 1
	d.slot[d.sp-1] = uint32(i) + 1
}

// memoRoom makes room for n entries. A value takes at least a byte of the file.
func (d *decoder) memoRoom(n uint64) bool {
	if n <= uint64(len(d.memo)) {
		return true
	}
	if n > uint64(d.in.base)+uint64(d.at)+slack || n > math.MaxUint32>>1 {
		return false
	}
	size := max(1<<16, 2*len(d.memo), int(n))
	if err := d.memoMem.resize(4 * size); err != nil {
		d.err = fmt.Errorf("read snapshot: %w", err)
		return false
	}
	d.memo = as[uint32](&d.memoMem, size)
	d.spend()
	return d.err == nil
}

// fill gives the container at a place of the stack its content, in the memo too.
func (d *decoder) fill(at int, v val) {
	if !v.fits() {
		d.fail("more than %d rows", memoContent)
		return
	}
	d.stk[at] = v
	if m := d.slot[at]; m != 0 {
		d.memo[m-1] = packed(v) + 1
	}
}
