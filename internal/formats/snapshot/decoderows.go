package snapshot

import (
	"math"
)

// The keys that have a place in Columns. Their texts have these numbers.
const (
	kAction = iota
	kAddr
	kSize
	kStream
	kTime
	kContext
	kMetadata
	kPool
	kFrames
	kDeviceFree
	kThread
	kName
	kFilename
	kLine
	kDevice
	kAddress
	kTotal
	kAllocated
	kActive
	kRequested
	kKind
	kSegmentPool
	kExpandable
	kBlocks
	kState
	kSegments
	kTraces
	kSettings
	kAnnotations
	kStage
	kHistory
	kRealSize
	kHostTraces
	nKeys
)

var keyNames = [nKeys]string{
	"action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "pool_id", "frames",
	"device_free", "thread",
	"name", "filename", "line", "device", "address", "total_size", "allocated_size", "active_size", "requested_size",
	"segment_type", "segment_pool_id", "is_expandable", "blocks", "state", "segments", "device_traces",
	"allocator_settings",
	"external_annotations", "stage", "history", "real_size", "host_traces",
}

// record is what a dict says for keys that are known.
type record struct {
	v    [nKeys]val
	have uint64
}

func (r *record) has(keys ...int) bool {
	for _, k := range keys {
		if r.have>>k&1 == 0 {
			return false
		}
	}
	return true
}

func (r *record) set(k int, v val) {
	r.v[k] = v
	r.have |= 1 << k
}

// get is None for a key that is not there.
func (r *record) get(k int) val {
	if r.have>>k&1 == 0 {
		return mk(tNone, 0)
	}
	return r.v[k]
}

// extend runs APPENDS, SETITEMS, APPEND and SETITEM.
func (d *decoder) extend(op byte) {
	from := d.sp - 1
	switch op {
	case 's':
		from = d.sp - 2
	case 'u', 'e':
		if len(d.marks) == 0 {
			d.fail("pickle refers to a mark that it has not set")
			return
		}
		from = d.floor()
		d.marks = d.marks[:len(d.marks)-1]
	}
	if from-1 < d.floor() {
		d.fail("pickle takes values from a stack that has fewer")
		return
	}
	if op == 'u' || op == 's' {
		d.setItems(from)
	} else {
		d.appendItems(from)
	}
	d.sp = from
}

// setItems gives the dict below from what is on the stack from there on, keys and values in turn.
func (d *decoder) setItems(from int) {
	items, c := d.stk[from:d.sp], d.stk[from-1]
	if len(items)%2 != 0 {
		d.fail("dict with a key that has no value")
		return
	}
	if len(items) == 0 {
		return
	}
	switch c.tag() {
	case tDict:
	case tOther:
		if o := &d.others[c.content()]; o.kind == 'd' {
			d.growOther(o, items)
			return
		}
		fallthrough
	default:
		d.fail("pickle adds keys to something that is not a dict, or is complete")
		return
	}
	var r record
	for i := 0; i < len(items); i += 2 {
		if items[i].tag() == tText && items[i].content() < nKeys {
			r.set(int(items[i].content()), items[i+1])
		}
	}
	d.fill(from-1, d.row(&r, items))
}

// row makes of a dict the row that its keys tell.
func (d *decoder) row(r *record, items []val) val {
	switch {
	case r.has(kAction):
		return mk(tEvent, uint64(d.event(r)))
	case r.has(kFilename, kName, kLine):
		return d.frame(r)
	case r.has(kTotal):
		return d.segment(r)
	case r.has(kState, kSize):
		return d.block(r)
	case r.has(kStage, kTime):
		return d.note(r)
	}
	return d.newOther('d', items)
}

func (d *decoder) frame(r *record) val {
	f := [3]uint32{d.textOf(r, kName), d.textOf(r, kFilename), uint32(d.number(r, kLine))}
	id, fresh := d.frames.id(asBytes(f[:]))
	if fresh && id&0xfff == 0 {
		d.spend()
	}
	return mk(tFrame, uint64(id))
}

func (d *decoder) note(r *record) val {
	d.Annotations = append(d.Annotations, Annotation{
		Stage: d.Text(d.textOf(r, kStage)), Name: d.Text(d.textOf(r, kName)), Device: d.device(r),
		Time: d.number(r, kTime),
	})
	if len(d.Annotations)&0xfff == 0 {
		d.spend()
	}
	return mk(tNote, uint64(len(d.Annotations)-1))
}

