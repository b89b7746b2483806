package snapshot

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file reads and writes the log of RMM's logging_resource_adaptor: Thread,Time,Action,Pointer,Size,Stream.
// https://github.com/rapidsai/rmm (docs/user_guide/logging.md)

// rmmHeader is the first line; readers go by its names, since versions differ in the order.
var rmmHeader = []string{"Thread", "Time", "Action", "Pointer", "Size", "Stream"}

const day = 24 * time.Hour

// rmmClock is a time of day; RMM's log has no date.
type rmmClock struct {
	last time.Duration
	days int64
}

// micros turns "12:34:56:789012" or "12:34:56.789012" into µs since the log's first midnight.
func (c *rmmClock) micros(text string) int64 {
	if i := strings.LastIndexByte(text, ':'); i > 0 && strings.Count(text, ":") == 3 {
		text = text[:i] + "." + text[i+1:]
	}
	t, err := time.Parse("15:04:05.999999", text)
	if err != nil {
		if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 && s < 1e10 { // some versions log seconds
			return int64(s * 1e6)
		}
		return 0
	}
	at := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
		time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	if at+day/2 < c.last {
		c.days++
	}
	c.last = at
	return (time.Duration(c.days)*day + at).Microseconds()
}

func readRMM(data []byte, limit *budget) (*Snapshot, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, csvError(r, err)
	}
	columns, err := rmmColumns(slices.Clone(header))
	if err != nil {
		return nil, err
	}
	out, clock := &Snapshot{}, &rmmClock{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, csvError(r, err)
		}
		line, _ := r.FieldPos(0)
		if !limit.take(costRow) {
			return nil, errTooMuch(r.InputOffset())
		}
		if err := rmmEvent(out, row, columns, clock, int64(line)); err != nil {
			return nil, err
		}
	}
}

func csvError(r *csv.Reader, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return atLine(int64(parse.Line), "%v", parse.Err)
	}
	return atLine(1, "%v", err)
}

// rmmColumns finds the columns, by name.
func rmmColumns(header []string) (map[string]int, error) {
	columns := map[string]int{}
	for i, name := range header {
		columns[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, need := range []string{"action", "pointer", "size"} {
		if _, ok := columns[need]; !ok {
			return nil, atLine(1, "no column %q: not a log of RMM", need)
		}
	}
	return columns, nil
}

func rmmEvent(out *Snapshot, row []string, columns map[string]int, clock *rmmClock, line int64) error {
	field := func(name string) string {
		if i, ok := columns[name]; ok && i < len(row) {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	e := Event{Time: clock.micros(field("time"))}
	switch action := field("action"); action {
	case "allocate":
		e.Action = Alloc
	case "free", "deallocate":
		e.Action = FreeCompleted
	case "allocate failure":
		e.Action = OOM
	default:
		return atLine(line, "unknown action %.40q", action)
	}
	size, err := strconv.ParseInt(field("size"), 10, 64)
	if err != nil || size < 0 || size > maxSize {
		return atLine(line, "bad size %.40q", field("size"))
	}
	e.Size = size
	e.Thread, _ = strconv.ParseUint(field("thread"), 10, 64)
	e.Stream = hexNumber(field("stream"))
	e.Addr = hexNumber(field("pointer"))
	if e.Addr == 0 && e.Action != OOM {
		if e.Size == 0 { // RMM hands out nil for nothing
			return nil
		}
		return atLine(line, "bad pointer %.40q", field("pointer"))
	}
	out.addEvent(e)
	return nil
}

// hexNumber reads "0x7f00" or "7f00" (fmt's %p, with and without); 0 for "(nil)" and whatever else.
func hexNumber(s string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// WriteRMM writes a device's allocations, frees and failures as RMM logs them.
func WriteRMM(w io.Writer, s *Snapshot, device int) error {
	c := csv.NewWriter(w)
	c.Write(rmmHeader) // errors stay in c until Flush
	for _, e := range s.Events(device) {
		action := map[Action]string{Alloc: "allocate", FreeCompleted: "free", OOM: "allocate failure"}[e.Action]
		if action == "" {
			continue
		}
		at := time.UnixMicro(e.Time).UTC()
		c.Write([]string{strconv.FormatUint(e.Thread, 10), at.Format("15:04:05.000000"), action,
			fmt.Sprintf("0x%x", e.Addr), strconv.FormatInt(e.Size, 10), fmt.Sprintf("0x%x", e.Stream)})
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write RMM log: %w", err)
	}
	return nil
}
