package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// Files have the rows of many jobs. In which hours a job has any stands in a list for each day, .jobs/DATE.json: a
// question about a job reads no other hours, and is told where there is no such job. A list is written before the rows
// that it is about. One that is missing, or can't be read, tells nothing: then every hour of its day may have any job.

const (
	listsDir  = ".jobs/"
	listsTail = ".json"
	// maxListed bounds the jobs of a day's list: one with more tells of none. Each takes some 30 bytes, and all of them
	// are written again when a new one comes.
	maxListed = 20_000
	maxList   = 4 << 20 // bytes of a list
)

// day is a day's list.
type day struct {
	// Open says that there may be rows of jobs that are not listed.
	Open bool              `json:"open,omitempty"`
	Jobs map[string]uint32 `json:"jobs"` // by name, a bit for each hour
}

// lists are those of days that the writer has written to, by date.
type lists struct {
	sync.Mutex
	of map[string]*day
}

func listName(date string) string { return listsDir + date + listsTail }

// may says whether an hour may have rows of a job; nil is a list that is missing.
func (d *day) may(job string, hour int) bool {
	return d == nil || d.Open || d.Jobs[job]>>hour&1 == 1
}

// has says whether there is nothing to be noted of a job's hours.
func (d *day) has(job string, hours uint32) bool {
	had := d.Jobs[job]
	return had|hours == had || had == 0 && d.Open && len(d.Jobs) >= maxListed
}

// readList reads a day's list; nil for none that can be read.
func readList(ctx context.Context, p place, date string) *day {
	f, err := p.open(ctx, listName(date))
	if err != nil {
		return nil
	}
	defer f.Close()
	d := &day{}
	text, err := io.ReadAll(io.LimitReader(f, maxList))
	if err != nil || json.Unmarshal(text, d) != nil || d.Jobs == nil {
		return nil
	}
	for job := range d.Jobs {
		if frame.CheckName("job", job) != nil {
			return nil // it is none of ours, whatever else it says
		}
	}
	return d
}

// enlist notes the jobs of rows that are about to be written, by their hours.
func (w *Writer) enlist(ctx context.Context, byHour map[hour][]piece) error {
	w.lists.Lock()
	defer w.lists.Unlock()
	fresh := map[string]map[string]uint32{}
	for h, pieces := range byHour {
		date, bit := h.date(), uint32(1)<<h.begin.Hour()
		for _, x := range pieces {
			if d := w.lists.of[date]; d != nil && d.has(x.job, bit) {
				continue
			}
			if fresh[date] == nil {
				fresh[date] = map[string]uint32{}
			}
			fresh[date][x.job] |= bit
		}
	}
	for date, jobs := range fresh {
		d, err := w.list(ctx, date)
		if err != nil {
			return fmt.Errorf("list its jobs: %w", err)
		}
		if d.add(jobs) {
			if err := w.putList(ctx, date, d); err != nil {
				delete(w.lists.of, date) // it may be there all the same
				return fmt.Errorf("list its jobs: %w", err)
			}
		}
		w.lists.of[date] = d
	}
	return nil
}

// add puts jobs into a list, and says whether that has changed it.
func (d *day) add(jobs map[string]uint32) (changed bool) {
	for job, hours := range jobs {
		if !d.has(job, hours) {
			d.Jobs[job] |= hours
			changed = true
		}
	}
	if !d.Open && len(d.Jobs) > maxListed {
		d.Open, changed = true, true
	}
	return changed
}

// list is a copy of the list of a day, which may be about to begin. One that begins when there are rows of the day is
// open.
func (w *Writer) list(ctx context.Context, date string) (*day, error) {
	d := w.lists.of[date]
	if d == nil {
		d = readList(ctx, w.place, date)
	}
	if d != nil {
		return &day{d.Open, maps.Clone(d.Jobs)}, nil
	}
	d = &day{Jobs: map[string]uint32{}}
	tables, err := w.place.dirs(ctx, "")
	for _, table := range tables {
		if err != nil || d.Open || viewOf(table) == nil {
			continue
		}
		var have []string
		have, err = w.place.dirs(ctx, table+"/date="+date)
		d.Open = len(have) > 0
	}
	return d, err
}

func (w *Writer) putList(ctx context.Context, date string, d *day) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	made := "jobs-" + date + listsTail
	_ = w.place.stage().Remove(made) // of an attempt that failed
	if err = w.place.stage().MakeText(made, text); err == nil {
		err = w.place.put(ctx, listName(date), made)
	}
	if err != nil {
		_ = w.place.stage().Remove(made) // a full disk needs the room
	}
	return err
}

// unlist removes the lists of days that have no hour any more.
func (w *Writer) unlist(ctx context.Context, hours map[hour]*content) error {
	w.lists.Lock()
	defer w.lists.Unlock()
	left := map[string]bool{}
	for h, c := range hours {
		if c != nil {
			left[h.date()] = true
		}
	}
	dates, err := listDates(ctx, w.place)
	var gone []string
	for _, date := range dates {
		if !left[date] {
			gone = append(gone, listName(date))
			delete(w.lists.of, date)
		}
	}
	return errors.Join(err, w.place.remove(ctx, gone))
}

// listDates are the dates of the days that have a list.
func listDates(ctx context.Context, p place) (dates []string, err error) {
	files, err := p.list(ctx, listsDir)
	for _, f := range files {
		date, is := strings.CutSuffix(path.Base(f.name), listsTail)
		if _, no := time.Parse(time.DateOnly, date); is && no == nil && f.name == listName(date) {
			dates = append(dates, date)
		}
	}
	return dates, err
}

// calendar is the lists of days, as they are read.
type calendar struct {
	p    place
	days map[string]*day
}

func (k *calendar) day(ctx context.Context, date string) *day {
	d, read := k.days[date]
	if !read {
		d = readList(ctx, k.p, date)
		k.days[date] = d
	}
	return d
}

// has says whether a partition may have rows of a job; "" is any.
func (k *calendar) has(ctx context.Context, h hour, job string) bool {
	if job == "" || h.job != "" {
		return job == "" || h.job == job
	}
	return k.day(ctx, h.date()).may(job, h.begin.Hour())
}

// jobs are those that have rows in an hour, as far as that is known.
func (k *calendar) jobs(ctx context.Context, h hour) (names []string) {
	if h.job != "" {
		return []string{h.job}
	}
	if d := k.day(ctx, h.date()); d != nil {
		for job, hours := range d.Jobs {
			if hours>>h.begin.Hour()&1 == 1 {
				names = append(names, job)
			}
		}
	}
	return names
}

// jobsOf are all jobs of a lake, by name; open where there may be others.
func jobsOf(ctx context.Context, p place) (names []string, open bool, err error) {
	all := map[string]bool{}
	tables, err := p.dirs(ctx, "")
	if err != nil {
		return nil, false, err
	}
	for _, table := range tables {
		below, err := p.dirs(ctx, table)
		if err != nil {
			return nil, false, err
		}
		for _, name := range below {
			job, is := strings.CutPrefix(name, jobKey)
			if is && viewOf(table) != nil && frame.CheckName("job", job) == nil {
				all[job] = true
			}
		}
	}
	dates, err := listDates(ctx, p)
	for _, date := range dates {
		d := readList(ctx, p, date)
		if open = open || d == nil || d.Open; d != nil {
			for job := range d.Jobs {
				all[job] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), open, err
}
