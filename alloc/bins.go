package alloc

import (
	"math/bits"
	"slices"
)

// The free blocks of a pool lie in bins by size, as in a TLSF allocator: exact in steps of 512 bytes up to 64 KiB, then
// 64 bins for each doubling. A search finds the smallest block that fits, and among equals the one at the lowest
// address. That is PyTorch's order (CUDACachingAllocator.cpp, BlockComparatorSize), however many blocks there are.
//
// Within a bin, recently added blocks form an unordered list, from which they are removed at once: most leave again,
// merged with a neighbour, before any search. A search checks the whole list; if the list has grown long, the search
// first moves it to the bin's treap, which is ordered by (size, address). So a block costs at most one insertion into
// the treap.
//
// Slot 0 of the slab stands for no block. Links to it are written like any other: the branch costs more than the store.
const (
	subBits  = 6
	numBins  = (51-6+1)<<subBits + 1<<(subBits+1) // sizes up to 2^60
	binWords = (numBins + 63) / 64                // 48: one word summarises them
	maxFresh = 8                                  // blocks of a bin's list that a search checks
)

type bins struct {
	summary uint64 // bit w: words[w] has a bit
	words   [binWords]uint64
	bins    [numBins]bin
	count   int
}

type bin struct {
	fresh blockID // the list's first block; linked by right, and back by left
	root  blockID // of the treap
}

// binOf numbers the bins by size: linear up to 128 steps, then logarithmic; the two parts join without a gap.
func binOf(size int64) int {
	u := uint64(size) >> 9
	shift := bits.Len64(u|1<<subBits) - subBits - 1
	return shift<<subBits + int(u>>shift)
}

func (n *bins) insert(at []block, id blockID) {
	b := &at[id]
	i := binOf(b.size)
	n.count++
	n.words[i>>6] |= 1 << (i & 63)
	n.summary |= 1 << (i >> 6)
	bin := &n.bins[i]
	b.left, b.right, b.fresh = 0, bin.fresh, true
	at[bin.fresh].left = id
	bin.fresh = id
}

func (n *bins) remove(at []block, id blockID) {
	b := &at[id]
	i := binOf(b.size)
	n.count--
	bin := &n.bins[i]
	if b.fresh {
		first := bin.fresh
		if b.left == 0 {
			first = b.right
		}
		bin.fresh = first
		at[b.left].right, at[b.right].left = b.right, b.left
	} else {
		treapRemove(at, &bin.root, id)
	}
	n.words[i>>6] &^= one(bin.fresh|bin.root == 0) << (i & 63)
	n.summary &^= one(n.words[i>>6] == 0) << (i >> 6)
}

// one is 1 if b is true, else 0.
func one(b bool) (n uint64) {
	if b {
		n = 1
	}
	return n
}

// best returns the smallest free block of at least size bytes, of equals the lowest; 0 if there is none.
func (n *bins) best(at []block, size int64) blockID {
	return n.from(at, size, 0)
}

// from returns the first block at or after (size, addr) in the order of sizes and addresses.
func (n *bins) from(at []block, size int64, addr uint64) blockID {
	for i := n.nextBin(binOf(size)); i >= 0; i = n.nextBin(i + 1) {
		if id := n.bins[i].from(at, size, addr); id != 0 {
			return id
		}
	}
	return 0
}

// from returns the bin's first block at or after (size, addr).
func (n *bin) from(at []block, size int64, addr uint64) (found blockID) {
	var bestSize int64
	var bestAddr uint64
	length := 0
	for id := n.fresh; id != 0; id = at[id].right {
		if length++; length > maxFresh {
			n.tidy(at)
			return treapFrom(at, n.root, size, addr)
		}
		b := &at[id]
		if b.size < size || b.size == size && b.addr < addr {
			continue
		}
		if found == 0 || b.size < bestSize || b.size == bestSize && b.addr < bestAddr {
			found, bestSize, bestAddr = id, b.size, b.addr
		}
	}
	if n.root != 0 {
		if id := treapFrom(at, n.root, size, addr); id != 0 && (found == 0 || less(&at[id], &at[found])) {
			return id
		}
	}
	return found
}

// tidy moves the list to the treap.
func (n *bin) tidy(at []block) {
	for id := n.fresh; id != 0; {
		next := at[id].right
		at[id].left, at[id].right, at[id].fresh = 0, 0, false
		treapInsert(at, &n.root, id)
		id = next
	}
	n.fresh = 0
}

