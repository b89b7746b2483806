package replay

import (
	"context"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Turn is one pass over a history that is repeated.
type Turn struct {
	PeakReserved int64 // the most so far
	DriverCalls  int64 // in this turn
}

// repeat plays the program again and again, as a training repeats its step. Between two turns the program is put back
// to what it held at first: what is new is freed, and what is missing is allocated, both by address, as part of the
// turn that has ended. The recorded allocator's calls to the driver are known only for its first pass.
func (p *player) repeat(ctx context.Context, t *snapshot.Trace, turns int) error {
	events := 0
	if n := len(p.ops); n > 0 {
		events = int(p.ops[n-1].event) + 1
	}
	for turn := range turns {
		calls := p.driver.calls
		if err := p.play(ctx, turn > 0); err != nil || p.out.OOM != nil {
			return err
		}
		if turn < turns-1 {
			if err := p.goBack(t, events-1); err != nil || p.out.OOM != nil {
				return err
			}
		}
		p.out.Turns = append(p.out.Turns, Turn{max(p.driver.peak, p.out.PeakReserved), p.driver.calls - calls})
		p.first += events
	}
	return nil
}

// goBack makes the program hold what it held at first.
func (p *player) goBack(t *snapshot.Trace, event int) error {
	for _, slot := range p.left {
		if err := p.free(slot); err != nil {
			return err
		}
	}
	for _, slot := range p.gone {
		b := &t.Live[slot]
		o := op{size: b.Requested, event: uint32(event), slot: uint32(slot), stream: p.number(b.Stream), kind: opAlloc}
		if err := p.alloc(&o); err != nil || p.out.OOM != nil {
			return err
		}
	}
	return nil
}

// number is a stream's place in the program's list.
func (p *player) number(stream uint64) uint16 {
	for i, s := range p.streams {
		if s == stream {
			return uint16(i)
		}
	}
	return 0
}
