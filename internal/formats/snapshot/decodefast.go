package snapshot

import (
	"bytes"
	"encoding/binary"
)

// This file reads what snapshots consist of, events and their stacks, without the machine's stack. Each function
// returns 0 where things are of another shape, having changed nothing that counts; the machine then reads the same
// bytes.

// fastStack reads a list of frames that were all met before, from behind its EMPTY_LIST: MEMOIZE MARK
// (BINGET|LONG_BINGET)* APPENDS. It returns where it ends.
func (d *decoder) fastStack(b []byte, p int) int {
	if b[p] != 0x94 || b[p+1] != '(' || !d.memoRoom(uint64(d.memoLen)+1) {
		return 0
	}
	id, end := d.stackOfRun(b, p+2, d.memoLen)
	if end == 0 {
		return 0
	}
	v := mk(tStack, uint64(id))
	d.push(v)
	d.slot[d.sp-1] = uint32(d.memoLen) + 1
	d.memo[d.memoLen] = packed(v) + 1
	d.memoLen++
	return end
}

// stackOfRun is the stack that the memo reads at p give, and where it ends, behind APPENDS; 0 for something else. The
// memo is looked at only where a run is new.
func (d *decoder) stackOfRun(b []byte, p, memoLen int) (id uint32, end int) {
	r, found := d.in.run(p)
	if found && r.id < uint32(len(d.runStacks)) && d.runStacks[r.id] != 0 {
		return d.runStacks[r.id] - 1, p + int(r.len) + 1
	}
	end = p + int(r.len)
	if !found {
		if end = endOfRun(b, p); end == p || b[end] != 'e' {
			return 0, 0
		}
	}
	id, ok := d.stackOf(b[p:end], memoLen)
	if !ok {
		return 0, 0
	}
	if found && r.id != noRun {
		if n := int(r.id) + 1; n > len(d.runStacks) {
			d.runStacks = append(d.runStacks, make([]uint32, n-len(d.runStacks))...)
		}
		d.runStacks[r.id] = id + 1
	}
	return id, end + 1
}

// stackOf reads a run.
func (d *decoder) stackOf(run []byte, memoLen int) (uint32, bool) {
	frames := d.scratch[:0]
	for p := 0; p < len(run); {
		var i uint64
		if run[p] == 'j' {
			i = uint64(binary.LittleEndian.Uint32(run[p+1:]))
			p += 5
		} else {
			i = uint64(run[p+1])
			p += 2
		}
		if i >= uint64(memoLen) || d.memo[i] == 0 {
			return 0, false
		}
		v := unpackedVal(d.memo[i] - 1)
		if v.tag() != tFrame {
			return 0, false
		}
		frames = append(frames, uint32(v.content()))
	}
	d.scratch = frames
	return d.stackID(frames), true
}

// maxKeys is how many keys an event may have here; PyTorch 2.15 writes 10.
const maxKeys = 16

// eventKey is how the events before have named one of their keys, the first, the second and so on: programs write all
// events alike. A memo entry is written once, so the same opcode names the same key.
type eventKey struct {
	code, mask uint64 // the opcode, and which bytes of the next 8 are its; 1 and 0 where there is none
	width      int
	key        int
	text       []byte // what its value was when it was last a text, and its number
	textID     uint32
}

// fastEvent reads an event from behind its EMPTY_DICT to behind its SETITEMS.
func (d *decoder) fastEvent(b []byte, p int) int {
	if b[p] != 0x94 || b[p+1] != '(' || len(b)-p < slack || !d.memoRoom(uint64(d.memoLen)+2*maxKeys) {
		return 0
	}
	p += 2
	self := d.memoLen
	next := self + 1 // memo entries from self on are written, but count only when the event is whole
	r := &d.fast
	r.have = 0
	for i := range d.keys {
		if b[p] == 'u' && r.has(kAction, kSize) {
			v := mk(tEvent, uint64(d.event(r)))
			d.memo[self], d.memoLen = packed(v)+1, next
			d.push(v)
			d.slot[d.sp-1] = uint32(self) + 1
			return p + 1
		}
		k := &d.keys[i]
		same := binary.LittleEndian.Uint64(b[p:])&k.mask == k.code
		if !same && !d.otherKey(k, b, p, self) || i == 0 && k.key != kAction {
			return 0
		}
		v, q, n := d.fastValue(k, b, p+k.width, next)
		if q == 0 {
			return 0
		}
		r.set(k.key, v)
		p, next = q, n
	}
	return 0
}

