"""PyTorch's allocator with expandable segments, as far as a snapshot shows it: for snapshots.py.

For each stream and pool there is one stretch of addresses. Memory is mapped into it by the page, as far as an
allocation needs it, the lowest gap first; empty_cache unmaps the pages that nothing lies in, also in the middle. A
snapshot has one segment for each stretch that is mapped without a gap. (c10/cuda/CUDACachingAllocator.cpp:
try_allocate_expandable_block, map_block, unmap_block, snapshot. test/fakecuda has PyTorch itself do it.)
"""
import bisect

MIB = 1 << 20
SMALL = MIB                                 # bytes: the largest allocation of the small pool
PAGES = {True: 2 * MIB, False: 20 * MIB}    # bytes, by whether the pool is the small one
LEAST = 512                                 # bytes: no block is smaller

FREE, UNMAPPED, HELD, PENDING = "inactive", "", "active_allocated", "active_pending_free"


class Block:
    __slots__ = ("at", "size", "state", "requested", "trace", "mapped_by", "prev", "next")

    def __init__(self, at, size, state, prev=None, next=None):
        self.at, self.size, self.state, self.requested, self.trace, self.mapped_by = at, size, state, 0, None, None
        self.prev, self.next = prev, next
        if prev is not None:
            prev.next = self
        if next is not None:
            next.prev = self


class Arena:
    """One stretch of addresses. moved(action, address, bytes) hears what is mapped and unmapped."""

    def __init__(self, base, size, small, moved):
        self.page, self.base, self.moved = PAGES[small], base, moved
        self.first = Block(base, size, UNMAPPED)
        self.free = []                      # (size, address, Block), sorted

    def keep(self, block):
        bisect.insort(self.free, (block.size, block.at, block))

    def drop(self, block):
        del self.free[bisect.bisect_left(self.free, (block.size, block.at))]

    def alloc(self, requested, trace):
        size = -(-requested // LEAST) * LEAST
        block = self.best(size) or self.grown(size, trace)
        if block.size > size:
            rest = Block(block.at + size, block.size - size, FREE, block, block.next)
            rest.requested, block.size = block.requested, size
            self.keep(rest)
        block.state, block.requested, block.trace = HELD, requested, trace
        return block

    def best(self, size):
        """The smallest that fits; one that can grow counts as large as it can become."""
        def most(i):
            b = self.free[i][2]
            return b.size + (b.next.size if b.next is not None and b.next.state == UNMAPPED else 0)
        i = bisect.bisect_left(self.free, (size,))
        if i == len(self.free):
            return None
        while i + 1 < len(self.free) and most(i + 1) < most(i):
            i += 1
        return self.free.pop(i)[2]

    def grown(self, size, trace):
        block = self.first
        while True:                         # the lowest gap that is long enough, with what is free before and behind it
            if block.state == UNMAPPED:
                start = block.prev if block.prev is not None and block.prev.state == FREE else block
                room, b = 0, start
                while room < size and b is not None and b.state in (FREE, UNMAPPED):
                    room, b = room + b.size, b.next
                if room >= size:
                    break
            block = block.next
        if start.state == UNMAPPED:
            start = self.map(start, min(start.size, size), trace)
        while start.size < size:
            start = self.map(start.next, min(start.next.size, size - start.size), trace)
        self.drop(start)
        return start

    def map(self, block, size, trace):
        size = -(-size // self.page) * self.page
        if block.size > size:
            Block(block.at + size, block.size - size, UNMAPPED, block, block.next)
        block.size, block.state, block.mapped_by = size, FREE, trace
        at = block.at
        block = self.merge(block)
        self.keep(block)
        self.moved("segment_map", at, size, trace)
        return block

    def merge(self, block):
        """Makes one block of it and of those beside it in the same state."""
        for other in (block.prev, block.next):
            if other is None or other.state != block.state:
                continue
            if block.state == FREE:
                self.drop(other)
            if other is block.prev:
                block.at, block.prev, block.mapped_by = other.at, other.prev, other.mapped_by
                if other.prev is not None:
                    other.prev.next = block
                if self.first is other:
                    self.first = block
            else:
                block.next = other.next
                if other.next is not None:
                    other.next.prev = block
            block.size += other.size
        return block

    def give(self, block):
        block.state, block.trace = FREE, None
        self.keep(self.merge(block))

    def empty(self, trace):
        """What empty_cache does."""
        for _, _, block in list(self.free):
            begin = self.base + -(-(block.at - self.base) // self.page) * self.page
            end = self.base + (block.at + block.size - self.base) // self.page * self.page
            if begin >= end:
                continue
            self.drop(block)
            if begin > block.at:
                self.keep(self.cut(block.prev, block, block.at, begin - block.at))
            if end < block.at + block.size:
                self.keep(self.cut(block, block.next, end, block.at + block.size - end))
            block.at, block.size, block.state = begin, end - begin, UNMAPPED
            by = block.mapped_by
            self.merge(block)
            self.moved("segment_unmap", begin, end - begin, trace or by)

    def cut(self, prev, next, at, size):
        part = Block(at, size, FREE, prev, next)
        if self.first is next:
            self.first = part
        return part

    def parts(self):
        """The blocks of each stretch that is mapped without a gap."""
        out, block = [], self.first
        while block is not None:
            if block.state != UNMAPPED:
                if block.prev is None or block.prev.state == UNMAPPED:
                    out.append([])
                out[-1].append(block)
            block = block.next
        return out
