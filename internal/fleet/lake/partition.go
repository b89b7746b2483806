package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// hour is a partition: rows of one table, of one hour of UTC by the node's clock. A memgauge before had partitions of
// one job each: nothing new is written to them.
type hour struct {
	table string // package table's Store: the directory
	job   string // whose rows alone it has; "": any job's
	begin time.Time
}

// jobKey is before a job's name in the directory of a partition that has its rows alone.
const jobKey = "job="

const dateKey = "date="

// dir is the partition's directory, with a slash behind.
func (h hour) dir() string {
	job := ""
	if h.job != "" {
		job = jobKey + h.job + "/"
	}
	return fmt.Sprintf("%s/%sdate=%s/hour=%s/", h.table, job, h.date(), h.begin.Format("15"))
}

// date is its day.
func (h hour) date() string { return h.begin.Format(time.DateOnly) }

// Kinds of a tier: r has files as they were flushed, c one that was merged.
func tier(kind string, generation int) string { return fmt.Sprintf("tier=%s%d/", kind, generation) }

const (
	rawTier    = "r"
	mergedTier = "c"
	mergedName = "all.parquet"
	markerHead = "_gen-"
	markerTail = ".json"
)

// maxGeneration is far beyond any that merges come to, and its successor is a number: a merge a minute for 4,000 years.
const maxGeneration = 1 << 31

func markerName(generation int) string { return markerHead + strconv.Itoa(generation) + markerTail }

// parsed is what a file's name says.
type parsed struct {
	hour
	generation int
	kind       string // rawTier, mergedTier, or "" for a marker
}

// tableForm is the form of a table's directory.
var tableForm = pattern.Of(`^[a-z][a-z_]*$`)

