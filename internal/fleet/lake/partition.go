package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/memgauge/memgauge/internal/table"
)

// hour is a partition: rows of one table and one job, of one hour of UTC by the node's clock.
type hour struct {
	table string // package table's Store: the directory
	job   string
	begin time.Time
}

// dir is the partition's directory, with a slash behind.
func (h hour) dir() string {
	return fmt.Sprintf("%s/job=%s/date=%s/hour=%s/", h.table, h.job, h.begin.Format(time.DateOnly),
		h.begin.Format("15"))
}

// Kinds of a tier: r has files as they were flushed, c one that was merged.
func tier(kind string, generation int) string { return fmt.Sprintf("tier=%s%d/", kind, generation) }

const (
	rawTier    = "r"
	mergedTier = "c"
	mergedName = "all.parquet"
	markerHead = "_gen-"
	markerTail = ".json"
)

func markerName(generation int) string { return markerHead + strconv.Itoa(generation) + markerTail }

// parsed is what a file's name says.
type parsed struct {
	hour
	generation int
	kind       string // rawTier, mergedTier, or "" for a marker
}

// parse reads a name; false for files that are none of ours.
func parse(name string) (p parsed, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) < 5 || len(parts) > 6 {
		return p, false
	}
	job, ok1 := strings.CutPrefix(parts[1], "job=")
	date, ok2 := strings.CutPrefix(parts[2], "date=")
	clock, ok3 := strings.CutPrefix(parts[3], "hour=")
	begin, err := time.ParseInLocation(time.DateOnly+" 15", date+" "+clock, time.UTC)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return p, false
	}
	p.hour = hour{parts[0], job, begin}
	number := ""
	if len(parts) == 5 {
		number, ok = strings.CutPrefix(parts[4], markerHead)
		if number, ok2 = strings.CutSuffix(number, markerTail); !ok || !ok2 {
			return p, false
		}
	} else {
		rest, ok := strings.CutPrefix(parts[4], "tier=")
		if !ok || len(rest) < 2 || !strings.HasSuffix(parts[5], ".parquet") {
			return p, false
		}
		p.kind, number = rest[:1], rest[1:]
	}
	p.generation, err = strconv.Atoi(number)
	return p, err == nil && p.generation >= 0 && slices.Contains([]string{rawTier, mergedTier, ""}, p.kind)
}

// content is what a partition has: files that are there for readers, and others.
type content struct {
	generation int
	raw        []entry
	merged     []entry
	old        []entry // of other generations: replaced, or of a merge that was cut short
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
		case p.generation != c.generation:
			c.old = append(c.old, f)
		case p.kind == rawTier:
			c.raw = append(c.raw, f)
		case p.kind == mergedTier:
			c.merged = append(c.merged, f)
		}
	}
	return out
}

// marker is what a marker's file says.
type marker struct {
	Generation int    `json:"generation"`
	Rows       ledger `json:"rows"` // of the merged tier, by NODE/SESSION
}

// maxMarker bounds a marker, in bytes: 1,000 nodes with some spans each take 100 kB.
const maxMarker = 64 << 20

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
	if err := json.NewDecoder(io.LimitReader(f, maxMarker)).Decode(&m); err != nil {
		return m, fmt.Errorf("read %s: %w", c.marker.name, err)
	}
	if m.Rows == nil {
		m.Rows = ledger{}
	}
	return m, nil
}

// rowsKey is the member of a Parquet file's footer with the ledger of its rows.
const rowsKey = "memgauge.rows"

// rowsOf reads the ledger of a flushed file from its footer.
func rowsOf(ctx context.Context, p place, name string) (ledger, error) {
	f, err := p.open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	r, err := file.NewParquetReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer r.Close()
	text := r.MetaData().KeyValueMetadata().FindValue(rowsKey)
	if text == nil {
		return nil, fmt.Errorf("read %s: it does not say which rows it holds", name)
	}
	l := ledger{}
	if err := json.Unmarshal([]byte(*text), &l); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return l, nil
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
