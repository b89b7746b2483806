package alloc

// metric is one gauge. Each is kept for all blocks and for each pool.
type metric int

const (
	allocations    metric = iota // live blocks
	allocatedBytes               // their sizes
	usedBytes                    // what was asked for by their owners
	cachedBytes                  // reserved and not allocated
	splitBlocks                  // free blocks that share their segment with others
	splitBytes                   // their sizes
	segments                     // what the driver gave in one piece
	reservedBytes                // memory got from the driver and not given back
	oversizeBlocks               // live and pending blocks of at least max_split_size
	oversizeSegments
	activeBlocks   // live and pending blocks …
	activeBytes    // … their sizes …
	requestedBytes // … and what was asked for by their owners: see counters.mirror
	numMetrics
)

// scope selects a gauge's part: all blocks, or those of one pool.
const (
	scopeAll = iota
	scopeSmall
	scopeLarge
	numScopes
)

const numGauges = int(numMetrics) * numScopes

func scopeOf(large bool) int {
	if large {
		return scopeLarge
	}
	return scopeSmall
}

// counters are a shard's gauges. A gauge's limit is how far it may go before the device's peak could change: with one
// shard it is the peak itself; with several the room below the peak is dealt out to them, and a shard that goes beyond its
// part has the sum taken while all others stand still (Allocator.settle). So the peaks of the device's sums are exact,
// and in the steady state no shard writes a word that another one reads.
type counters struct {
	cur    [numGauges]int64
	limit  [numGauges]int64
	total  [numGauges]int64 // of all increases; scopeAll is the sum of the others, and made when it is read
	over   int64            // below 0: some gauge is beyond its limit
	active bool             // active gauges are counted: there has been a pending block on the device
}

// up adds d ≥ 0 to a gauge.
func (c *counters) up(m metric, scope int, d int64) {
	i := int(m) * numScopes
	all, part := c.cur[i]+d, c.cur[i+scope]+d
	c.cur[i], c.cur[i+scope] = all, part
	c.over |= (c.limit[i] - all) | (c.limit[i+scope] - part)
	c.total[i+scope] += d
}

// down takes d ≥ 0 from a gauge.
func (c *counters) down(m metric, scope int, d int64) {
	i := int(m) * numScopes
	c.cur[i] -= d
	c.cur[i+scope] -= d
}

func (c *counters) add(m metric, scope int, d int64) {
	if d > 0 {
		c.up(m, scope, d)
	} else {
		c.down(m, scope, -d)
	}
}

// raise makes the present values the peaks where they are higher; for the only shard of a device.
func (c *counters) raise() {
	for i, v := range c.cur {
		if v > c.limit[i] {
			c.limit[i] = v
		}
	}
	c.over = 0
}

// mirrored are the gauges that are equal as long as no block was ever pending: most programs never have one, so the
// active ones are not counted until then, and are copied where they are read.
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
