package replay

import (
	"context"
	"maps"
	"slices"

	"github.com/memgauge/memgauge/internal/snapshot"
)

// Turn is one pass over a history that is repeated.
type Turn struct {
	PeakReserved int64 // the most so far
	DriverCalls  int64 // in this turn
}

// repeat plays the events again and again, as a training repeats its step. Between two turns the program has what it had at
// first: what is new is freed, and what is gone is allocated, both by address, in the turn that is over. Segment events are
// the recorded allocator's, and told of its first pass only.
func (p *player) repeat(ctx context.Context, t *snapshot.Trace, turns int) error {
	events := t.Events
	for turn := range turns {
		if turn == 1 {
			events = slices.DeleteFunc(slices.Clone(events), func(e snapshot.Event) bool {
				return e.Action != snapshot.Alloc && e.Action != snapshot.FreeCompleted
			})
		}
		calls := p.driver.calls
		if err := p.play(ctx, events); err != nil || p.out.OOM != nil {
			return err
		}
		if turn < turns-1 {
			if err := p.goBack(t); err != nil || p.out.OOM != nil {
				return err
			}
		}
		p.out.Turns = append(p.out.Turns, Turn{max(p.driver.peak, p.out.PeakReserved), p.driver.calls - calls})
		p.first += len(events)
	}
	return nil
}

// goBack makes the program hold what it held at first.
func (p *player) goBack(t *snapshot.Trace) error {
	for _, addr := range slices.Sorted(maps.Keys(p.born)) {
		if err := p.free(&snapshot.Event{Addr: addr}); err != nil {
			return err
		}
	}
	for i := range t.Live {
		b := &t.Live[i]
		if _, ok := p.held[b.Addr]; ok {
			continue
		}
		oom, err := p.alloc(len(t.Events)-1, &snapshot.Event{Addr: b.Addr, Size: b.Requested, Stream: b.Stream})
		if oom || err != nil {
			return err
		}
		delete(p.born, b.Addr) // it is as if it had been there from the start
	}
	return nil
}
