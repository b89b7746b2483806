// Package page makes one self-contained HTML page, and one JSON document, about a session: what ran and how it ended,
// where the bytes are, the series with their limits and events, verdicts, processes, devices, what was lost and what
// observing cost. The page needs no network and no script. The package queries the session's tables; it neither samples
// nor judges.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/chart"
	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/picture"
	"github.com/memgauge/memgauge/internal/units"
)

// SchemaVersion of the JSON document (docs/cli-json.md).
const SchemaVersion = 1

// Document is everything that is reported about a session.
type Document struct {
	SchemaVersion int                              `json:"schema_version"`
	Generated     time.Time                        `json:"generated"`
	Session       Session                          `json:"session"`
	Verdict       string                           `json:"verdict"` // leak, undecided, healthy
	Findings      []Finding                        `json:"findings"`
	Risk          string                           `json:"oom_risk"` // low, medium, high, critical
	Headlines     []Headline                       `json:"headlines"`
	PostMortem    *PostMortem                      `json:"post_mortem"` // null if no memory ran out
	Where         *picture.Picture                 `json:"where"`       // null if nothing was sampled
	Devices       map[string]*monitor.DeviceReport `json:"devices"`
	Processes     []Process                        `json:"processes"`
	Events        []Event                          `json:"events"`
	Overhead      []Overhead                       `json:"overhead"`
	Drops         []Drop                           `json:"drops"`

	chart  chart.Chart
	minute chart.Chart   // before the memory ran out; no panels if it didn't
	judged []chart.Chart // one for each finding that is not healthy
}

// Session is what ran.
type Session struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Command  []string   `json:"command"`
	Cwd      string     `json:"cwd"`
	Host     string     `json:"host"`
	State    string     `json:"state"`
	Live     bool       `json:"live"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended"`
	Steps    int64      `json:"steps"`
	PeakRSS  int64      `json:"peak_rss_bytes"`
	Ranks    []int      `json:"ranks"`
	Rows     int64      `json:"rows"`
	Lost     int64      `json:"lost_records"`
	Memgauge string     `json:"memgauge"`
}

// Headline is what a reader should know first.
type Headline struct {
	Text string `json:"text"`
	Bad  bool   `json:"bad"`
}

// Finding is the verdict on one memory.
type Finding struct {
	Verdict  string   `json:"verdict"`
	Class    string   `json:"class"`
	Memory   string   `json:"memory"`
	PID      int      `json:"pid"`
	Rate     *float64 `json:"rate_mb_per_step"` // MB of 2^20 bytes; null unless it leaks, and without steps
	Second   *float64 `json:"rate_mb_per_second"`
	RateLow  *float64 `json:"rate_low"`
	RateHigh *float64 `json:"rate_high"`
	Start    *float64 `json:"start_step"`
	Reason   string   `json:"reason"`
	Site     string   `json:"site"`
	Holder   string   `json:"holder"`
	Held     string   `json:"held"`
	Evidence []string `json:"evidence"`
	Advice   []string `json:"advice"`
	Limit    string   `json:"limit"`
	Seconds  *float64 `json:"time_to_limit_seconds"`
}

// PostMortem is what the last minute before memory ran out shows.
type PostMortem struct {
	Time      time.Time `json:"ts"`
	Event     string    `json:"event"`
	Text      string    `json:"text"`
	Summary   string    `json:"summary"`
	Device    string    `json:"device"`          // host, or a GPU's number
	Limit     *int64    `json:"limit_bytes"`     // of the device
	Requested *int64    `json:"requested_bytes"` // by the allocation that failed; null if not reported
	// between the blocks of the allocator that failed; null if not reported
	LargestHole *int64   `json:"largest_hole_bytes"`
	Grew        []Grower `json:"grew"`    // those that grew in the window, largest growth first
	Largest     []Grower `json:"largest"` // those that held most at its end
}

