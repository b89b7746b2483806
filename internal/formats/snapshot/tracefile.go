package snapshot

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
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
	"segment_alloc": SegmentAlloc, "segment_free": SegmentFree, "segment_map": SegmentMap,
	"segment_unmap": SegmentUnmap,
}

// maxLine is the longest line of a text format: five numbers have at most 100 characters.
const maxLine = 4096

// maxWords are the words of the longest line.
const maxWords = 4

type traceReader struct {
	out    *Snapshot
	device int
	line   int64
	lines  int // of the file
	words  [maxWords + 1][]byte
	args   [maxWords]uint64
}

func readTraceText(data []byte, limit *budget) (*Snapshot, error) {
	whole := len(data)
	r := &traceReader{out: &Snapshot{Openings: map[int]Opening{}},
		lines: min(bytes.Count(data, []byte("\n"))+1, int(limit.left/costRow))}
	for len(data) > 0 {
		r.line++
		end := bytes.IndexByte(data[:min(len(data), maxLine)], '\n')
		if end < 0 && len(data) >= maxLine {
			return nil, atLine(r.line, "line is longer than %d bytes", maxLine-1)
		}
		line := data
		if end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		if !limit.take(costRow) {
			return nil, errTooMuch(int64(whole - len(data)))
		}
		if err := r.read(r.split(line)); err != nil {
			return nil, err
		}
	}
	return r.out, nil
}

// split cuts a line into words; of one that has too many it returns one more than any line has.
func (r *traceReader) split(line []byte) [][]byte {
	n := 0
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' || line[i] == '\r' {
			i++
			continue
		}
		begin := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' && line[i] != '\r' {
			i++
		}
		r.words[n] = line[begin:i]
		if n++; n == len(r.words) || line[begin] == '#' {
			break
		}
	}
	return r.words[:n]
}

func (r *traceReader) read(words [][]byte) error {
	if len(words) == 0 || words[0][0] == '#' {
		return nil
	}
	switch string(words[0]) {
	case "device":
		n, err := r.numbers(words, 1, 1)
		if err == nil && n[0] >= maxDevices {
			err = atLine(r.line, "device %d; at most %d", n[0], maxDevices-1)
		}
		if err == nil {
			r.device = int(n[0])
			r.open(func(*Opening) {})
		}
		return err
	case "reserved_at_start", "reserved_at_end":
		n, err := r.numbers(words, 1, 1)
		if err == nil && string(words[0]) == "reserved_at_start" {
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

func (r *traceReader) opening(words [][]byte) error {
	n, err := r.numbers(words, 2, 3)
	if err != nil {
		return err
	}
	var stream uint64
	if len(n) == 3 {
		stream = n[2]
	}
	r.open(func(o *Opening) {
		if string(words[0]) == "live" {
			o.Live = append(o.Live, LiveBlock{n[0], int64(n[1]), stream})
		} else {
			o.Segments = append(o.Segments, Span{n[0], int64(n[1]), stream})
		}
	})
	return nil
}

func (r *traceReader) event(words [][]byte) error {
	action, ok := traceActions[string(words[0])]
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
	// a place for each line that is left: growing takes three times as much
	if to := &r.out.Traces[r.device]; len(*to) == 1 {
		*to = append(make([]Event, 0, max(r.lines-int(r.line)+1, 0)), *to...)
		r.lines = int(r.line) // of a second device nobody knows
	}
	return nil
}

// numbers reads what follows a word, from least to most numbers; the second is a size. They are valid until the next
// call.
func (r *traceReader) numbers(words [][]byte, least, most int) ([]uint64, error) {
	args := words[1:]
	if len(args) < least || len(args) > most {
		want := []int{least}
		if most > least {
			want = append(want, most)
		}
		return nil, atLine(r.line, "%s has %d numbers, want %v", words[0], len(args), want)
	}
	for i, text := range args {
		n, err := number(text)
		if err != nil || (n > maxSize && (i == 1 || len(args) == 1)) {
			return nil, atLine(r.line, "%s: bad number %.40q", words[0], text)
		}
		r.args[i] = n
	}
	return r.args[:len(args)], nil
}

// number reads a decimal or hexadecimal number, the usual ones without an allocation.
func number(text []byte) (n uint64, err error) {
	if len(text) > 2 && len(text) <= 18 && text[0] == '0' && text[1] == 'x' {
		for _, c := range text[2:] {
			switch {
			case c >= '0' && c <= '9':
				n = n<<4 | uint64(c-'0')
			case c >= 'a' && c <= 'f':
				n = n<<4 | uint64(c-'a'+10)
			default:
				return strconv.ParseUint(string(text), 0, 64)
			}
		}
		return n, nil
	}
	if len(text) == 0 || len(text) > 18 || (text[0] == '0' && len(text) > 1) {
		return strconv.ParseUint(string(text), 0, 64)
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return strconv.ParseUint(string(text), 0, 64)
		}
		n = 10*n + uint64(c-'0')
	}
	return n, nil
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
	var words [math.MaxUint8 + 1]string
	for word, action := range traceActions {
		words[actionIndex(action)] = word
	}
	for i := range t.Events.Len() {
		e := t.Events.At(i)
		if word := words[e.Action]; word != "" {
			fmt.Fprintf(b, "%s 0x%x %d %d\n", word, e.Addr, e.Size, e.Stream)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}
