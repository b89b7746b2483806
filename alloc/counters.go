package alloc

// metric is one gauge. Each is kept for all blocks and for each pool.
type metric int

const (
	allocations    metric = iota // live blocks
	allocatedBytes               // their sizes
	usedBytes                    // what their owners requested
	cachedBytes                  // reserved and not allocated
	splitBlocks                  // free blocks that share their segment with others
	splitBytes                   // their sizes
	segments                     // what the driver gave in one piece
	reservedBytes                // memory got from the driver and not given back
	oversizeBlocks               // live and pending blocks of at least max_split_size
	oversizeSegments
	activeBlocks   // live and pending blocks …
	activeBytes    // … their sizes …
	requestedBytes // … and what their owners requested: see counters.mirror
	numMetrics
)

// scope selects a gauge's part: all blocks, or those of one pool. The last value is unused: with a power of two the
// compiler knows that scope&3 is one of them.
const (
	scopeAll = iota
	scopeSmall
	scopeLarge
	scopeNone
	numScopes
)

const numGauges = int(numMetrics) * numScopes

func scopeOf(large bool) int { return scopeSmall + int(one(large)) }

// counters are a shard's gauges. A gauge's limit is how far it may rise before the device's peak could change. With one
// shard the limit is the peak itself. With several, the room below the peak is dealt out to them. A shard that exceeds
// its part has the sum taken while all others are stopped (Allocator.settle). So the peaks of the device's sums are
// exact, and in the steady state no shard writes a word that another one reads.
type counters struct {
	cur    [numGauges]int64
	limit  [numGauges]int64
	total  [numGauges]int64  // of all increases; scopeAll is the sum of the others, computed when it is read
	over   int64             // below 0: some gauge is beyond its limit
	active bool              // active gauges are counted: the device has had a pending block
	summed *[numGauges]int64 // the part of cur that is in the device's totals; nil: peaks are settled by limits
}

// unlimited removes the limits, where the device's totals have the peaks.
func (c *counters) unlimited() {
	for i := range c.limit {
		c.limit[i] = noLimit
	}
}

// up adds d ≥ 0 to a gauge.
func (c *counters) up(m metric, scope int, d int64) {
	i := int(m) * numScopes
	j := i + scope&(numScopes-1)
	all, part := c.cur[i]+d, c.cur[j]+d
	c.cur[i], c.cur[j] = all, part
	c.over |= (c.limit[i] - all) | (c.limit[j] - part)
	c.total[j] += d
}

// down takes d ≥ 0 from a gauge.
func (c *counters) down(m metric, scope int, d int64) {
	i := int(m) * numScopes
	c.cur[i] -= d
	c.cur[i+scope&(numScopes-1)] -= d
}

// add adds d to a gauge. It does not branch, since the sign is as random as the program's sizes.
func (c *counters) add(m metric, scope int, d int64) {
	i := int(m) * numScopes
	j := i + scope&(numScopes-1)
	all, part := c.cur[i]+d, c.cur[j]+d
	c.cur[i], c.cur[j] = all, part
	c.over |= (c.limit[i] - all) | (c.limit[j] - part)
	c.total[j] += d &^ (d >> 63) // increases only
}

// raise raises the peaks to the present values where these are higher; for the only shard of a device.
func (c *counters) raise() {
	for i, v := range c.cur {
		if v > c.limit[i] {
			c.limit[i] = v
		}
	}
	c.over = 0
}

// mirrored are the gauges that are equal as long as no block was ever pending. Most programs never have a pending
// block, so the active gauges are not counted until then, and are copied when they are read.
var mirrored = [...][2]metric{{allocations, activeBlocks}, {allocatedBytes, activeBytes}, {usedBytes, requestedBytes}}

func (c *counters) mirror() {
	if c.active {
		return
	}
	for _, m := range mirrored {
		from, to := int(m[0])*numScopes, int(m[1])*numScopes
		copy(c.cur[to:to+numScopes], c.cur[from:from+numScopes])
		copy(c.limit[to:to+numScopes], c.limit[from:from+numScopes])
		copy(c.total[to:to+numScopes], c.total[from:from+numScopes])
	}
}

// sums returns the totals with their scopeAll.
func (c *counters) sums() [numGauges]int64 {
	t := c.total
	for i := 0; i < numGauges; i += numScopes {
		t[i] = t[i+scopeSmall] + t[i+scopeLarge]
	}
	return t
}
