package lake

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/table"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Partition is what another engine must know of an hour's current files: their directory below the lake, and the
// values of its keys.
type Partition struct {
	Table           *table.Table
	Dir             string // with slashes, none at either end
	Job, Date, Hour string // Job is "" where its files have rows of any
	Tier            string
}

// Partitions lists the directories whose files are there for readers, in order.
func Partitions(ctx context.Context, location string) ([]Partition, error) {
	p, err := openPlace(ctx, location, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	files, err := p.list(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list the lake %s: %w", p.text(), err)
	}
	seen := map[string]Partition{}
	for h, c := range sortOut(files) {
		t := viewOf(h.table)
		if t == nil {
			continue
		}
		for _, f := range c.current() {
			parsed, _ := parse(f.name)
			dir := f.name[:strings.LastIndexByte(f.name, '/')]
			seen[dir] = Partition{Table: t, Dir: dir, Job: h.job, Date: h.begin.Format(time.DateOnly),
				Hour: h.begin.Format("15"), Tier: fmt.Sprintf("%s%d", parsed.kind, parsed.generation)}
		}
	}
	list := make([]Partition, 0, len(seen))
	for _, x := range seen {
		list = append(list, x)
	}
	order.By(list, func(a, b Partition) int { return strings.Compare(a.Dir, b.Dir) })
	return list, nil
}

// Columns are a table's columns over a lake: those in the files, and the partition's keys that are shown.
func Columns(t *table.Table) []store.FileColumn { return columnsOf(t) }

// unlisted is in place of the jobs of hours that no list tells of.
const unlisted = "?"

// Status says what a lake holds, by job. Files have the rows of several: they count for each job of their hours.
type Status struct {
	Job         string    `json:"job"`
	Tables      int       `json:"tables"`
	Hours       int       `json:"hours"` // partitions
	Files       int       `json:"files"`
	Unmerged    int       `json:"unmerged_files"`
	Bytes       int64     `json:"bytes"`
	First, Last time.Time `json:"-"` // hours
	Begin       string    `json:"first_hour"`
	End         string    `json:"last_hour"`
}

func (s *Status) add(of Status, begin time.Time) {
	s.Hours, s.Files, s.Unmerged = s.Hours+of.Hours, s.Files+of.Files, s.Unmerged+of.Unmerged
	s.Bytes += of.Bytes
	if begin.Before(s.First) {
		s.First = begin
	}
	if begin.After(s.Last) {
		s.Last = begin
	}
}

// StatusOf lists the jobs of a lake.
func StatusOf(ctx context.Context, location string) ([]Status, error) {
	p, err := openPlace(ctx, location, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	files, err := p.list(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list the lake %s: %w", p.text(), err)
	}
	type at struct { // what is counted together
		job   string
		begin time.Time
	}
	sums, tables := map[at]Status{}, map[at]map[string]bool{}
	for h, c := range sortOut(files) {
		key := at{h.job, h.begin}
		s := sums[key]
		s.Hours, s.Files, s.Unmerged = s.Hours+1, s.Files+len(c.current()), s.Unmerged+len(c.raw)
		s.Bytes += c.bytes
		sums[key] = s
		if tables[key] == nil {
			tables[key] = map[string]bool{}
		}
		tables[key][h.table] = true
	}
	jobs, has := map[string]*Status{}, map[string]map[string]bool{}
	lists := calendar{p, map[string]*day{}}
	for key, sum := range sums {
		names := lists.jobs(ctx, hour{job: key.job, begin: key.begin})
		if len(names) == 0 {
			names = []string{unlisted}
		}
		for _, name := range names {
			s := jobs[name]
			if s == nil {
				s = &Status{Job: name, First: key.begin, Last: key.begin}
				jobs[name], has[name] = s, map[string]bool{}
			}
			maps.Copy(has[name], tables[key])
			s.add(sum, key.begin)
		}
	}
	list := []Status{}
	for _, s := range jobs {
		s.Tables = len(has[s.Job])
		s.Begin, s.End = s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339)
		list = append(list, *s)
	}
	order.By(list, func(a, b Status) int { return strings.Compare(a.Job, b.Job) })
	return list, nil
}
