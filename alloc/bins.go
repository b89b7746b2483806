package alloc

import "math/bits"

// The free blocks of a pool lie in bins by size, as in a TLSF allocator: exact in steps of 512 bytes below 64 KiB, then 64
// bins for each doubling. Within a bin they form a treap ordered by (size, address): nearly always one or two nodes, and
// logarithmic when many blocks are alike, where a list would be searched from end to end. The block found is therefore
// the smallest that fits and of those the one at the lowest address, which is PyTorch's order
// (CUDACachingAllocator.cpp, BlockComparatorSize), and found without regard to how many there are.
const (
	exactBins = 64
	subBits   = 6
	numBins   = exactBins + (51-6+1)<<subBits // sizes up to 2^60
	binWords  = (numBins + 63) / 64           // 47: one word sums them up
)

type bins struct {
	summary uint64 // bit w: words[w] has a bit
	words   [binWords]uint64
	roots   [numBins]blockID
	count   int
	bytes   int64
}

func binOf(size int64) int {
	u := uint64(size) >> 9
	if u < exactBins {
		return int(u)
	}
	f := bits.Len64(u) - 1
	return exactBins + (f-6)<<subBits + int(u>>(f-subBits))&(1<<subBits-1)
}

func (n *bins) insert(at []block, id blockID) {
	b := &at[id]
	i := binOf(b.size)
	n.count++
	n.bytes += b.size
	b.left, b.right = 0, 0
	if n.roots[i] == 0 {
		n.roots[i] = id
		n.words[i>>6] |= 1 << (i & 63)
		n.summary |= 1 << (i >> 6)
		return
	}
	treapInsert(at, &n.roots[i], id)
}

func (n *bins) remove(at []block, id blockID) {
	b := &at[id]
	i := binOf(b.size)
	n.count--
	n.bytes -= b.size
	if n.roots[i] == id && b.left|b.right == 0 {
		n.roots[i] = 0
		n.words[i>>6] &^= 1 << (i & 63)
		if n.words[i>>6] == 0 {
			n.summary &^= 1 << (i >> 6)
		}
		return
	}
	treapRemove(at, &n.roots[i], id)
}

// best returns the smallest free block of at least size bytes, of equals the lowest; 0 if there is none.
func (n *bins) best(at []block, size int64) blockID {
	return n.from(at, size, 0)
}

// from returns the first block at or after (size, addr) in the order of sizes and addresses.
func (n *bins) from(at []block, size int64, addr uint64) blockID {
	i := binOf(size)
	if r := n.roots[i]; r != 0 {
		if id := treapFrom(at, r, size, addr); id != 0 {
			return id
		}
	}
	i = n.nextBin(i + 1)
	if i < 0 {
		return 0
	}
	id := n.roots[i]
	for at[id].left != 0 {
		id = at[id].left
	}
	return id
}

// after returns the block that follows id in that order.
func (n *bins) after(at []block, id blockID) blockID {
	return n.from(at, at[id].size, at[id].addr+1)
}

// last returns the largest block, of equals the highest; 0 if there is none.
func (n *bins) last(at []block) blockID {
	for w := binWords - 1; w >= 0; w-- {
		if n.words[w] != 0 {
			id := n.roots[w<<6+bits.Len64(n.words[w])-1]
			for at[id].right != 0 {
				id = at[id].right
			}
			return id
		}
	}
	return 0
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
func (n *bins) all(at []block, to []blockID) []blockID {
	for id := n.from(at, 0, 0); id != 0; id = n.after(at, id) {
		to = append(to, id)
	}
	return to
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
