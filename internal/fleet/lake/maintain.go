package lake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Report is what a maintenance did.
type Report struct {
	Merged  int   // hours
	Files   int   // flushed files that went into them
	Removed int   // files that had been replaced
	GivenUp int   // hours beyond the bounds of age or size
	Bytes   int64 // that the lake has now
	Hours   int   // partitions that it has now
}

// Maintain merges hours that are over, removes what merges have replaced, and gives up hours beyond the bounds. It may
// be cut short anywhere: the next one goes on.
func (w *Writer) Maintain(ctx context.Context) (r Report, err error) {
	if b, remote := w.place.(*bucket); remote {
		err = b.renew(ctx)
	}
	var files []entry
	if err == nil {
		files, err = w.place.list(ctx, "")
	}
	if err != nil {
		return r, fmt.Errorf("maintain the lake: %w", err)
	}
	hours := sortOut(files)
	oldest := make([]hour, 0, len(hours))
	for h := range hours {
		oldest = append(oldest, h)
	}
	order.By(oldest, func(a, b hour) int {
		return cmp.Or(a.begin.Compare(b.begin), cmp.Compare(a.dir(), b.dir()))
	})
	err = w.giveUp(ctx, oldest, hours, &r)
	if err == nil && r.GivenUp > 0 {
		err = w.unlist(ctx, hours)
	}
	if err != nil {
		return r, fmt.Errorf("maintain the lake: %w", err)
	}
	now := time.Now()
	for _, h := range oldest {
		c := hours[h]
		if c == nil { // given up
			continue
		}
		if len(c.old) > 0 && age(now, c.marked) >= w.o.Linger {
			_, e := w.marker(ctx, c) // one that is none of ours replaces nothing
			if e == nil {
				e = w.removeAll(ctx, c.old, &r)
			}
			err = errors.Join(err, e)
		}
		for _, f := range c.lost {
			w.note(f.name + ": the marker of its generation is missing, so nobody reads it, and nobody removes it")
		}
		over := now.Sub(h.begin.Add(time.Hour)) >= w.o.Grace && quiet(c.raw, now, w.o.Grace)
		known := viewOf(h.table) != nil // or of a newer memgauge
		if known && len(c.raw) > 0 && (over || len(c.raw) >= maxRaw) {
			if e := w.merge(ctx, h, &r); e != nil {
				err = errors.Join(err, fmt.Errorf("merge %s: %w", h.dir(), e))
			}
		}
		r.Hours, r.Bytes = r.Hours+1, r.Bytes+c.bytes
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
	w.forget(now)
	return r, err
}

// maxRaw is how many files an hour may have before they are merged, though it is not over: a question reads each. At
// one flush in 30 s an hour has 120, and twice that when nodes catch up. It is a variable for tests.
var maxRaw = 1000

// tidyEvery is the time between maintenances. One lists the lake, and merges at most the hour that was over.
const tidyEvery = time.Minute

// Tidy maintains the lake until ctx ends, and tells each time what it has.
func (w *Writer) Tidy(ctx context.Context, tell func(bytes int64, hours int, err error)) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		r, err := w.Maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		tell(r.Bytes, r.Hours, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// quiet says that no file has come for a while: a node that catches up makes one merge, not one for each flush.
func quiet(raw []entry, now time.Time, grace time.Duration) bool {
	for _, f := range raw {
		if age(now, f.modified) < min(grace, 2*FlushEvery) {
			return false
		}
	}
	return true
}

// age is how long ago a file came. Its time may lie in the future, by a wrong clock or somebody's will: it is taken for
// as old as it is ahead, or its hour would wait until then.
func age(now, modified time.Time) time.Duration { return now.Sub(modified).Abs() }

func (w *Writer) removeAll(ctx context.Context, files []entry, r *Report) error {
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	if err := w.place.remove(ctx, names); err != nil {
		return fmt.Errorf("remove what was replaced: %w", err)
	}
	r.Removed += len(names)
	return nil
}

// giveUp removes hours beyond the bounds, the oldest first; each that is gone is nil then. Data go before their marker:
// without the marker, merged rows would not be there, and those that they replaced would.
func (w *Writer) giveUp(ctx context.Context, order []hour, hours map[hour]*content, r *Report) error {
	var total int64
	for _, c := range hours {
		total += c.bytes
	}
	now := time.Now()
	for _, h := range order {
		c := hours[h]
		tooOld := w.o.MaxAge > 0 && now.Sub(c.since(h, now)) > w.o.MaxAge
		tooMuch := w.o.MaxBytes > 0 && total > w.o.MaxBytes && now.Sub(h.begin) > time.Hour
		if !tooOld && !tooMuch {
			continue
		}
		p, err := w.part(ctx, h)
		if err != nil {
			return err
		}
		names := []string{}
		for _, f := range slices.Concat(c.old, c.lost, c.current()) {
			if parsed, _ := parse(f.name); parsed.kind != "" {
				names = append(names, f.name)
			}
		}
		if c.generation > 0 {
			names = append(names, h.dir()+markerName(c.generation))
		}
		err = w.place.remove(ctx, names)
		p.loaded = false
		p.Unlock()
		if err != nil {
			return err
		}
		total -= c.bytes
		hours[h] = nil
		r.GivenUp++
	}
	return nil
}

// since is when an hour was over; that of strays when the last of them came.
func (c *content) since(h hour, now time.Time) time.Time {
	at := h.begin.Add(time.Hour)
	if h.begin.Equal(strays) {
		for _, f := range c.current() {
			if came := now.Add(-age(now, f.modified)); came.After(at) {
				at = came
			}
		}
	}
	return at
}

// forget lets go of what is known of partitions that are long over; it is read again where rows still come.
func (w *Writer) forget(now time.Time) {
	w.lists.Lock()
	maps.DeleteFunc(w.lists.of, func(date string, _ *day) bool {
		return date < now.UTC().Add(-24*time.Hour).Format(time.DateOnly)
	})
	w.lists.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for h, p := range w.mu.parts {
		if now.Sub(h.begin) <= 3*time.Hour+w.o.Grace || !p.TryLock() {
			continue
		}
		// that of strays is looked at whenever rows come
		if !h.begin.Equal(strays) || now.Sub(p.used) > time.Hour {
			w.drop(h, p)
		}
		p.Unlock()
	}
}

// rowGroup is rows that a reader takes or leaves together; FLEET-size questions were fastest with a million.
const rowGroup = 1_000_000

// merge makes one file of an hour's, sorted, and then the marker that puts it in their place. Files that keep it from
// that are set aside.
func (w *Writer) merge(ctx context.Context, h hour, r *Report) error {
	p, err := w.part(ctx, h)
	if err != nil {
		return err
	}
	defer p.Unlock()
	p.loaded = false // a marker may be there though its write failed, and files that were set aside are not
	for {
		again, err := w.mergeOnce(ctx, h, p, r)
		if err != nil || !again {
			return err
		}
	}
}

// mergeOnce merges, or sets files aside that can't be: then it is to be called again.
func (w *Writer) mergeOnce(ctx context.Context, h hour, p *part, r *Report) (again bool, err error) {
	files, err := w.place.list(ctx, h.dir())
	if err != nil {
		return false, err
	}
	c := sortOut(files)[h]
	if c == nil || len(c.raw) == 0 {
		return false, nil
	}
	if name, ok := c.inTheWay(); ok {
		return false, fmt.Errorf("%s has lost its marker: it would be written over", name)
	}
	if c.generation >= maxGeneration {
		return false, fmt.Errorf("generation %d is the last", c.generation)
	}
	m := store.Merge{Columns: fileColumns(h), Order: sortedBy(h), RowGroup: rowGroup,
		MemoryLimit: w.o.Memory}
	from, rows, done, err := w.sources(ctx, c, m)
	defer done()
	if errors.Is(err, errAgain) {
		return true, nil
	}
	if err != nil || len(from) == 0 {
		return false, err
	}
	next := marker{c.generation + 1, rows}
	text, err := json.Marshal(next)
	if err == nil && len(text) > maxMarker {
		err = fmt.Errorf("its rows' numbers take %d bytes, at most %d", len(text), maxMarker)
	}
	if err != nil {
		return false, err
	}
	if err := w.mergeHonest(ctx, m, from, w.place.stage(), mergedName); err != nil {
		if errors.Is(err, errAgain) {
			return true, nil
		}
		return false, err
	}
	if err := w.place.put(ctx, h.dir()+tier(mergedTier, next.Generation)+mergedName, mergedName); err != nil {
		return false, err
	}
	if err := w.mark(ctx, h, next.Generation, text); err != nil {
		return false, err
	}
	p.loaded, p.generation, p.rows = true, next.Generation, rows
	r.Merged++
	r.Files += len(c.raw)
	return false, nil
}

// fileColumns are those of a merged file. The job is in its name where that has one.
func fileColumns(h hour) (out []store.FileColumn) {
	if t := viewOf(h.table); t != nil {
		for _, c := range columnsOf(t) {
			if c.Name == jobColumn && h.job == "" {
				c.Key = false
			}
			if !c.Key {
				out = append(out, c)
			}
		}
	}
	return append(out, store.FileColumn{Name: sessionColumn, Type: "VARCHAR"})
}

// sortedBy is how a table's merged rows lie: those of a job together, and of a rank in their order.
func sortedBy(h hour) []string {
	order := []string{"rank"}
	if h.job == "" {
		order = []string{jobColumn, "rank"}
	}
	if t := viewOf(h.table); t != nil {
		for _, name := range []string{"step", "ts", "started", "first_seen"} {
			for _, c := range t.Columns {
				if c.Name == name {
					order = append(order, name)
				}
			}
		}
	}
	return order
}

// mark puts a generation in place.
func (w *Writer) mark(ctx context.Context, h hour, generation int, text []byte) error {
	made := "mark-" + strconv.Itoa(generation) + ".json"
	_ = w.place.stage().Remove(made) // of an attempt that failed
	if err := w.place.stage().MakeText(made, text); err != nil {
		return err
	}
	return w.place.put(ctx, h.dir()+markerName(generation), made)
}
