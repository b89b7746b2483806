package alloc

import "errors"

// packedSegment is large against nearly every request, so that a segment's last unusable rest is small against it, and
// small against a device: what the newest segment has unused is 0.4 % of a 60 GiB training.
const packedSegment = 256 << 20

// An adaptive packed pool sizes its next segment for adaptBlocks requests of the mean size of the last adaptEvery ones,
// between the bounds. Only the requests and their number decide, so a run is the same every time.
const (
	adaptEvery  = 1024
	adaptBlocks = 16
	adaptMin    = 32 << 20
	adaptMax    = 512 << 20
)

func (p *pool) adapt(size int64) {
	p.asked += size
	if p.askedCount++; p.askedCount < adaptEvery && p.segment != 0 {
		return
	}
	mean := p.asked / p.askedCount
	p.segment = min(max(roundUp(adaptBlocks*mean, roundLarge), adaptMin), adaptMax)
	if p.askedCount >= adaptEvery {
		p.asked, p.askedCount = 0, 0
	}
}

// extendPacked asks for a segment of the usual size, or of the request's own if that is larger. When the device has not so
// much left it asks for less, down to what the request needs.
func (a *Allocator) extendPacked(s *shard, p *pool, size int64) (blockID, error) {
	need := roundUp(size, roundLarge)
	want := max(need, a.r.segment)
	if a.r.adaptive {
		want = max(need, p.segment)
	}
	if !p.large {
		need, want = smallBuffer, smallBuffer
	}
	for {
		id, err := a.newSegment(s, p, want)
		if err == nil || want == need || !errors.Is(err, ErrNoMemory) {
			return id, err
		}
		want = max(need, roundUp(want/2, roundLarge))
	}
}
