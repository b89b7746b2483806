package alloc

import "errors"

// packedSegment is large against nearly every request, so that a segment's last unusable rest is small against it, and
// small against a device: what the newest segment has unused is 0.4 % of a 60 GiB training.
const packedSegment = 256 << 20

// extendPacked asks for a segment of the usual size, or of the request's own if that is larger. When the device has not so
// much left it asks for less, down to what the request needs.
func (a *Allocator) extendPacked(s *shard, p *pool, size int64) (blockID, error) {
	need := roundUp(size, roundLarge)
	want := max(need, a.r.segment)
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
