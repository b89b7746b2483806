package snapshot

import "math"

// maxOthers bounds dicts and lists that have no place in Columns: settings, and what a later PyTorch adds.
const maxOthers = 4 << 20

func (d *decoder) newOther(kind uint8, items []val) val {
	if len(d.others) >= maxOthers {
		d.fail("more than %d containers that a memory snapshot has no use for", maxOthers)
		return 0
	}
	d.others = append(d.others, other{kind: kind})
	d.growOther(&d.others[len(d.others)-1], items)
	return mk(tOther, uint64(len(d.others)-1))
}

func (d *decoder) growOther(o *other, items []val) {
	o.vals = append(o.vals, items...)
	if d.sized += 8 * int64(len(items)); len(d.others)&0xfff == 0 || len(items) > 1<<12 {
		d.spend()
	}
}

// appendItems gives the list below from what is on the stack from there on.
func (d *decoder) appendItems(from int) {
	items, c := d.stk[from:d.sp], d.stk[from-1]
	if len(items) == 0 {
		return
	}
	var o *other
	switch c.tag() {
	case tList:
	case tStack:
		d.moreFrames(from, c, items)
		return
	case tOther:
		if o = &d.others[c.content()]; o.kind != 'd' {
			break
		}
		fallthrough
	default:
		d.fail("pickle adds items to something that is not a list")
		return
	}
	switch tag := items[0].tag(); {
	case tag == tFrame && o == nil:
		d.moreFrames(from, mk(tStack, 0), items)
	case tag == tEvent || tag == tBlock || tag == tRegion || tag == tNote:
		d.appendRows(from, o, items, tag)
	case o == nil:
		d.fill(from-1, d.newOther('l', items))
	case o.kind != 'l':
		d.fail("list of rows and of other things")
	default:
		d.growOther(o, items)
	}
}

// moreFrames makes the stack that has the items behind the frames that it has.
func (d *decoder) moreFrames(from int, c val, items []val) {
	d.scratch = append(d.scratch[:0], d.StackFrames(uint32(c.content()))...)
	for _, v := range items {
		if v.tag() != tFrame {
			d.fail("a frame is not a dict with name, filename and line")
			return
		}
		d.scratch = append(d.scratch, uint32(v.content()))
	}
	d.fill(from-1, mk(tStack, uint64(d.stackID(d.scratch))))
}

// maxFrames bounds one stack. CPython's own recursion ends at some thousand; C++ frames add to it.
const maxFrames = 1 << 16

func (d *decoder) stackID(frames []uint32) uint32 {
	if len(frames) > maxFrames {
		d.fail("stack of more than %d frames", maxFrames)
		return 0
	}
	id, fresh := d.stacks.id(asBytes(frames))
	if fresh && id&0xfff == 0 {
		d.spend()
	}
	return id
}

// appendRows makes a list of rows. An honest file has a dict for each row, and a list for each device: so the rows of a
// list follow each other, and a list is a run of rows.
func (d *decoder) appendRows(from int, o *other, items []val, tag uint64) {
	lo := items[0].content()
	for i, v := range items {
		if v != mk(tag, lo+uint64(i)) {
			d.fail("a row is in two lists, or out of order")
			return
		}
	}
	hi := int(lo) + len(items)
	if o == nil {
		v := d.newOther(uint8(tag), nil)
		if d.err == nil {
			d.others[v.content()].lo, d.others[v.content()].hi = int(lo), hi
			d.fill(from-1, v)
		}
		return
	}
	if o.kind != uint8(tag) || o.hi != int(lo) {
		d.fail("a row is in two lists, or out of order")
		return
	}
	o.hi = hi
}

// finish takes the snapshot from the root, gives events their device, and cuts the columns to length.
func (d *decoder) finish() {
	d.at = d.p
	root := d.root
	switch {
	case root.tag() == tOther && d.others[root.content()].kind == 'd':
		d.finishDict(d.others[root.content()].vals)
	case root.tag() == tOther && d.others[root.content()].kind == tRegion: // torch.cuda.memory_snapshot()
		d.finishHost(0)
	case root.tag() == tList: // the same, of an allocator that has nothing
	case root.tag() == tDict:
		d.finishDict(nil)
	default:
		d.fail("pickle holds no dict and no list of segments: not a memory snapshot")
	}
	d.rows.show(d.Columns, d.n)
}

func (d *decoder) finishDict(items []val) {
	known := false
	var host val // the events of pinned host memory
	for i := 0; i+1 < len(items); i += 2 {
		if items[i].tag() != tText {
			d.fail("the file's dict has keys that are not text: not a memory snapshot")
			return
		}
		switch v := items[i+1]; items[i].content() {
		case kSegments:
			known = true
			d.span(v, tRegion, "segments")
		case kTraces:
			known = true
			d.traces(v)
		case kSettings:
			d.Settings = d.settings(v, 0)
		case kHostTraces:
			host = v
		}
	}
	d.finishHost(host)
	if !known {
		d.fail("dict has neither segments nor device_traces: not a memory snapshot")
	}
}

