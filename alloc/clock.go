package alloc

import (
	"math/bits"
	"os"
	"strings"
	"time"
)

// clock gives the time of events, twice for each pair of alloc and free. A call of the system's clock takes about 30
// ns; the counter that the system itself reads for it takes a third of that (haveTicks). Events contain the counter's
// values, and only their readers convert them into time. Both clocks are known at the clock's start and at the reading.
// So a time is as right as the system's clock, to a fraction of a microsecond, whatever the counter's rate is.
type clock struct {
	ticking bool // events contain the counter's values
	now     func() int64
	epoch   int64 // ns of the Unix epoch at the start
	start   int64 // of the counter, at the same instant
}

// newClock makes a clock from given, or from the system's time if that is nil.
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

// both reads the two clocks at the same instant, or as closely as some tries achieve: the thread may lose the processor
// between them.
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

// systemUsesTicks reports whether the counter has one rate, on all processors alike: Linux checks that, and uses
// another clock source otherwise.
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

// timeline converts stamps into times.
type timeline struct {
	epoch      int64
	ns, counts uint64 // ns that had passed when the counter had advanced by counts; counts 0: stamps are ns
}

// timeline is valid for what was stamped before the call.
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
