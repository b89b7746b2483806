package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Advice is a ranking of settings for a history.
type Advice struct {
	Recorded *snapshot.Recorded // what the recorded allocator did; nil if the file does not say
	Base     Trial              // the settings of the recording, replayed
	Trials   []Trial            // the others, best first
}

// Trial is a setting with everything that was found out about it.
type Trial struct {
	Result
	Conf string // what to set; the policy is in Policy
	// Policy is "torch" for PyTorch's own allocator; others need libmemgauge_alloc.so.
	Policy string
	// Needs is the least memory, to 2 MiB, on which the history runs to its end; cached memory is then given back where
	// necessary. 0: not determined.
	Needs int64
}

// Saves is how much less is reserved at the peak than by the other, in bytes.
func (t *Trial) Saves(base *Trial) int64 { return base.PeakReserved - t.PeakReserved }

// Off is how many bytes more the replay of the recorded settings reserved at the peak than the recorded allocator did,
// if the history says what that was. What a setting saves is known no better than that.
func (a *Advice) Off() int64 {
	if a.Recorded == nil || !a.Comparable() {
		return 0
	}
	return a.Base.PeakReserved - a.Recorded.Peak
}

// Comparable reports that the recorded peak can be right: it is not below what the program held.
func (a *Advice) Comparable() bool {
	return a.Recorded != nil && a.Recorded.Peak >= a.Base.PeakRequested
}

// Saved is what a trial saves with certainty: against the lower of what was replayed and what was recorded.
func (a *Advice) Saved(t *Trial) int64 { return t.Saves(&a.Base) - max(a.Off(), 0) }

// Proven reports that a trial saves at least a share of what was reserved, and more than the replay was off.
func (a *Advice) Proven(t *Trial, share float64) bool {
	off := a.Off()
	return float64(a.Saved(t)) >= share*float64(a.Base.PeakReserved) && a.Saved(t) > max(off, -off)
}

// candidates are the settings that are tried: each of PyTorch's remedies for fragmentation, at the values that its
// documents and users name.
var candidates = []struct{ policy, conf string }{
	{"torch", ""},
	{"torch", "expandable_segments:True"},
	{"torch", "max_split_size_mb:64"},
	{"torch", "max_split_size_mb:128"},
	{"torch", "max_split_size_mb:256"},
	{"torch", "max_split_size_mb:512"},
	{"torch", "roundup_power2_divisions:4"},
	{"torch", "roundup_power2_divisions:8"},
	{"torch", "roundup_power2_divisions:16"},
	{"torch", "garbage_collection_threshold:0.6"},
	{"torch", "garbage_collection_threshold:0.8"},
	{"packed", ""},
	{"vmm", ""},
}

// maxSearched is the longest history for which Needs is searched: a search is a dozen replays, and a replay of so many
// events takes about 50 ms.
const maxSearched = 300_000

// Advise replays the history with each of the settings that might help. recorded is the configuration of the recording.
// The events of the trace are needed only until the replays begin.
func Advise(ctx context.Context, t *snapshot.Trace, recorded string, capacity int64) (*Advice, error) {
	base, err := NewSetting("torch", recorded)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	base.Recorded = true
	p := newProgram(t, base.collects())
	if capacity, err = p.room(t, capacity); err != nil {
		return nil, err
	}
	return advise(ctx, t, p, base, recorded, capacity)
}

func advise(ctx context.Context, t *snapshot.Trace, p *program, recorded Setting, conf string, capacity int64) (*Advice,
	error) {
	out := &Advice{Recorded: t.Recorded}
	trials := make([]*Trial, len(candidates))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	g.Go(func() error {
		base, err := try(ctx, t, p, recorded, Trial{Policy: "torch", Conf: conf}, capacity)
		if err == nil {
			out.Base = *base
		}
		return err
	})
	for i, c := range candidates {
		s, err := NewSetting(c.policy, c.conf)
		if err != nil {
			return nil, fmt.Errorf("advise: %w", err)
		}
		if reflect.DeepEqual(s.Options, recorded.Options) {
			continue
		}
		g.Go(func() (err error) {
			trials[i], err = try(ctx, t, p, s, Trial{Policy: c.policy, Conf: c.conf}, capacity)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, trial := range trials {
		if trial != nil {
			out.Trials = append(out.Trials, *trial)
		}
	}
	// of settings with the same result, PyTorch's own and the simpler come first
	order.Stable(out.Trials, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(failed(&a), failed(&b)), cmp.Compare(a.PeakReserved, b.PeakReserved),
			cmp.Compare(a.DriverCalls, b.DriverCalls))
	})
	return out, nil
}

func failed(t *Trial) int {
	if t.OOM != nil {
		return 1
	}
	return 0
}

func try(ctx context.Context, t *snapshot.Trace, p *program, s Setting, trial Trial, capacity int64) (*Trial, error) {
	r, err := p.run(ctx, t, s, capacity, 1)
	if err != nil {
		return nil, err
	}
	trial.Result = *r
	if len(p.ops) <= maxSearched && r.OOM == nil {
		trial.Needs, err = p.needs(ctx, t, s, r)
	}
	return &trial, err
}

// page is the precision of the search for Needs: the driver's unit.
const page = 2 << 20

// needs binary-searches the smallest device on which the history runs to its end. A device as large as the peak
// suffices. Success is assumed monotonic in size; rare orders of splitting are exceptions, which cost the search some
// precision and nothing else.
func (p *program) needs(ctx context.Context, t *snapshot.Trace, s Setting, unlimited *Result) (int64, error) {
	s.Recorded = false                          // what PyTorch gives back on a smaller device was not recorded
	low := max(unlimited.PeakRequested/page, 1) // none would be no limit
	high := max((unlimited.PeakReserved+page-1)/page, 1)
	for low < high {
		mid := (low + high) / 2
		r, err := p.run(ctx, t, s, mid*page, 1)
		switch {
		case errors.Is(err, errOpening):
			low = mid + 1
		case err != nil:
			return 0, err
		case r.OOM != nil:
			low = mid + 1
		default:
			high = mid
		}
	}
	return high * page, nil
}
