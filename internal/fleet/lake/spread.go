package lake

import (
	"fmt"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// Rows lie in the hour of their node's clock. A node may say any: each hour that it has rows in costs a file. So rows
// that can't be of their time lie in one partition of their table and job, that of the epoch's hour, together with
// those that have no time. Whether a row has gone there hangs on this machine's clock, so what comes is compared with
// that partition and its own.
var (
	strays = time.Unix(0, 0).UTC()
	// firstHour is before there was any memgauge: clocks that say less were never set.
	firstHour = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
)

const (
	// ahead is how far a node's clock may be before this machine's: one that was set to local time is 14 h at most.
	ahead = 24 * time.Hour
	// maxRuns bounds how often the hour changes within a frame; one with more lies among the strays as a whole. Rows of
	// ranks whose clocks differ alternate for some seconds at the end of an hour; a table that gets a row an hour, of a
	// session that was cut off for a month, has 720 hours.
	maxRuns = 1024
	// maxSpans bounds what one node may have of a partition, in stretches of numbers without a gap: two ranks that
	// alternate between two hours for an hour make 7,200. A marker of 50 nodes with so many can still be read.
	maxSpans = 1 << 14
)

const whyGaps = "row whose number leaves too many gaps"

// piece is rows of one stream that lie in one hour, with the number of the first.
type piece struct {
	job     string
	stream  string
	session string
	first   uint64
	rows    frame.Rows
}

func (p piece) span() span { return span{p.first, p.first + uint64(p.rows.Len()) - 1} }

func (p piece) slice(s span) piece {
	return piece{p.job, p.stream, p.session, s[0], p.rows.Slice(int(s[0]-p.first), int(s[1]-p.first+1))}
}

func nodeOf(stream string) string {
	node, _, _ := strings.Cut(stream, "/")
	return node
}

// spansOf counts the stretches of numbers by node.
func spansOf(l ledger) map[string]int {
	out := map[string]int{}
	for stream, list := range l {
		out[nodeOf(stream)] += len(list)
	}
	return out
}

// spread sorts a batch's rows by hour; rows that follow each other stay together. Rows have their table's columns then,
// whatever the batch had.
func spread(b frame.Batch, into map[hour][]piece) error {
	dir := directoryOf(b.Table)
	if dir == "" {
		return fmt.Errorf("append to the lake: there is no table %s", b.Table)
	}
	b, _, err := b.Fit()
	if err != nil {
		return fmt.Errorf("append to the lake: %w", err)
	}
	whole := piece{b.Job, b.Node + "/" + b.Session, b.Session, b.First, tame(b.Rows)}
	for _, r := range runs(b) {
		h := hour{table: dir, begin: r.begin}
		into[h] = append(into[h], whole.slice(span{b.First + uint64(r.from), b.First + uint64(r.to) - 1}))
	}
	return nil
}

// Parts names the hours that a batch has rows in, with its table and job: each costs an entry in the list of jobs, and
// a file that no other may have rows in.
func (w *Writer) Parts(b frame.Batch) (names []string) {
	seen := map[time.Time]bool{}
	for _, r := range runs(b) {
		if !seen[r.begin] {
			seen[r.begin] = true
			names = append(names, hour{b.Table, b.Job, r.begin}.dir())
		}
	}
	return names
}

// run is rows of a batch, from one up to another, that lie in an hour.
type run struct {
	begin    time.Time
	from, to int
}

func runs(b frame.Batch) (out []run) {
	now := b.Arrived
	if now.IsZero() {
		now = time.Now()
	}
	times, latest := timesOf(b.Rows), now.Add(ahead)
	from, n := 0, b.Rows.Len()
	for i := 1; i <= n; i++ {
		if i < n && hourAt(times, i, latest).Equal(hourAt(times, from, latest)) {
			continue
		}
		if out = append(out, run{hourAt(times, from, latest), from, i}); len(out) > maxRuns {
			return []run{{strays, 0, n}}
		}
		from = i
	}
	return out
}

// timesOf is the column that says when a row was: ts, or else the last time that it has; nil for none.
func timesOf(r frame.Rows) (times *frame.Column) {
	for k := range r.Width() {
		if f := r.Field(k); f.Type == frame.Time && (times == nil || f.Name == "ts") {
			c := r.Column(k)
			times = &c
		}
	}
	return times
}

// hourAt is the hour of a row; that of the strays for one without a time, or with an impossible one.
func hourAt(times *frame.Column, row int, latest time.Time) time.Time {
	if times == nil || times.Null(row) {
		return strays
	}
	t := time.UnixMicro(times.Int(row)).UTC()
	if t.Before(firstHour) || t.After(latest) {
		return strays
	}
	return t.Truncate(time.Hour)
}
