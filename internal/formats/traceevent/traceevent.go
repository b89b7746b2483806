// Package traceevent writes traces in Chrome's JSON format, which ui.perfetto.dev opens: counters, slices and marks of
// processes, one event after the other, so that no trace is ever held in memory. It does not know what is drawn.
//
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
package traceevent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// CheckName refuses a file that viewers would not open by its name. flag is what named it.
func CheckName(flag, name string) error {
	lower := strings.ToLower(name)
	if strings.HasSuffix(lower, ".json") || strings.HasSuffix(lower, ".json.gz") {
		return nil
	}
	return remedy.Add(fmt.Errorf("%s %s: unknown kind of file", flag, name), "end the name in .json or .json.gz")
}

// Writer keeps the first error; after it nothing is written. Times are µs.
type Writer struct {
	ctx   context.Context
	w     *bufio.Writer
	begun bool // an event is written
	err   error
}

// New begins a trace. It ends with an error when ctx does.
func New(ctx context.Context, w io.Writer) *Writer {
	t := &Writer{ctx: ctx, w: bufio.NewWriterSize(w, 1<<16)}
	t.text(`{"displayTimeUnit":"ms","traceEvents":[`)
	return t
}

// Err is why the trace is not written any more.
func (t *Writer) Err() error { return t.err }

// Close ends the trace.
func (t *Writer) Close() error {
	t.text("\n]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write trace: %w", t.err)
	}
	return nil
}

func (t *Writer) text(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

// event writes one; rest are its other members, each with a comma before it.
func (t *Writer) event(kind string, pid int, name string, ts int64, rest string) {
	if t.err == nil {
		t.err = t.ctx.Err()
	}
	if t.err != nil {
		return
	}
	if t.begun {
		t.text(",")
	}
	t.begun = true
	t.text("\n" + `{"ph":"` + kind + `","pid":` + strconv.Itoa(pid) + `,"name":` + quoted(name) + `,"ts":` +
		strconv.FormatInt(ts, 10) + rest + "}")
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a text can be marshalled
	return string(b)
}

// Process names a process, which has the counters and lines of its number.
func (t *Writer) Process(pid int, name string) {
	t.event("M", pid, "process_name", 0, `,"args":{"name":`+quoted(name)+`}`)
}

// Order puts processes into the order of their numbers here, not of their pids.
func (t *Writer) Order(pid, place int) {
	t.event("M", pid, "process_sort_index", 0, `,"args":{"sort_index":`+strconv.Itoa(place)+`}`)
}

// Line names one of a process's lines of slices.
func (t *Writer) Line(pid, line int, name string) {
	t.event("M", pid, "thread_name", 0, fmt.Sprintf(`,"tid":%d,"args":{"name":%s}`, line, quoted(name)))
}

// Value is one level of a counter.
type Value struct {
	Name  string
	Level int64
}

// Bytes sets a counter of bytes.
func (t *Writer) Bytes(pid int, name string, ts, bytes int64) {
	t.Counter(pid, name, ts, []Value{{"bytes", bytes}})
}

// Counter sets the levels of a counter, which are drawn upon each other.
func (t *Writer) Counter(pid int, name string, ts int64, values []Value) {
	args := ""
	for i, v := range values {
		if i > 0 {
			args += ","
		}
		args += quoted(v.Name) + ":" + strconv.FormatInt(v.Level, 10)
	}
	t.event("C", pid, name, ts, `,"args":{`+args+"}")
}

// Slice writes a stretch of time on one of the process's lines.
func (t *Writer) Slice(pid, line int, name string, from, to int64) {
	t.event("X", pid, name, from, fmt.Sprintf(`,"tid":%d,"dur":%d`, line, max(0, to-from)))
}

// Mark writes a moment of the process, with what is known of it.
func (t *Writer) Mark(pid int, name string, ts int64, about ...string) {
	rest := `,"s":"p"`
	for i := 0; i+1 < len(about); i += 2 {
		rest += map[bool]string{true: `,"args":{`, false: ","}[i == 0] + quoted(about[i]) + ":" + quoted(about[i+1])
	}
	if len(about) > 1 {
		rest += "}"
	}
	t.event("i", pid, name, ts, rest)
}
