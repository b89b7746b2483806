package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/page"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// judged is the judgement of a session with what the page draws of it.
type judged struct {
	Verdict    detect.Verdict `json:"verdict"`
	Confidence float64        `json:"confidence"`
	Steps      float64        `json:"steps"`
	Missing    string         `json:"missing"`
	Warnings   []string       `json:"warnings"`
	Findings   []card         `json:"findings"`
	Peaks      []peak         `json:"peaks"`
	Risks      []risk         `json:"risks"`
}

// card is a finding with what it was judged by.
type card struct {
	model.Finding
	Level float64   `json:"level"` // bytes at the end, on the line
	X     []float64 `json:"x"`     // steps
	Y     []float64 `json:"y"`     // bytes
}

// peak is the highest that a memory reached, in one phase of the training, and what people read of it.
type peak struct {
	detect.Peak
	Text string `json:"text"`
}

// risk is when a device's memory runs out, by its use alone.
type risk struct {
	Device  string          `json:"device"`
	Kind    string          `json:"limit_kind"`
	Level   monitor.Level   `json:"level"`
	Used    int64           `json:"used"`
	Total   int64           `json:"total"`
	Seconds *monitor.Number `json:"seconds"`
	Low     *monitor.Number `json:"seconds_low"`
	High    *monitor.Number `json:"seconds_high"`
}

// maxDrawn findings are drawn, leaks first, each with at most maxPoints points.
const (
	maxDrawn  = 8
	maxPoints = 800
)

func verdicts(ctx context.Context, s api.Session, _ params) (any, error) {
	r, err := s.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return nil, err
	}
	j := judged{Verdict: r.Verdict, Confidence: r.Confidence, Steps: r.Steps, Missing: r.Missing,
		Warnings: append([]string{}, r.Warnings...), Findings: []card{}, Peaks: []peak{}, Risks: []risk{}}
	for i := range r.Findings {
		c := card{r.Findings[i].Document(), r.Findings[i].Level, []float64{}, []float64{}}
		if i < maxDrawn && !c.ByTime {
			if err := c.read(ctx, s, &r.Findings[i]); err != nil {
				return nil, err
			}
		}
		j.Findings = append(j.Findings, c)
	}
	raised, err := api.Ask(ctx, s, questions.Raised)
	if err != nil {
		return nil, err
	}
	for _, p := range detect.Peaks(raised) {
		j.Peaks = append(j.Peaks, peak{p, p.String()})
	}
	if oom, err := s.OOM(ctx, api.OOMRequest{}); err == nil { // a session without readings has none
		j.Risks = risksOf(oom)
	}
	return j, nil
}

// postMortem says how memory ran out, if it did.
func postMortem(ctx context.Context, s api.Session, _ params) (any, error) {
	processes, err := api.Ask(ctx, s, questions.Largest(40))
	if err != nil {
		return nil, err
	}
	var devices map[string]*monitor.DeviceReport
	if oom, err := s.OOM(ctx, api.OOMRequest{}); err == nil { // a session without readings has none
		devices = oom.Devices
	}
	what, minute, err := page.RanOut(ctx, s, processes, devices)
	return ranOut{what, minute}, err
}

// read fetches what the finding was judged by.
func (c *card) read(ctx context.Context, s api.Session, f *detect.Finding) error {
	q := questions.Readings(f)
	if q == "" {
		return nil
	}
	rows, err := api.Ask(ctx, s, q)
	if err != nil {
		return err
	}
	// the least of each group: what counts of a step is its floor
	group := (len(rows) + maxPoints - 1) / maxPoints
	for i, r := range rows {
		if n := len(c.X); i%max(1, group) != 0 && n > 0 {
			c.X[n-1], c.Y[n-1] = r.Step, math.Min(c.Y[n-1], r.Bytes)
			continue
		}
		c.X, c.Y = append(c.X, r.Step), append(c.Y, r.Bytes)
	}
	return nil
}

func risksOf(r *monitor.Report) []risk {
	list := []risk{}
	for name, d := range r.Devices {
		x := risk{Device: name, Kind: d.LimitKind, Used: d.CurrentMemory.Allocated, Total: d.CurrentMemory.Total}
		if d.Risk != nil {
			x.Level, x.Seconds, x.Low, x.High = d.Risk.Level, d.Risk.Seconds, d.Risk.SecondsLow, d.Risk.SecondsHigh
		}
		list = append(list, x)
	}
	return list
}

// excerpt is the source around a line.
type excerpt struct {
	File  string   `json:"file"`
	Line  int      `json:"line"`
	First int      `json:"first"` // number of Lines[0]
	Lines []string `json:"lines"`
	Later bool     `json:"later"` // the file was changed after the session began
}

const (
	around     = 6       // lines before and after
	maxSource  = 4 << 20 // bytes of a file that are read: a larger one is not written by hand
	longestRow = 400     // characters of a line that are sent
)

// source reads the lines around a site (FILE:LINE) that the session names.
func source(ctx context.Context, s api.Session, q params) (any, error) {
	site := q.text("site")
	file, number, ok := cutLast(site, ":")
	line, err := strconv.Atoi(number)
	if !ok || err != nil || line < 1 {
		return nil, fmt.Errorf("source: %q is not FILE:LINE", site)
	}
	known, err := firstOf(ctx, s, questions.Naming(site))
	if err != nil {
		return nil, err
	}
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case known.N == nil || *known.N == 0: // only such a file is read: the page is no file server
		return nil, errors.New("source: the session names no such line")
	case filepath.Ext(file) != ".py":
		return nil, errors.New("source: it is not a Python file")
	}
	if file, err = s.SourceFile(ctx, file); err != nil {
		return nil, err
	}
	return excerptOf(file, line, about)
}

func cutLast(text, mark string) (before, after string, ok bool) {
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(mark):], true
}

func excerptOf(file string, line int, about api.About) (*excerpt, error) {
	f, err := rootdir.OpenNamed(file) // a session may name a pipe, or exchange what it named for one
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	e := &excerpt{File: file, Line: line, First: max(1, line-around), Lines: []string{},
		Later: info.ModTime().After(about.Started)}
	lines := bufio.NewScanner(io.LimitReader(f, maxSource))
	lines.Buffer(nil, maxSource)
	for n := 1; n <= line+around && lines.Scan(); n++ {
		if n >= e.First {
			text := []rune(secret.Text(strings.ToValidUTF8(lines.Text(), "�"))) // a report goes to others
			e.Lines = append(e.Lines, string(text[:min(len(text), longestRow)]))
		}
	}
	return e, nil
}
