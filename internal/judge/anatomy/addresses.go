package anatomy

import (
	"cmp"
	"maps"
	"slices"
)

// addresses is a map from addresses of live blocks to rows: open addressing without tombstones. Go's map takes three
// times as long, for six million events a second of it.
type addresses struct {
	table []addressSlot
	used  int
}

type addressSlot struct {
	addr uint64
	row  int32 // one more than the row; 0 is empty
}

func newAddresses() *addresses { return &addresses{table: make([]addressSlot, 1<<10)} }

func (a *addresses) home(addr uint64) int {
	return int(addr*0x9E3779B97F4A7C15>>20) & (len(a.table) - 1)
}

// find is where an address is or would be.
func (a *addresses) find(addr uint64) int {
	i := a.home(addr)
	for a.table[i].row != 0 && a.table[i].addr != addr {
		i = (i + 1) & (len(a.table) - 1)
	}
	return i
}

func (a *addresses) get(addr uint64) (row int32, ok bool) {
	s := a.table[a.find(addr)]
	return s.row - 1, s.row != 0
}

func (a *addresses) put(addr uint64, row int32) {
	if 2*a.used > len(a.table) {
		old := a.table
		a.table = make([]addressSlot, 2*len(old))
		for _, s := range old {
			if s.row != 0 {
				a.table[a.find(s.addr)] = s
			}
		}
	}
	i := a.find(addr)
	if a.table[i].row == 0 {
		a.used++
	}
	a.table[i] = addressSlot{addr, row + 1}
}

// take removes an address, and moves what stood behind it, so that no search ends too early.
func (a *addresses) take(addr uint64) (row int32, ok bool) {
	i, mask := a.find(addr), len(a.table)-1
	row = a.table[i].row - 1
	if row < 0 {
		return 0, false
	}
	a.used--
	for k := (i + 1) & mask; a.table[k].row != 0; k = (k + 1) & mask {
		if h := a.home(a.table[k].addr); (k-h)&mask >= (k-i)&mask {
			a.table[i] = a.table[k]
			i = k
		}
	}
	a.table[i] = addressSlot{}
	return row, true
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
