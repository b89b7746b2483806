package alloc

import (
	"math/bits"
	"sync/atomic"
)

// index finds a live block by its address. It is an open-addressing table with linear probing and deletion by moving
// back, so that no tombstones gather over millions of operations. At most an eighth of it is full, which takes 64 to
// 128 bytes for each block. At a quarter a pair of alloc and free takes 9 ns longer, at a half 28 ns, since the
// processor mispredicts where a probe ends. A slot contains the upper half of the address's hash, from which its place
// follows in a table of any size, and the block's number; the address itself is in the block.
type index struct {
	slots []uint64 // hash>>32<<32 | blockID; 0: empty
	shift uint
	used  int
}

func hashAddr(addr uint64) uint64 { return (addr >> 9) * 0x9e3779b97f4a7c15 }

const hashHalf = 0xffffffff << 32

func (x *index) id(slot int) blockID { return blockID(x.slots[slot]) }

func (x *index) grow() {
	old := x.slots
	n := max(64, 2*len(old))
	x.slots = make([]uint64, n)
	x.shift = uint(64 - bits.Len(uint(n-1)))
	mask := uint64(n - 1)
	for _, s := range old {
		if s == 0 {
			continue
		}
		i := s >> x.shift
		for x.slots[i] != 0 {
			i = (i + 1) & mask
		}
		x.slots[i] = s
	}
}

func (x *index) put(addr uint64, id blockID) {
	if 8*x.used >= len(x.slots) {
		x.grow()
	}
	h := hashAddr(addr)
	mask := uint64(len(x.slots) - 1)
	i := h >> x.shift
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = h&hashHalf | uint64(id)
	x.used++
}

// slot returns the slot of the block at the address, or -1.
func (x *index) slot(at []block, addr uint64) int {
	if len(x.slots) == 0 {
		return -1
	}
	h := hashAddr(addr)
	mask := uint64(len(x.slots) - 1)
	for i := h >> x.shift; ; i = (i + 1) & mask {
		switch s := x.slots[i]; {
		case s == 0:
			return -1
		case s&hashHalf == h&hashHalf && at[blockID(s)].addr == addr:
			return int(i)
		}
	}
}

func (x *index) remove(slot int) {
	mask := uint64(len(x.slots) - 1)
	i := uint64(slot)
	x.used--
	for j := i; ; {
		x.slots[i] = 0
		for {
			j = (j + 1) & mask
			if x.slots[j] == 0 {
				return
			}
			home := x.slots[j] >> x.shift
			if (j-home)&mask >= (j-i)&mask { // its home lies at or before the hole: it may move there
				break
			}
		}
		x.slots[i] = x.slots[j]
		i = j
	}
}

// The directory tells which shard owns an address, for Free without a stream. It is read without a lock: whoever frees
// a block owns it, so its segment exists. One entry covers 2 MiB, the least that CUDA's driver hands out.
const (
	granuleBits = 21
	leafBits    = 14
	topBits     = 48 - granuleBits - leafBits
	mixed       = 1<<32 - 1 // several shards own parts of the granule: check each
)

type directory struct {
	top [1 << topBits]atomic.Pointer[[1 << leafBits]atomic.Uint32]
}

// owner returns the shard's number + 1, mixed, or 0 for nobody.
func (d *directory) owner(addr uint64) uint32 {
	g := addr >> granuleBits
	if g>>leafBits >= 1<<topBits {
		return mixed
	}
	leaf := d.top[g>>leafBits].Load()
	if leaf == nil {
		return 0
	}
	return leaf[g&(1<<leafBits-1)].Load()
}

// add records a segment; under the device lock. If a segment covers a granule in part, the granule's entry remains when
// the segment goes: the next owner makes it mixed, which is slower and still right.
func (d *directory) add(addr uint64, size int64, shard uint32) {
	for g := addr >> granuleBits; g <= (addr+uint64(size)-1)>>granuleBits && g>>leafBits < 1<<topBits; g++ {
		leaf := d.top[g>>leafBits].Load()
		if leaf == nil {
			leaf = new([1 << leafBits]atomic.Uint32)
			d.top[g>>leafBits].Store(leaf)
		}
		e := &leaf[g&(1<<leafBits-1)]
		switch e.Load() {
		case 0, shard + 1:
			e.Store(shard + 1)
		default:
			e.Store(mixed)
		}
	}
}

func (d *directory) remove(addr uint64, size int64) {
	first := (addr + 1<<granuleBits - 1) >> granuleBits
	for g := first; g+1 <= (addr+uint64(size))>>granuleBits && g>>leafBits < 1<<topBits; g++ {
		d.top[g>>leafBits].Load()[g&(1<<leafBits-1)].Store(0)
	}
}