// after returns the block that follows id in that order.
func (n *bins) after(at []block, id blockID) blockID {
	return n.from(at, at[id].size, at[id].addr+1)
}

// last returns the largest block, of equals the highest; 0 if there is none.
func (n *bins) last(at []block) blockID {
	for w := binWords - 1; w >= 0; w-- {
		if n.words[w] != 0 {
			return n.bins[w<<6+bits.Len64(n.words[w])-1].last(at)
		}
	}
	return 0
}

func (n *bin) last(at []block) blockID {
	found := n.root
	for found != 0 && at[found].right != 0 {
		found = at[found].right
	}
	for id := n.fresh; id != 0; id = at[id].right {
		if found == 0 || less(&at[found], &at[id]) {
			found = id
		}
	}
	return found
}

// free returns the sum of the blocks' sizes, by a walk: only for the rare reports.
func (n *bins) free(at []block) (bytes int64) {
	for _, id := range n.all(at) {
		bytes += at[id].size
	}
	return bytes
}

func (n *bins) nextBin(i int) int {
	w := i >> 6
	if w >= binWords {
		return -1
	}
	if word := n.words[w] >> (i & 63) << (i & 63); word != 0 {
		return w<<6 + bits.TrailingZeros64(word)
	}
	above := n.summary >> (w + 1) << (w + 1)
	if above == 0 {
		return -1
	}
	w = bits.TrailingZeros64(above)
	return w<<6 + bits.TrailingZeros64(n.words[w])
}

// all returns the blocks in order, for the rare walks over a pool: releasing, collecting, checking.
func (n *bins) all(at []block) []blockID { return n.atLeast(at, 0) }

// atLeast returns the blocks of size bytes and more, and perhaps some that are slightly smaller, in order.
func (n *bins) atLeast(at []block, size int64) (to []blockID) {
	for i := n.nextBin(binOf(size)); i >= 0; i = n.nextBin(i + 1) {
		begin := len(to)
		to = treapAll(at, n.bins[i].root, to)
		fresh := len(to)
		for id := n.bins[i].fresh; id != 0; id = at[id].right {
			to = append(to, id)
		}
		if in := to[begin:]; len(to) > fresh && len(in) > 1 {
			slices.SortFunc(in, func(x, y blockID) int {
				if less(&at[x], &at[y]) {
					return -1
				}
				return 1 // no two have the same address
			})
		}
	}
	return to
}

func treapAll(at []block, id blockID, to []blockID) []blockID {
	if id == 0 {
		return to
	}
	to = append(treapAll(at, at[id].left, to), id)
	return treapAll(at, at[id].right, to)
}

func less(a, b *block) bool {
	return a.size < b.size || (a.size == b.size && a.addr < b.addr)
}

// priority orders a treap from the root: a mix of the slot's number, so that a run is the same every time.
func priority(id blockID) uint32 {
	x := uint32(id) * 0x9e3779b1
	x ^= x >> 15
	return x * 0x85ebca6b
}

func treapInsert(at []block, link *blockID, id blockID) {
	b, p := &at[id], priority(id)
	for *link != 0 && priority(*link) >= p {
		if c := &at[*link]; less(b, c) {
			link = &c.left
		} else {
			link = &c.right
		}
	}
	rest := *link
	*link = id
	l, r := &b.left, &b.right // split what was here into the smaller and the larger
	for rest != 0 {
		if c := &at[rest]; less(c, b) {
			*l, rest = rest, c.right
			l = &c.right
		} else {
			*r, rest = rest, c.left
			r = &c.left
		}
	}
	*l, *r = 0, 0
}

func treapRemove(at []block, link *blockID, id blockID) {
	b := &at[id]
	for *link != id {
		if c := &at[*link]; less(b, c) {
			link = &c.left
		} else {
			link = &c.right
		}
	}
	l, r := b.left, b.right
	for l != 0 && r != 0 { // merge the two subtrees
		if priority(l) >= priority(r) {
			*link = l
			link = &at[l].right
			l = *link
		} else {
			*link = r
			link = &at[r].left
			r = *link
		}
	}
	*link = l | r
}

func treapFrom(at []block, id blockID, size int64, addr uint64) (found blockID) {
	for id != 0 {
		b := &at[id]
		if b.size > size || (b.size == size && b.addr >= addr) {
			found, id = id, b.left
		} else {
			id = b.right
		}
	}
	return found
}
