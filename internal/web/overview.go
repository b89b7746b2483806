package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/api"
)

const (
	// overviewIntervals are at least in a track's overview, and at most twice as many: ten screens of points, a few MB.
	overviewIntervals = 16384
	// maxOverviews are kept of a session that is open; beyond it one gives way.
	maxOverviews = 8
	// lateReadings may come after the newest of a track: an overview reads its end anew from there on.
	lateReadings = 10 * time.Second
)

// overviews are those of an open session, by track.
type overviews struct {
	mu   sync.Mutex
	made map[string]*overview
}

// overview is a track in intervals over all that there is of it. It is read once from all rows, and then only at its
// end, so that a view of much of a long session does not read those rows again.
type overview struct {
	mu    sync.Mutex
	width int64 // of an interval, µs; 0: nothing was read yet
	from  int64 // the first reading's moment
	rows  []reading
}

func (o *overviews) of(t track) *overview {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := t.from + " " + t.whole
	if v := o.made[key]; v != nil {
		return v
	}
	if o.made == nil {
		o.made = map[string]*overview{}
	}
	for other := range o.made {
		if len(o.made) < maxOverviews {
			break
		}
		delete(o.made, other)
	}
	o.made[key] = &overview{}
	return o.made[key]
}

// read answers from the overview, or from the rows where finer intervals are asked for.
func (v *overview) read(ctx context.Context, s api.Session, t track, i interval) ([]reading, error) {
	rows, ok, err := v.coarse(ctx, s, t, i)
	if ok || err != nil {
		return rows, err
	}
	return t.rows(ctx, s, i)
}

// coarse is not ok where the overview is too coarse for what is asked.
func (v *overview) coarse(ctx context.Context, s api.Session, t track, i interval) (rows []reading, ok bool,
	err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.width == 0 {
		if err := v.measure(ctx, s, t); err != nil {
			return nil, false, err
		}
	}
	if i.width%v.width != 0 {
		return nil, false, nil
	}
	if err := v.extend(ctx, s, t, i.to); err != nil {
		return nil, false, err
	}
	if i.width%v.width != 0 { // it has just become coarser
		return nil, false, nil
	}
	begin := v.since(i.from - i.from%i.width)
	end := begin
	for end < len(v.rows) && v.rows[end].T-v.rows[end].T%v.width <= i.to {
		end++
	}
	return joined(v.rows[begin:end], i.width), true, nil
}

// measure chooses the intervals' length: a power of two as a page's.
func (v *overview) measure(ctx context.Context, s api.Session, t track) error {
	x, err := first[struct{ A, B int64 }](ctx, s,
		`SELECT coalesce(epoch_us(min(ts)), 0) AS a, coalesce(epoch_us(max(ts)), 0) AS b FROM `+t.from)
	if err != nil {
		return err
	}
	v.from, v.width = x.A, 1
	for v.width*overviewIntervals < x.B-x.A {
		v.width *= 2
	}
	return nil
}

// extend reads what has come since, up to a moment.
func (v *overview) extend(ctx context.Context, s api.Session, t track, to int64) error {
	from := v.from
	if n := len(v.rows); n > 0 {
		from = max(from, v.rows[n-1].T-lateReadings.Microseconds())
	}
	from -= from % v.width
	if to < from {
		return nil
	}
	if n := len(v.rows); n > 0 {
		to = max(to, v.rows[n-1].T) // what was read before must not get lost
	}
	rows, err := t.rows(ctx, s, interval{from, to, v.width})
	if err != nil {
		return err
	}
	v.rows = append(v.rows[:v.since(from)], rows...)
	for len(v.rows) > 2*overviewIntervals {
		v.width *= 2
		v.rows = joined(v.rows, v.width)
	}
	return nil
}

// since is the first interval whose last reading is not before a moment.
func (v *overview) since(moment int64) int {
	at, _ := slices.BinarySearchFunc(v.rows, moment, func(r reading, moment int64) int {
		return cmp.Compare(r.T, moment)
	})
	return at
}

// joined makes intervals of a multiple's length.
func joined(rows []reading, width int64) (list []reading) {
	for _, r := range rows {
		n := len(list)
		if n > 0 && list[n-1].T/width == r.T/width {
			list[n-1] = list[n-1].and(r)
			continue
		}
		list = append(list, r)
	}
	return list
}

// and is an interval together with the next: the least and the most of both, else the later.
func (r reading) and(next reading) reading {
	out := reading{T: next.T, Lo: r.Lo, Hi: r.Hi, Limit: cmp.Or(next.Limit, r.Limit), Parts: slices.Clone(r.Parts)}
	if r.Lo == nil || next.Lo != nil && *next.Lo < *r.Lo {
		out.Lo = next.Lo
	}
	if r.Hi == nil || next.Hi != nil && *next.Hi > *r.Hi {
		out.Hi = next.Hi
	}
	for k, p := range next.Parts {
		if p != nil && k < len(out.Parts) {
			out.Parts[k] = p
		}
	}
	return out
}
