// Package page gathers one document about a session: what ran and how it ended, how memory ran out, where the bytes
// are, verdicts, processes, devices, what was lost and what observing cost. Package web makes a page of it. The package
// queries the session's tables; it neither samples nor judges.
package page

import (
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// SchemaVersion of the JSON document (docs/cli-json.md).
const SchemaVersion = 1

// Document is everything that is reported about a session.
type Document struct {
	SchemaVersion int                              `json:"schema_version"`
	Generated     time.Time                        `json:"generated"`
	Session       Session                          `json:"session"`
	Verdict       string                           `json:"verdict"` // leak, undecided, healthy
	Findings      []model.Finding                  `json:"findings"`
	Peaks         []detect.Peak                    `json:"peaks"`    // that belong to saving, an evaluation …
	Risk          string                           `json:"oom_risk"` // low, medium, high, critical
	Headlines     []Headline                       `json:"headlines"`
	PostMortem    *PostMortem                      `json:"post_mortem"` // null if no memory ran out
	Where         *picture.Picture                 `json:"where"`       // null if nothing was sampled
	Devices       map[string]*monitor.DeviceReport `json:"devices"`
	Processes     []questions.Process              `json:"processes"`
	Events        []questions.Event                `json:"events"`
	Overhead      []questions.Cost                 `json:"overhead"`
	Drops         []questions.Drop                 `json:"drops"`

	// Minute is who held what around the moment at which memory ran out; empty if it didn't.
	Minute []Line `json:"-"`
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

// Line is a memory over the time around the moment at which memory ran out.
type Line struct {
	Name  string  `json:"name"`
	T     []int64 `json:"t"` // µs since the epoch
	Bytes []int64 `json:"bytes"`
}
