package wire

import (
	"errors"
	"fmt"
	"io"
)

// Ring reads the ring of a process that may be writing to it at the same time. It reads by pread and never maps the
// file: a file that is cut under a mapping raises SIGBUS, under a pread it is a short read. Not for use by several
// goroutines.
type Ring struct {
	Header
	r       io.ReaderAt
	names   []string // names[i] is number i+1
	nameEnd int64    // bytes of the names area that were read
	live    [liveSize]byte
}

// OpenRing checks the header. The file stays the caller's.
func OpenRing(r io.ReaderAt, size int64) (*Ring, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	g := &Ring{Header: *h, r: r}
	g.Live = Live{} // ReadHeader copies a whole page: Poll reads these again, with care
	_, err = g.Poll()
	return g, err
}

// Chunk is a run of records with successive numbers.
type Chunk struct {
	First       uint64 // number of the record in the first slot
	Slots       []byte // SlotSize bytes each; a slot with KindNone holds no record
	Overwritten uint64 // records just before First that are lost
	Damaged     uint64 // slots that should hold a record and don't
	DamagedAt   uint64 // number of the first of them
}

// KindNone marks a slot of a Chunk whose record is lost; no writer uses it.
const KindNone = 0

// Slot is the i-th slot of the chunk.
func (c *Chunk) Slot(i int) *[SlotSize]byte { return (*[SlotSize]byte)(c.Slots[i*SlotSize:]) }

// Len is the number of slots.
func (c *Chunk) Len() int { return len(c.Slots) / SlotSize }

// Next is the number of the record that follows the chunk.
func (c *Chunk) Next() uint64 { return c.First + uint64(c.Len()) }

const (
	liveFrom = OffHead
	liveSize = OffWorldSize + 4 - OffHead // one short read brings all that changes
)

// Poll reads what changes in the header, and reports whether anything did. It costs one pread when nothing did.
func (g *Ring) Poll() (changed bool, err error) {
	l, err := g.readLive()
	if err != nil || l == g.Live {
		return false, err
	}
	if l.Head, err = g.settleHead(l.Head); err != nil {
		return false, err
	}
	if l, err = g.settleRest(l); err != nil {
		return false, err
	}
	if err := g.checkLive(l); err != nil {
		return false, err
	}
	if l.Head < g.Head {
		return false, fmt.Errorf("%w: byte %d: head went back from %d to %d", ErrCorrupt, OffHead, g.Head, l.Head)
	}
	g.Live = l
	return true, nil
}

// settleRest reads the other fields again, after the head: a name that a record up to the head uses was there before
// the record. Names are seldom added, so two equal readings of names_head come soon; a torn one differs from the next.
func (g *Ring) settleRest(l Live) (Live, error) {
	for range 8 {
		again, err := g.readLive()
		if err != nil {
			return l, err
		}
		again.Head = l.Head
		same := again.NamesHead == l.NamesHead
		if l = again; same {
			break
		}
	}
	return l, nil
}

func (g *Ring) readLive() (Live, error) {
	b := g.live[:] // on the stack it would be moved to the heap each time, since r is an interface
	if err := g.readAt(b, liveFrom); err != nil {
		return Live{}, err
	}
	return decodeLive(b, liveFrom), nil
}

// settleHead takes the median of three readings of head. The writer stores it as one aligned word, but nothing promises
// that the kernel copies a page to us in words: a copy by bytes (rep movsb) can mix two values when a carry passes
// through, once in 256 records, and yield a number that is too large or too small. Head only grows and two of three
// readings in a row can't both straddle a carry, so the median lies between two true values: every record up to it is
// published.
func (g *Ring) settleHead(a uint64) (uint64, error) {
	b, err := g.readHead()
	if err != nil || a == b {
		return b, err
	}
	c, err := g.readHead()
	return max(min(a, b), min(max(a, b), c)), err
}

func (g *Ring) readHead() (uint64, error) {
	b := g.live[:8]
	err := g.readAt(b, OffHead)
	return le.Uint64(b), err
}

func (g *Ring) readAt(b []byte, off int64) error {
	n, err := g.r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: file ends at byte %d, %d are missing", ErrCorrupt, off+int64(n), len(b)-n)
	}
	return fmt.Errorf("read ring at byte %d: %w", off, err)
}