// event appends a row and returns its number. Its device is known when the list of all devices is.
func (d *decoder) event(r *record) int {
	i := d.n
	if i >= d.rows.cap && !d.moreRows() {
		return 0
	}
	d.Action[i] = d.action(r.v[kAction])
	if r.has(kDeviceFree) && !r.has(kAddr) {
		d.Addr[i] = uint64(d.size(r, kDeviceFree))
	} else {
		d.Addr[i] = d.address(r, kAddr)
	}
	d.Size[i], d.Time[i] = d.size(r, kSize), d.number(r, kTime)
	d.Stream[i], d.Stack[i] = d.stream(d.address(r, kStream)), d.stackValue(r.get(kFrames))
	d.Pool[i] = d.pool(r.get(kPool))
	d.Context[i], d.Metadata[i] = d.optionalText(r, kContext), d.optionalText(r, kMetadata)
	if r.has(kThread) {
		d.thread(i, d.address(r, kThread))
	}
	d.n++
	return i
}

func (d *decoder) moreRows() bool {
	n := max(firstRows, 2*d.rows.cap)
	if n > memoContent {
		d.fail("more than %d events", memoContent)
		return false
	}
	if err := d.rows.resize(d.Columns, n); err != nil {
		d.err = err
		return false
	}
	d.spend()
	return d.err == nil
}

func (d *decoder) thread(i int, t uint64) {
	if d.Thread == nil {
		if err := d.rows.thread.resize(8 * d.rows.cap); err != nil {
			d.err = err
			return
		}
		d.sized += 8 * int64(d.rows.cap)
		d.Thread = as[uint64](&d.rows.thread, d.rows.cap)
	}
	d.Thread[i] = t
}

func (d *decoder) action(v val) uint8 {
	if v.tag() != tText {
		d.fail("event has an action that is not text")
		return 0
	}
	id := uint32(v.content())
	if known := id - nKeys; known < uint32(knownActions) { // newDecoder gives them these numbers
		return uint8(known)
	}
	a, ok := d.actionOf[id]
	if !ok {
		if len(d.Actions) > math.MaxUint8 {
			d.fail("more than %d kinds of action", math.MaxUint8)
			return 0
		}
		a = uint8(len(d.Actions))
		d.actionOf[id] = a
		d.Actions = append(d.Actions, d.Text(id))
	}
	return a
}

func (d *decoder) stream(s uint64) uint16 {
	if len(d.Streams) > 0 && d.Streams[0] == s {
		return 0
	}
	return numbered(d, d.streamOf, &d.Streams, s, "streams")
}

func (d *decoder) pool(v val) uint16 {
	if v == d.lastPool && v.tag() == tTuple {
		return d.lastPoolAt
	}
	at := uint16(0)
	if id := d.pair(v); id != [2]int64{} {
		at = numbered(d, d.poolOf, &d.Pools, id, "private pools")
	}
	d.lastPool, d.lastPoolAt = v, at
	return at
}

// numbered is the place of x in the list, to which it is added if it is new; the map knows the places.
func numbered[T comparable](d *decoder, places map[T]uint16, list *[]T, x T, what string) uint16 {
	i, ok := places[x]
	if !ok {
		if len(*list) > math.MaxUint16 {
			d.fail("more than %d %s", math.MaxUint16, what)
			return 0
		}
		i = uint16(len(*list))
		places[x] = i
		*list = append(*list, x)
	}
	return i
}

// pair is a pool's name: two integers, as a tuple or, after a trip through JSON, as a list.
func (d *decoder) pair(v val) (p [2]int64) {
	if v.tag() == tOther {
		if o := d.others[v.content()]; o.kind == 'l' && len(o.vals) == 2 {
			v, _ = d.tupleOfInts(o.vals)
		}
	}
	if v.tag() == tTuple {
		if t := d.tuples[v.content()]; t[1] != noItem && t[2] == noItem {
			return [2]int64{t[0], t[1]}
		}
	}
	return p
}

func (d *decoder) segment(r *record) val {
	g := SegmentRow{
		Address: d.address(r, kAddress), Stream: d.address(r, kStream), Size: d.size(r, kTotal),
		Allocated: d.size(r, kAllocated), Active: d.size(r, kActive), Requested: d.size(r, kRequested),
		Device: d.segmentDevice(r), Kind: d.optionalText(r, kKind), Pool: d.pair(r.get(kSegmentPool)),
		Expandable: r.get(kExpandable) == mk(tBool, 1), Stack: d.stackValue(r.get(kFrames)),
	}
	g.From, g.To = d.span(r.get(kBlocks), tBlock, "blocks")
	at := g.Address // torch 1.13 gives blocks no address: one begins where the last one ended
	for i := g.From; i < g.To; i++ {
		if d.Blocks[i].Address == noAddress {
			d.Blocks[i].Address = at
		}
		at = d.Blocks[i].Address + uint64(d.Blocks[i].Size)
	}
	d.Segments = append(d.Segments, g)
	if len(d.Segments)&0xfff == 0 {
		d.spend()
	}
	return mk(tRegion, uint64(len(d.Segments)-1))
}