// traces gives the events of the n-th list the device n.
func (d *decoder) traces(v val) {
	switch {
	case v.tag() == tNone, v.tag() == tList:
		return
	case v.tag() != tOther || d.others[v.content()].kind != 'l':
		d.fail("device_traces is not a list of lists of events")
		return
	}
	lists := d.others[v.content()].vals
	if len(lists) > maxDevices {
		d.fail("device_traces has %d devices, more than any machine", len(lists))
		return
	}
	seen := 0
	for device, list := range lists {
		lo, hi := d.span(list, tEvent, "a device's trace")
		if lo == hi {
			continue
		}
		if lo < seen {
			d.fail("one list of events for two devices")
			return
		}
		seen = hi
		d.Rows = append(d.Rows, Rows{device, lo, hi})
		for i := lo; device > 0 && i < hi; i++ {
			d.Device[i] = uint16(device)
		}
	}
}

// PinnedHost names the device that stands for pinned host memory, which has an allocator and a history of its own.
const PinnedHost = "pinned host memory"

// finishHost puts pinned host memory behind the devices that have numbers. v is its list of events; None where the file
// has none.
func (d *decoder) finishHost(v val) {
	number, onHosts := 0, 0
	for _, g := range d.Segments {
		number = max(number, g.Device+1)
		if g.Device == onHost {
			onHosts++
		}
	}
	seen := 0
	for _, r := range d.Rows {
		number, seen = max(number, r.Device+1), max(seen, r.To)
	}
	lo, hi := 0, 0
	if v.tag() == tOther && d.others[v.content()].kind == tEvent {
		lo, hi = d.others[v.content()].lo, d.others[v.content()].hi
	}
	switch {
	case lo == hi && onHosts == 0:
		return
	case lo < hi && lo < seen:
		d.fail("one list of events for a device and the host")
		return
	case lo < hi:
		d.Rows = append(d.Rows, Rows{number, lo, hi})
	}
	for i := lo; i < hi; i++ {
		d.Device[i] = uint16(number)
	}
	for i := range d.Segments {
		if d.Segments[i].Device == onHost {
			d.Segments[i].Device = number
		}
	}
	d.DeviceNames = map[int]string{number: PinnedHost}
}

// settings reads a dict of settings; one of them, roundup_power2_divisions, is a dict itself.
func (d *decoder) settings(v val, depth int) (out []Setting) {
	if v.tag() != tOther || d.others[v.content()].kind != 'd' {
		return nil
	}
	items := d.others[v.content()].vals
	for i := 0; i+1 < len(items); i += 2 {
		if items[i].tag() != tText {
			continue
		}
		set := Setting{Name: d.Text(uint32(items[i].content()))}
		switch v := items[i+1]; v.tag() {
		case tText:
			set.Value = d.Text(uint32(v.content()))
		case tInt:
			set.Value = v.signed()
		case tBig:
			set.Value = int64(d.bigs[v.content()])
		case tBool:
			set.Value = v.content() == 1
		case tFloat:
			set.Value = math.Float64frombits(d.bigs[v.content()])
		case tNone:
		case tOther:
			if depth > 0 {
				continue
			}
			set.Value = d.settings(v, depth+1)
		default:
			continue
		}
		out = append(out, set)
	}
	return out
}

// The rest ends what is open in a file that is cut short.

// closeOpen ends the innermost container that is open. A list keeps the items that are whole. A dict that is not whole
// is dropped, unless it is the snapshot itself.
func (d *decoder) closeOpen() {
	m := d.floor()
	if m == 0 {
		d.marks, d.sp = d.marks[:len(d.marks)-1], 0
		return
	}
	c := d.stk[m-1]
	d.unmarked(m)
	switch {
	case c.tag() == tDict || c.tag() == tOther && d.others[c.content()].kind == 'd':
		if (d.sp-m)%2 != 0 {
			d.sp--
		}
		if !d.isRoot(m) {
			d.sp = m - 1
			d.marks = d.marks[:len(d.marks)-1]
			return
		}
		d.extend('u')
	case c.tag() == tList || c.tag() == tStack || c.tag() == tOther:
		for d.sp > m && d.stk[d.sp-1].tag() != d.stk[m].tag() { // what is not whole has another tag
			d.sp--
		}
		d.extend('e')
	default:
		d.marks, d.sp = d.marks[:len(d.marks)-1], m
	}
}

// isRoot says whether the dict that is open at m has the snapshot's keys.
func (d *decoder) isRoot(m int) bool {
	for i := m; i < d.sp; i += 2 {
		if v := d.stk[i]; v == mk(tText, kSegments) || v == mk(tText, kTraces) {
			return true
		}
	}
	return false
}

// unmarked ends lists of one item above m: APPEND needs no mark, so only what lies where shows them.
func (d *decoder) unmarked(m int) {
	inDict := m == 0 || d.stk[m-1].tag() == tDict ||
		d.stk[m-1].tag() == tOther && d.others[d.stk[m-1].content()].kind == 'd'
	for d.err == nil && d.sp-m >= 2 {
		list, item := d.stk[d.sp-2], d.stk[d.sp-1]
		isRow := item.tag() == tEvent || item.tag() == tBlock || item.tag() == tRegion || item.tag() == tFrame
		isList := item.tag() == tOther || item.tag() == tList
		if list.tag() != tList || !isRow && !(inDict && isList) {
			return
		}
		d.marks = append(d.marks, d.sp-1)
		d.extend('e')
	}
}
