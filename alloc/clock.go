package alloc

import (
	"math/bits"
	"os"
	"strings"
	"time"
)

// clock tells the time of events, twice a pair of alloc and free. A call of the system's clock takes about 30 ns; the
// counter that the system itself reads for it takes a third (haveTicks). Events have the counter's values, and only who
// reads them turns those into time: between the clock's start and the reading both clocks are known at both ends, so a
// time is as right as the system's clock, to a fraction of a microsecond, whatever the counter's rate is.
type clock struct {
	ticking bool // events have the counter's values
	now     func() int64
	epoch   int64 // ns of the Unix epoch at the start
	start   int64 // of the counter, at the same instant
}

// newClock makes a clock of given, or of the system's time where that is nil.
func newClock(given func() int64) clock {
	if given != nil {
		return clock{now: given}
	}
	start := time.Now()
	c := clock{epoch: start.UnixNano(), now: func() int64 { return int64(time.Since(start)) }}
	if c.ticking = haveTicks && systemUsesTicks(); c.ticking {
		var ns int64
		ns, c.start = c.both()
		c.epoch += ns
		c.now = func() int64 { return int64(time.Since(start)) - ns }
	}
	return c
}

// both reads the two clocks at once, or as nearly as it gets in some tries: the thread may lose the processor between
// them.
func (c *clock) both() (ns, count int64) {
	const tries, near = 8, 500 // ns
	least := int64(noLimit)
	for range tries {
		before := c.now()
		n := ticks()
		if took := c.now() - before; took < least {
			least, ns, count = took, before+took/2, n
		}
		if least < near {
			break
		}
	}
	return ns, count
}

// systemUsesTicks says whether the counter runs at one rate, on all processors alike: Linux checks that, and takes
// another clock source where it does not.
func systemUsesTicks() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(source)) == ticksSource
}

// stamp reads the clock for an event. The caller holds the shard; a shard's events are in the order of their times,
// though the counter may be read a little before the instructions that come before it. Not inlined: those who record no
// events would pay for the registers.
//
//go:noinline
func (a *Allocator) stamp(s *shard) int64 {
	if !a.clock.ticking {
		return a.clock.now()
	}
	s.latest = max(s.latest, ticks()-a.clock.start)
	return s.latest
}

// timeline turns stamps into times.
type timeline struct {
	epoch      int64
	ns, counts uint64 // so many ns had passed when the counter had come so far; counts 0: stamps are ns
}

// timeline is for what was stamped before the call.
func (c *clock) timeline() timeline {
	t := timeline{epoch: c.epoch}
	if c.ticking {
		ns, count := c.both()
		t.ns, t.counts = uint64(max(ns, 0)), uint64(max(count-c.start, 1))
	}
	return t
}

// at returns the time of a stamp, ns since the Unix epoch.
func (t *timeline) at(stamp int64) int64 { return t.epoch + t.span(stamp) }

// span returns the ns between two stamps that are so far apart.
func (t *timeline) span(apart int64) int64 {
	if t.counts == 0 || apart <= 0 {
		return apart
	}
	high, low := bits.Mul64(min(uint64(apart), t.counts), t.ns)
	ns, _ := bits.Div64(high, low, t.counts) // apart ≤ counts: the quotient is at most ns
	return int64(ns)
}
