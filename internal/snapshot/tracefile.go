package snapshot

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// This file reads and writes traces as text, one event a line; see docs/formats/trace.md.
//
//	device N
//	reserved_at_start BYTES
//	live ADDR BYTES
//	alloc|free ADDR BYTES STREAM
//	segment_alloc|segment_free ADDR BYTES STREAM

// traceActions are the words of the format.
var traceActions = map[string]Action{
	"alloc": Alloc, "free": FreeCompleted, "free_requested": FreeRequested,
	"segment_alloc": SegmentAlloc, "segment_free": SegmentFree, "segment_map": SegmentMap, "segment_unmap": SegmentUnmap,
}

// maxLine is the longest line of a text format: five numbers have at most 100 characters.
const maxLine = 4096

type traceReader struct {
	out    *Snapshot
	device int
	line   int64
}

func readTraceText(data []byte) (*Snapshot, error) {
	r := &traceReader{out: &Snapshot{Openings: map[int]Opening{}}}
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		r.line++
		if err := r.read(strings.Fields(scan.Text())); err != nil {
			return nil, err
		}
	}
	if err := scan.Err(); err != nil {
		return nil, atLine(r.line+1, "%v", err)
	}
	return r.out, nil
}

func (r *traceReader) read(words []string) error {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	switch words[0] {
	case "device":
		n, err := r.numbers(words, 1)
		if err == nil && n[0] >= maxDevices {
			err = atLine(r.line, "device %d; at most %d", n[0], maxDevices-1)
		}
		if err == nil {
			r.device = int(n[0])
			r.open(func(*Opening) {})
		}
		return err
	case "reserved_at_start", "reserved_at_end":
		n, err := r.numbers(words, 1)
		if err == nil && words[0] == "reserved_at_start" {
			r.open(func(o *Opening) { o.Reserved = int64(n[0]) })
		}
		return err
	case "live", "segment":
		return r.opening(words)
	}
	return r.event(words)
}

// open changes the opening of the device at hand.
func (r *traceReader) open(change func(*Opening)) {
	o := r.out.Openings[r.device]
	change(&o)
	r.out.Openings[r.device] = o
}

func (r *traceReader) opening(words []string) error {
	n, err := r.numbers(slices.Clone(words), 2, 3)
	if err != nil {
		return err
	}
	var stream uint64
	if len(n) == 3 {
		stream = n[2]
	}
	r.open(func(o *Opening) {
		if words[0] == "live" {
			o.Live = append(o.Live, LiveBlock{n[0], int64(n[1]), stream})
		} else {
			o.Segments = append(o.Segments, Span{n[0], int64(n[1]), stream})
		}
	})
	return nil
}

func (r *traceReader) event(words []string) error {
	action, ok := traceActions[words[0]]
	if !ok {
		return atLine(r.line, "unknown word %.40q", words[0])
	}
	n, err := r.numbers(words, 2, 3)
	if err != nil {
		return err
	}
	e := Event{Action: action, Device: r.device, Addr: n[0], Size: int64(n[1])}
	if len(n) == 3 {
		e.Stream = n[2]
	}
	r.out.addEvent(e)
	return nil
}

// numbers reads what follows a word; the second is a size.
func (r *traceReader) numbers(words []string, counts ...int) ([]uint64, error) {
	args := words[1:]
	if !slices.Contains(counts, len(args)) {
		return nil, atLine(r.line, "%s has %d numbers, want %v", words[0], len(args), counts)
	}
	out := make([]uint64, len(args))
	for i, text := range args {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil || (n > maxSize && (i == 1 || len(args) == 1)) {
			return nil, atLine(r.line, "%s: bad number %.40q", words[0], text)
		}
		out[i] = n
	}
	return out, nil
}

// WriteTrace writes one device's history as text.
func WriteTrace(w io.Writer, t *Trace) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "device %d\nreserved_at_start %d\n", t.Device, t.Reserved)
	for _, s := range t.Segments {
		fmt.Fprintf(b, "segment 0x%x %d %d\n", s.Addr, s.Size, s.Stream)
	}
	for _, l := range t.Live {
		fmt.Fprintf(b, "live 0x%x %d %d\n", l.Addr, l.Requested, l.Stream)
	}
	words := map[Action]string{}
	for word, action := range traceActions {
		words[action] = word
	}
	for i := range t.Events {
		e := &t.Events[i]
		if word := words[e.Action]; word != "" {
			fmt.Fprintf(b, "%s 0x%x %d %d\n", word, e.Addr, e.Size, e.Stream)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}
