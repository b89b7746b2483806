package snapshot

import (
	"bytes"
	"hash/maphash"
	"unsafe"
)

// interner numbers byte strings: equal ones have equal numbers, counted from 0. It holds each once, in one piece of
// memory.
type interner struct {
	blob  []byte
	ends  []uint64 // where each ends in blob
	table []internSlot
	seed  maphash.Seed
}

// internSlot is a place of the open hash table; id is one more than the number, 0 where the place is empty.
type internSlot struct{ hash, id uint32 }

func newInterner() interner {
	return interner{table: make([]internSlot, 1<<10), seed: maphash.MakeSeed()}
}

func (t *interner) len() int { return len(t.ends) }

func (t *interner) get(id uint32) []byte {
	from := uint64(0)
	if id > 0 {
		from = t.ends[id-1]
	}
	return t.blob[from:t.ends[id]]
}

// bytes is about what it holds.
func (t *interner) bytes() int64 { return int64(cap(t.blob) + 8*cap(t.ends) + 8*cap(t.table)) }

// find returns the number of b and whether it was known; if not, at is where to insert it.
func (t *interner) find(b []byte) (id uint32, known bool, at internSlot, place uint64) {
	h := maphash.Bytes(t.seed, b)
	mask := uint64(len(t.table) - 1)
	i := h & mask
	for ; t.table[i].id != 0; i = (i + 1) & mask {
		if t.table[i].hash == uint32(h>>32) && bytes.Equal(t.get(t.table[i].id-1), b) {
			return t.table[i].id - 1, true, internSlot{}, 0
		}
	}
	return uint32(len(t.ends)), false, internSlot{uint32(h >> 32), uint32(len(t.ends)) + 1}, i
}

// id returns the number of b, which it copies if it is new.
func (t *interner) id(b []byte) (id uint32, fresh bool) {
	id, known, slot, place := t.find(b)
	if known {
		return id, false
	}
	t.insert(b, slot, place)
	return id, true
}

// insert copies b to where find did not find it.
func (t *interner) insert(b []byte, slot internSlot, place uint64) {
	t.blob = append(t.blob, b...)
	t.ends = append(t.ends, uint64(len(t.blob)))
	t.table[place] = slot
	if 2*len(t.ends) > len(t.table) {
		t.grow()
	}
}

func (t *interner) grow() {
	t.table = make([]internSlot, 4*len(t.table))
	mask := uint64(len(t.table) - 1)
	for id := range uint32(len(t.ends)) {
		h := maphash.Bytes(t.seed, t.get(id))
		i := h & mask
		for t.table[i].id != 0 {
			i = (i + 1) & mask
		}
		t.table[i] = internSlot{uint32(h >> 32), id + 1}
	}
}

// asNumbers shows bytes as the numbers that asBytes made them of.
func asNumbers(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func asBytes(n []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(n))), 4*len(n))
}