// Grower is a process, a cgroup or a device in that minute.
type Grower struct {
	Scope string `json:"scope"`
	PID   int    `json:"pid"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Grown int64  `json:"grown_bytes"`
}

// Process is one of the job's.
type Process struct {
	PID     int    `json:"pid"`
	Role    string `json:"role"`
	Rank    *int   `json:"rank"`
	Command string `json:"command"`
	Peak    *int64 `json:"peak_rss"`
	Ended   bool   `json:"ended"`
}

// Event is a row of memgauge.events.
type Event struct {
	Micros int64  `json:"t"` // µs since the epoch
	PID    *int   `json:"pid"`
	Name   string `json:"name"`
	Text   string `json:"text"`
}

// Overhead is what a part of observing cost.
type Overhead struct {
	Part    string   `json:"part"`
	Seconds float64  `json:"seconds"`
	Share   *float64 `json:"share"` // of the covered time
}

// Drop counts records that are not in the tables.
type Drop struct {
	Source  string `json:"source"`
	Reason  string `json:"reason"`
	Records int64  `json:"records"`
}

//go:embed page.html
var source string

var body = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"bytes":   bytesOf,
		"size":    func(n int64) string { return units.Bytes(n).String() },
		"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"micros":  func(us int64) string { return time.UnixMicro(us).UTC().Format("15:04:05.000") },
		"percent": func(f *float64) string { return percent(f) },
		"rate":    func(f float64) string { return fmt.Sprintf("%.3f", f) },
		"join":    func(s []string) string { return strings.Join(s, " ") },
		"span":    monitor.Span,
		"bar":     bar,
	}).Parse(source))
})

func bytesOf(n *int64) string {
	if n == nil {
		return "?"
	}
	return units.Bytes(*n).String()
}

func percent(f *float64) string {
	if f == nil {
		return "?"
	}
	return fmt.Sprintf("%.3f %%", 100**f)
}

// bar is the width of a class of memory, in percent, in the bar for all that is charged.
func bar(part, whole *int64) template.CSS {
	if part == nil || whole == nil || *whole <= 0 || *part <= 0 {
		return "width:0"
	}
	return template.CSS(fmt.Sprintf("width:%.2f%%", min(100, 100*float64(*part)/float64(*whole))))
}

// Class is a row of the table of classes.
type Class struct {
	Name, About string
	Bytes       *int64
}

// Classes lists the classes of the host's bytes.
func (d *Document) Classes() []Class {
	if d.Where == nil {
		return nil
	}
	c := d.Where.Host.Classes
	return []Class{
		{"heap in use", "handed out by malloc: tensors on the CPU, buffers", c.HeapInUse},
		{"heap free", "held by malloc, not handed out", c.HeapFree},
		{"Python arenas", "Python's small objects", c.PythonArenas},
		{"anonymous", "other anonymous maps", c.Anonymous},
		{"stacks", "of threads", c.Stacks},
		{"file", "mapped files and page cache", c.File},
		{"shared", "/dev/shm, memfd, shared maps", c.Shared},
		{"pinned", "locked, or pinned for devices", c.Pinned},
		{"page tables", "", c.PageTables},
		{"kernel", "thread stacks, slab, sockets", c.Kernel},
		{"unexplained", "", d.Where.Host.Unexplained},
	}
}

// Write writes the page.
func (d *Document) Write(w io.Writer) error {
	view := struct {
		*Document
		Chart, Minute template.HTML
		Judged        []template.HTML
	}{Document: d, Judged: make([]template.HTML, len(d.judged))}
	var err error
	for i, c := range d.judged {
		if view.Judged[i], err = c.Inline(); err != nil {
			return err
		}
	}
	if len(d.chart.Panels) > 0 {
		if view.Chart, err = d.chart.Inline(); err != nil {
			return err
		}
	}
	if len(d.minute.Panels) > 0 {
		if view.Minute, err = d.minute.Inline(); err != nil {
			return err
		}
	}
	if err := body().Execute(w, view); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
