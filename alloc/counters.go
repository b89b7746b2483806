package alloc

// metric is one gauge. Each is kept for all blocks and for each pool.
type metric int

const (
	allocations    metric = iota // live blocks
	allocatedBytes               // their sizes
	usedBytes                    // what was asked for by their owners
	requestedBytes               // the same with pending blocks
	activeBlocks                 // live and pending blocks
	activeBytes                  // their sizes
	splitBlocks                  // free blocks that share their segment with others
	splitBytes                   // their sizes
	cachedBytes                  // reserved and not allocated
	segments                     // what the driver gave in one piece
	reservedBytes                // memory got from the driver and not given back
	oversizeBlocks               // live and pending blocks of at least max_split_size
	oversizeSegments
	numMetrics
)

// scope selects a gauge's part. classOf gives the one of a pool.
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
	cur   [numGauges]int64
	limit [numGauges]int64
	total [numGauges]int64 // of all increases
	over  int64            // below 0: some gauge is beyond its limit
}

func (c *counters) add(m metric, scope int, d int64) {
	i := int(m) * numScopes
	all, part := c.cur[i]+d, c.cur[i+scope]+d
	c.cur[i], c.cur[i+scope] = all, part
	c.over |= (c.limit[i] - all) | (c.limit[i+scope] - part)
	if d > 0 {
		c.total[i] += d
		c.total[i+scope] += d
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