// parse reads a name; false for files that are none of ours.
func parse(name string) (p parsed, ok bool) {
	table, rest, _ := strings.Cut(name, "/")
	job, former := strings.CutPrefix(rest, jobKey)
	if former {
		job, rest, _ = strings.Cut(job, "/")
		if frame.CheckName("job", job) != nil {
			return p, false
		}
	} else {
		job = ""
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 3 || len(parts) > 4 {
		return p, false
	}
	date, ok1 := strings.CutPrefix(parts[0], dateKey)
	clock, ok2 := strings.CutPrefix(parts[1], "hour=")
	begin, err := time.ParseInLocation(time.DateOnly+" 15", date+" "+clock, time.UTC)
	if !ok1 || !ok2 || err != nil {
		return p, false
	}
	p.hour = hour{table, job, begin}
	last := parts[len(parts)-1]
	if !tableForm().MatchString(table) || frame.CheckName("file", last) != nil ||
		!strings.HasPrefix(name, p.hour.dir()) {
		return p, false // a listing of S3 is a stranger's word: names become paths on this machine
	}
	number := ""
	if len(parts) == 3 {
		number, ok = strings.CutPrefix(last, markerHead)
		if number, ok2 = strings.CutSuffix(number, markerTail); !ok || !ok2 {
			return p, false
		}
	} else {
		rest, ok := strings.CutPrefix(parts[2], "tier=")
		if !ok || len(rest) < 2 || !strings.HasSuffix(last, ".parquet") {
			return p, false
		}
		p.kind, number = rest[:1], rest[1:]
		if p.kind == mergedTier && last != mergedName { // a merge makes one
			return p, false
		}
	}
	p.generation, err = strconv.Atoi(number)
	return p, err == nil && strconv.Itoa(p.generation) == number && p.generation >= 0 &&
		p.generation <= maxGeneration && slices.Contains([]string{rawTier, mergedTier, ""}, p.kind)
}

// content is what a partition has: files that are there for readers, and others.
type content struct {
	generation int
	raw        []entry
	merged     []entry
	old        []entry // replaced, or made by a merge that was cut short
	lost       []entry // of generations whose marker is missing: nothing says that they were replaced
	marked     time.Time
	marker     entry
	bytes      int64 // of all
}

func (c *content) current() []entry { return slices.Concat(c.merged, c.raw) }

// sortOut finds the partitions among files, each with its files.
func sortOut(files []entry) map[hour]*content {
	out := map[hour]*content{}
	at := func(h hour) *content {
		if out[h] == nil {
			out[h] = &content{}
		}
		return out[h]
	}
	for _, f := range files {
		if p, ok := parse(f.name); ok && p.kind == "" && p.generation > at(p.hour).generation {
			c := at(p.hour)
			c.generation, c.marked, c.marker = p.generation, f.modified, f
		}
	}
	for _, f := range files {
		p, ok := parse(f.name)
		if !ok {
			continue
		}
		c := at(p.hour)
		c.bytes += f.size
		switch {
		case p.generation < c.generation:
			c.old = append(c.old, f)
		case p.generation > c.generation:
			c.lost = append(c.lost, f)
		case p.kind == rawTier:
			c.raw = append(c.raw, f)
		case p.kind == mergedTier:
			c.merged = append(c.merged, f)
		}
	}
	for _, c := range out {
		c.findCutShort()
		c.fallBack()
	}
	return out
}

// fallBack takes what was merged for current where the merged file of the newest marker is missing: it is all that
// there is of those rows, and nobody has them twice. A marker alone, which anybody may have put into a lake, hides no
// row.
func (c *content) fallBack() {
	if c.generation == 0 || len(c.merged) > 0 {
		return
	}
	before := -1
	for _, f := range c.old {
		if p, _ := parse(f.name); p.generation < c.generation {
			before = max(before, p.generation)
		}
	}
	c.old = slices.DeleteFunc(c.old, func(f entry) bool {
		p, _ := parse(f.name)
		if p.generation != before {
			return false
		}
		if p.kind == rawTier {
			c.raw = append(c.raw, f)
		} else {
			c.merged = append(c.merged, f)
		}
		return true
	})
}

// findCutShort tells a file of a merge that was cut short before its marker from one that has lost its marker: what the
// former was made of is there still. Late rows come after the latter.
func (c *content) findCutShort() {
	c.lost = slices.DeleteFunc(c.lost, func(f entry) bool {
		if p, _ := parse(f.name); p.kind != mergedTier || p.generation != c.generation+1 ||
			!slices.ContainsFunc(c.raw, func(from entry) bool { return !from.modified.After(f.modified) }) {
			return false
		}
		c.old = append(c.old, f)
		return true
	})
}

// inTheWay is a file that the next merge would write over, and that may be all there is of its rows.
func (c *content) inTheWay() (name string, ok bool) {
	for _, f := range c.lost {
		if p, _ := parse(f.name); p.kind == mergedTier && p.generation == c.generation+1 {
			return f.name, true
		}
	}
	return "", false
}

// marker is what a marker's file says.
type marker struct {
	Generation int    `json:"generation"`
	Rows       ledger `json:"rows"` // of the merged tier, by NODE/SESSION
}

// maxMarker bounds a marker, in bytes: 1,000 nodes with some spans each take 100 kB. An hour whose marker would be
// larger is not merged.
const maxMarker = 64 << 20

// errBad marks a file that can be had and is none of ours, or is damaged.
var errBad = errors.New("it is damaged, or none of the lake's")

// errOdd is that of a marker whose merged file has other rows than it tells. Neither is trusted, and both stay.
var errOdd = fmt.Errorf("%w: its merged file has other rows", errBad)

// errAlone is that of a marker whose merged file is missing, which was set aside, say: its rows may come again.
var errAlone = fmt.Errorf("%w: its merged file is missing", errBad)

// readMarker reads a partition's newest marker; without one it is generation 0 with nothing.
func readMarker(ctx context.Context, p place, c *content) (marker, error) {
	m := marker{Rows: ledger{}}
	if c.generation == 0 {
		return m, nil
	}
	f, err := p.open(ctx, c.marker.name)
	if err != nil {
		return m, fmt.Errorf("read %s: %w", c.marker.name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMarker+1))
	if err != nil {
		return m, fmt.Errorf("read %s: %w", c.marker.name, err)
	}
	err = json.Unmarshal(text, &m)
	if err == nil && m.Generation != c.generation {
		err = fmt.Errorf("it says generation %d", m.Generation)
	}
	if err == nil {
		err = m.Rows.check()
	}
	if err != nil {
		return marker{Rows: ledger{}}, fmt.Errorf("read %s: %w: %w", c.marker.name, errBad, err)
	}
	if len(m.Rows) > 0 && len(c.merged) == 0 { // nobody has those rows
		return marker{Rows: ledger{}}, fmt.Errorf("read %s: %w", c.marker.name, errAlone)
	}
	if m.Rows == nil {
		m.Rows = ledger{}
	}
	return m, nil
}

// marker is readMarker, and compares the number of rows with that in the merged file's footer: a marker that tells more
// would keep rows out, and one that tells less would let them in twice.
func (w *Writer) marker(ctx context.Context, c *content) (marker, error) {
	m, err := readMarker(ctx, w.place, c)
	if err != nil || c.generation == 0 || len(c.merged) == 0 {
		return m, err
	}
	f, err := w.local(ctx, c.merged[0])
	if err != nil {
		return m, fmt.Errorf("read %s: %w", c.merged[0].name, err)
	}
	defer f.Close()
	switch has, bad := metaOf(f); {
	case bad != nil: // nobody can read those rows
		err = errAlone
	case uint64(max(has.rows, 0)) != m.Rows.rows():
		err = errOdd
	default:
		return m, nil
	}
	return marker{Rows: ledger{}}, fmt.Errorf("read %s: %w", c.marker.name, err)
}

// directoryOf is the directory of a view's rows; "" for a view that there is not.
func directoryOf(view string) string {
	if t := table.Find(view); t != nil && t.View == view {
		return t.Store
	}
	return ""
}

// viewOf is the view whose rows are in a directory; nil if none is.
func viewOf(dir string) *table.Table {
	if t := table.Find("store." + dir); t != nil && t.View != "" {
		return t
	}
	return nil
}