// SlotOffset is where record n lies in the file.
func (g *Ring) SlotOffset(n uint64) int64 {
	return g.SlotsOffset + int64(n&(g.SlotCount-1))*SlotSize
}

// Read copies published records from number from on into buf, as many as fit, up to the head that the last Poll saw.
// The chunk's slots lie in buf. An empty chunk with nothing overwritten means that there are no more.
//
// The protocol: the head is known (H); copy; read the head again (H'). The writer may by then have overwritten, or be
// overwriting, every record up to H'+1-SlotCount; those are lost. Of the others a slot that doesn't hold its record is
// read once more (on a machine with weakly ordered stores the head can become visible a moment before the record), then
// it is damaged.
func (g *Ring) Read(buf []byte, from uint64) (Chunk, error) {
	c := Chunk{First: from}
	if from > g.Head {
		return c, nil
	}
	c.skipTo(g.oldest(g.Head))
	n := min(g.Head-c.First+1, uint64(len(buf)/SlotSize), g.SlotCount)
	if c.First > g.Head || n == 0 {
		return c, nil
	}
	if err := g.copySlots(buf[:n*SlotSize], c.First); err != nil {
		return c, err
	}
	c.Slots = buf[:n*SlotSize]
	h, err := g.readHead()
	if err != nil {
		return c, err
	}
	if h != g.Head {
		if h, err = g.settleHead(h); err != nil {
			return c, err
		}
	}
	c.skipTo(g.oldest(h))
	return c, g.verify(&c, h)
}

// oldest returns the number of the oldest record that the ring may still hold when the head is h. The writer may
// already be overwriting it, so verify checks it once more.
func (g *Ring) oldest(h uint64) uint64 {
	if h < g.SlotCount {
		return 1
	}
	return h - g.SlotCount + 1
}

// skipTo counts the records before n as overwritten.
func (c *Chunk) skipTo(n uint64) {
	if n <= c.First {
		return
	}
	lost := n - c.First
	c.Overwritten += lost
	c.Slots = c.Slots[min(lost*SlotSize, uint64(len(c.Slots))):]
	c.First = n
}

func (g *Ring) copySlots(buf []byte, from uint64) error {
	first := min(uint64(len(buf)), (g.SlotCount-from&(g.SlotCount-1))*SlotSize) // up to the end of the area
	if err := g.readAt(buf[:first], g.SlotOffset(from)); err != nil {
		return err
	}
	return g.readAt(buf[first:], g.SlotsOffset)
}

// verify marks the slots that don't hold their record. h is the head after the copy.
func (g *Ring) verify(c *Chunk, h uint64) error {
	if c.Len() > 0 && c.First == h-g.SlotCount+1 && !g.settled(c.Slot(0), c.First) {
		c.skipTo(c.First + 1)
	}
	for i := range c.Len() {
		if s := c.Slot(i); !Whole(s, c.First+uint64(i)) || SlotKind(s) == KindNone {
			g.repair(c, i)
		}
	}
	if c.Overwritten > 0 && c.Len() > 0 && c.Damaged == uint64(c.Len()) {
		return fmt.Errorf("%w: byte %d: head says %d, but no record from %d to %d is there", ErrCorrupt, OffHead, h,
			c.First, c.Next()-1)
	}
	return nil
}

// settled checks the slot that the writer fills next: the writer may have begun while we copied it. A writer changes
// the record's number first, so a second copy that is equal and whole proves that the first one was not torn.
func (g *Ring) settled(s *[SlotSize]byte, n uint64) bool {
	var again [SlotSize]byte
	return Whole(s, n) && g.readAt(again[:], g.SlotOffset(n)) == nil && again == *s
}

// repair reads a slot once more, and marks it if that doesn't help.
func (g *Ring) repair(c *Chunk, i int) {
	s, n := c.Slot(i), c.First+uint64(i)
	if g.readAt(s[:], g.SlotOffset(n)) == nil && Whole(s, n) && SlotKind(s) != KindNone {
		return
	}
	s[PrefixSize-1] = KindNone
	if c.Damaged == 0 {
		c.DamagedAt = n
	}
	c.Damaged++
}
