package hub

import (
	"hash/maphash"
	"time"

	"github.com/memgauge/memgauge/internal/base/quota"
)

// What one node may ask of the hub in a time. A node with 8 ranks sends some 13 frames in 30 s, each of another table:
// a megabyte unpacked, and as many files a minute of the lake; one with a job for each rank eight times those. Frames
// beyond its share stay in the stream, up to what bus lets wait of one node, and come again when there is room for
// them: a node that catches up does so more slowly, and others don't notice.
var (
	byteShare = rate{burst: 256 << 20, each: 2 << 20} // unpacked: a small frame may hold 64 MiB of zeros
	fileShare = rate{burst: 256, each: 2}             // files of the lake: some 10 ms and an fsync each
	// hourShare is of partitions (table, job, hour) that the node has had no row in within this hour. A day that it
	// was away takes two minutes, a month five hours.
	hourShare = rate{burst: 256, each: 0.5}
)

// keptShare is how much of a lake with a bound a node may fill in a day, in bytes as frames have them, which is about
// what a file of theirs takes: beyond the bound the oldest hours of all nodes are given up. Without it one node, by
// rows under ever new names, would push out within minutes what others had kept for weeks. So it takes a node sixteen
// days. A node of eight ranks sends some 0.4 GB a day, which a small lake leaves room for.
func keptShare(lake int64) rate {
	if lake == 0 {
		return rate{}
	}
	day := max(float64(lake)/16, leastKept)
	return rate{burst: day, each: day / (24 * time.Hour).Seconds()}
}

const leastKept = 1 << 30 // bytes a day

// Bounds of the time after which a frame comes again.
const (
	leastLater = time.Second
	mostLater  = 5 * time.Minute
)

// rate is so much at once, and so much each second.
type rate struct{ burst, each float64 }

// bucket is what is left of a rate. It may fall below nothing: whatever is larger than the burst passes too, and what
// follows waits for it.
type bucket struct {
	left   float64
	queued float64 // that was told to come later, and has not had the time to
	at     time.Time
}

// take asks for some: 0 that it may have it, or after which time it is to ask again.
func (b *bucket) take(r rate, cost float64, now time.Time) (later time.Duration) {
	if b.at.IsZero() {
		b.left = r.burst
	} else if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left = min(r.burst, b.left+passed*r.each)
		b.queued = max(0, b.queued-passed*r.each)
	}
	b.at = now
	if b.left > 0 {
		b.left -= cost
		return 0
	}
	b.queued += cost
	wait := time.Duration((b.queued - b.left) / r.each * float64(time.Second))
	return min(max(wait, leastLater), mostLater)
}

// full says that nothing was taken for so long that the bucket need not be remembered.
func (b *bucket) full(r rate, now time.Time) bool {
	return b.at.IsZero() || b.left+now.Sub(b.at).Seconds()*r.each >= r.burst
}

// mostSeen bounds the partitions that are remembered of all nodes: 50 for each of maxNodes, where one has rows in some
// 30 an hour, of 24 bytes.
const mostSeen = 1 << 20

// remembered finds what is kept of a node, and begins it where there is nothing. Names come and go: where there are
// maxNodes already, forget takes out those that need not be remembered.
func remembered[V any](all map[string]*V, node string, forget func()) *V {
	one := all[node]
	if one == nil {
		if len(all) >= maxNodes {
			forget()
		}
		one = new(V)
		all[node] = one
	}
	return one
}

// share is what a node has left.
type share struct {
	bytes, files, hours bucket
	kept                bucket // of keptShare
	hour                time.Time
	seen                map[uint64]struct{} // hashes of partitions in this hour; hourShare bounds them
}

// shares are those of all nodes that sent something lately. They are for one goroutine.
type shares struct {
	all  map[string]*share
	kept rate // of a node's share.kept
	seed maphash.Seed
	seen *quota.Quota // of share.seen
	// origin is where a node is, and whether it has its name still.
	origin func(node string) (origin string, known bool)
}

func newShares(lake int64, origin func(string) (string, bool)) shares {
	return shares{map[string]*share{}, keptShare(lake), maphash.MakeSeed(), quota.New(mostSeen, maxNodes), origin}
}

// of finds a node's.
func (s shares) of(node string, now time.Time) *share {
	one := remembered(s.all, node, func() { s.forget(now) })
	if hour := now.Truncate(time.Hour); !hour.Equal(one.hour) {
		one.hour, one.seen = hour, map[uint64]struct{}{}
		s.seen.Set(node, "", 0)
	}
	return one
}

// forget forgets nodes that have all of their share, and those whose name another may have by now: names can be made up
// more quickly than shares come back.
func (s shares) forget(now time.Time) {
	for node, one := range s.all {
		full := one.bytes.full(byteShare, now) && one.files.full(fileShare, now) && one.hours.full(hourShare, now) &&
			one.kept.full(s.kept, now)
		if _, known := s.origin(node); full || !known {
			delete(s.all, node)
			s.seen.Set(node, "", 0)
		}
	}
}

// lets says after which time a frame of so many bytes may be kept; 0: now.
func (s shares) lets(one *share, frame int, now time.Time) time.Duration {
	if s.kept.burst == 0 {
		return 0
	}
	return one.kept.take(s.kept, float64(frame), now)
}

// parts asks for the partitions of a node's frame; flushed are those that this flush makes files of already.
func (s shares) parts(node string, names []string, flushed map[string]bool, now time.Time) (later time.Duration) {
	one := s.of(node, now)
	var files, hours float64
	hashes := make([]uint64, len(names))
	for i, name := range names {
		if !flushed[name] {
			files++
		}
		hashes[i] = maphash.String(s.seed, name)
		if _, seen := one.seen[hashes[i]]; !seen {
			hours++
		}
	}
	if hours > 0 {
		later = one.hours.take(hourShare, hours, now)
	}
	if files > 0 && later == 0 {
		later = one.files.take(fileShare, files, now)
	}
	if later > 0 {
		return later
	}
	for i, name := range names {
		one.seen[hashes[i]], flushed[name] = struct{}{}, true
	}
	origin, _ := s.origin(node)
	s.seen.Set(node, origin, int64(len(one.seen)))
	for _, most := range s.seen.Yield() { // their partitions count as new ones
		s.all[most].seen = map[uint64]struct{}{}
	}
	return 0
}