// otherKey reads a key where the events before had another.
func (d *decoder) otherKey(k *eventKey, b []byte, p, self int) bool {
	v, q := d.memoAt(b, p, self)
	if q == 0 || v.tag() != tText || v.content() >= nKeys {
		return false
	}
	k.width, k.key, k.text = q-p, int(v.content()), nil
	k.mask = 1<<(8*k.width) - 1
	k.code = binary.LittleEndian.Uint64(b[p:]) & k.mask
	return true
}

// memoAt reads a BINGET or LONG_BINGET of an entry below the limit; None if it is something else.
func (d *decoder) memoAt(b []byte, p, limit int) (val, int) {
	var i, q int
	switch b[p] {
	case 'j':
		i, q = int(binary.LittleEndian.Uint32(b[p+1:])), p+5
	case 'h':
		i, q = int(b[p+1]), p+2
	default:
		return 0, 0
	}
	if i >= limit || d.memo[i] == 0 {
		return 0, 0
	}
	return unpackedVal(d.memo[i] - 1), q
}

// fastValue reads the value of an event's key. It returns where it ends, 0 for another shape, and the next memo index.
func (d *decoder) fastValue(k *eventKey, b []byte, p, next int) (val, int, int) {
	switch b[p] {
	case 'h', 'j':
		v, q := d.memoAt(b, p, next)
		return v, q, next
	case 'K':
		if b[p+2] == 'K' && b[p+4] == 0x86 && b[p+5] == 0x94 { // two small integers: the name of a pool
			pair := [3]int64{int64(b[p+1]), int64(b[p+3]), noItem}
			v := d.smallPair(pair)
			d.memo[next] = packed(v) + 1
			return v, p + 6, next + 1
		}
		return mk(tInt, uint64(b[p+1])), p + 2, next
	case 'M':
		return mk(tInt, uint64(binary.LittleEndian.Uint16(b[p+1:]))), p + 3, next
	case 'J':
		return mk(tInt, uint64(int64(int32(binary.LittleEndian.Uint32(b[p+1:]))))), p + 5, next
	case 0x8a:
		n := uint(b[p+1])
		if n == 0 || n > 7 {
			return 0, 0, 0
		}
		shift := 64 - 8*n
		return mk(tInt, uint64(int64(binary.LittleEndian.Uint64(b[p+2:])<<shift)>>shift)), p + 2 + int(n), next
	case 0x8c:
		q := p + 2 + int(b[p+1])
		if b[q] != 0x94 {
			return 0, 0, 0
		}
		if k.text == nil || !bytes.Equal(k.text, b[p+2:q]) {
			k.textID = d.textID(b[p+2 : q])
			k.text = append(k.text[:0], b[p+2:q]...)
		}
		v := mk(tText, uint64(k.textID))
		d.memo[next] = packed(v) + 1
		return v, q + 1, next + 1
	case ']':
		return d.fastFrames(b, p, next)
	}
	return 0, 0, 0
}

// smallPair is tupleOfVals of two small integers; nearly all events have the pair of the one before.
func (d *decoder) smallPair(t [3]int64) val {
	if d.lastPair != t {
		d.lastPair = t
		d.lastPairVal, _ = d.tupleOfInts([]val{mk(tInt, uint64(t[0])), mk(tInt, uint64(t[1]))})
	}
	return d.lastPairVal
}

func (d *decoder) fastFrames(b []byte, p, next int) (val, int, int) {
	if b[p+1] != 0x94 || b[p+2] != '(' {
		return 0, 0, 0
	}
	id, end := d.stackOfRun(b, p+3, next)
	if end == 0 || len(b)-end < slack/2 {
		return 0, 0, 0
	}
	v := mk(tStack, uint64(id))
	d.memo[next] = packed(v) + 1
	return v, end, next + 1
}