// noAddress marks a block whose address follows from the one before.
const noAddress = math.MaxUint64

// span is the run of rows that a list holds.
func (d *decoder) span(v val, tag uint64, what string) (from, to int) {
	switch v.tag() {
	case tNone, tList:
		return 0, 0
	case tOther:
		if o := d.others[v.content()]; o.kind == uint8(tag) {
			return o.lo, o.hi
		}
	}
	d.fail("%s is not a list of them", what)
	return 0, 0
}

func (d *decoder) block(r *record) val {
	b := BlockRow{Address: noAddress, Size: d.size(r, kSize), Requested: -1, State: d.state(r),
		Stack: d.stackValue(r.get(kFrames))}
	if r.has(kAddress) {
		b.Address = d.address(r, kAddress)
	}
	if r.has(kRequested) {
		b.Requested = d.size(r, kRequested)
	}
	d.history(r.get(kHistory), &b)
	if b.Requested < 0 {
		b.Requested = b.Size
	}
	d.Blocks = append(d.Blocks, b)
	if len(d.Blocks)&0xfff == 0 {
		d.spend()
	}
	return mk(tBlock, uint64(len(d.Blocks)-1))
}

func (d *decoder) state(r *record) BlockState {
	switch text := d.Text(d.textOf(r, kState)); text {
	case string(Allocated), string(Inactive):
		return BlockState(text)
	case string(PendingFree), "active_awaiting_free":
		return PendingFree
	default:
		d.fail("block has the unknown state %.40q", text)
		return ""
	}
}

// history is what torch 1.13 to 2.0 gave instead of frames: the newest allocation first.
func (d *decoder) history(v val, b *BlockRow) {
	if v.tag() != tOther {
		return
	}
	o := d.others[v.content()]
	if o.kind != 'l' || len(o.vals) == 0 || o.vals[0].tag() != tOther {
		return
	}
	var r record
	newest := d.others[o.vals[0].content()]
	for i := 0; i+1 < len(newest.vals) && newest.kind == 'd'; i += 2 {
		if k := newest.vals[i]; k.tag() == tText && k.content() < nKeys {
			r.set(int(k.content()), newest.vals[i+1])
		}
	}
	if r.has(kRealSize) {
		b.Requested = d.size(&r, kRealSize)
	}
	b.Stack = d.stackValue(r.get(kFrames))
}

// The rest reads values.

func (d *decoder) number(r *record, k int) int64 {
	switch v := r.get(k); v.tag() {
	case tInt:
		return v.signed()
	case tBig:
		return int64(d.bigs[v.content()])
	case tBool:
		return int64(v.content())
	case tNone:
		return 0
	case tFloat: // a size that went through a division
		if f := math.Float64frombits(d.bigs[v.content()]); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
	}
	d.fail("%s is not an integer", keyNames[k])
	return 0
}

func (d *decoder) address(r *record, k int) uint64 { return uint64(d.number(r, k)) }

func (d *decoder) size(r *record, k int) int64 {
	n := d.number(r, k)
	if n < 0 || n > maxSize {
		d.fail("%s is not a size in bytes", keyNames[k])
		return 0
	}
	return n
}

// maxSize bounds one size, so that no sum of as many as fit in memory overflows: 2^50 is a thousand terabytes.
const maxSize = 1 << 50

func (d *decoder) device(r *record) int {
	n := d.number(r, kDevice)
	if n < 0 || n >= maxDevices {
		d.fail("device is not a number from 0 to %d", maxDevices-1)
		return 0
	}
	return int(n)
}

// onHost is the device of segments of pinned host memory, until finishHost gives them one.
const onHost = -1

// segmentDevice is onHost for segments of the pinned host allocator: PyTorch (2.15) says that their device is -1.
func (d *decoder) segmentDevice(r *record) int {
	if v := r.get(kDevice); v.tag() == tInt && v.signed() == -1 {
		return onHost
	}
	return d.device(r)
}

func (d *decoder) textOf(r *record, k int) uint32 {
	v := r.get(k)
	if v.tag() != tText {
		if v.tag() != tNone {
			d.fail("%s is not text", keyNames[k])
		}
		return NoText
	}
	return uint32(v.content())
}

// optionalText is what a newer PyTorch may give another type.
func (d *decoder) optionalText(r *record, k int) uint32 {
	if v := r.get(k); v.tag() == tText {
		return uint32(v.content())
	}
	return NoText
}

func (d *decoder) stackValue(v val) uint32 {
	switch v.tag() {
	case tStack:
		return uint32(v.content())
	case tNone, tList:
		return 0
	}
	d.fail("frames is not a list of frames")
	return 0
}
