package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
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
	rows  []questions.Reading
}

func (o *overviews) of(t questions.Track) *overview {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := t.Key()
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
func (v *overview) read(ctx context.Context, s api.Session, t questions.Track,
	i questions.Interval) ([]questions.Reading, error) {
	rows, ok, err := v.coarse(ctx, s, t, i)
	if ok || err != nil {
		return rows, err
	}
	return api.Ask(ctx, s, t.In(i))
}

// coarse is not ok where the overview is too coarse for what is asked.
func (v *overview) coarse(ctx context.Context, s api.Session, t questions.Track,
	i questions.Interval) (rows []questions.Reading, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.width == 0 {
		if err := v.measure(ctx, s, t); err != nil {
			return nil, false, err
		}
	}
	if i.Width%v.width != 0 {
		return nil, false, nil
	}
	if err := v.extend(ctx, s, t, i.To); err != nil {
		return nil, false, err
	}
	if i.Width%v.width != 0 { // it has just become coarser
		return nil, false, nil
	}
	begin := v.since(i.From - i.From%i.Width)
	end := begin
	for end < len(v.rows) && v.rows[end].T-v.rows[end].T%v.width <= i.To {
		end++
	}
	return joined(t, v.rows[begin:end], i.Width), true, nil
}

// measure chooses the intervals' length: a power of two as a page's.
func (v *overview) measure(ctx context.Context, s api.Session, t questions.Track) error {
	x, err := firstOf(ctx, s, t.Covers())
	if err != nil {
		return err
	}
	v.from, v.width = x.From, 1
	for v.width*overviewIntervals < x.To-x.From {
		v.width *= 2
	}
	return nil
}

// extend reads what has come since, up to a moment.
func (v *overview) extend(ctx context.Context, s api.Session, t questions.Track, to int64) error {
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
	rows, err := api.Ask(ctx, s, t.In(questions.Interval{From: from, To: to, Width: v.width}))
	if err != nil {
		return err
	}
	v.rows = append(v.rows[:v.since(from)], rows...)
	for len(v.rows) > 2*overviewIntervals {
		v.width *= 2
		v.rows = joined(t, v.rows, v.width)
	}
	return nil
}

// since is the first interval whose last reading is not before a moment.
func (v *overview) since(moment int64) int {
	at, _ := slices.BinarySearchFunc(v.rows, moment, func(r questions.Reading, moment int64) int {
		return cmp.Compare(r.T, moment)
	})
	return at
}

// joined makes intervals of a multiple's length.
func joined(t questions.Track, rows []questions.Reading, width int64) (list []questions.Reading) {
	for _, r := range rows {
		n := len(list)
		if n > 0 && list[n-1].T/width == r.T/width {
			list[n-1] = t.Join(list[n-1], r)
			continue
		}
		list = append(list, r)
	}
	return list
}
