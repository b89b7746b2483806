package estimate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrFormat says that a recording is not one, or is cut.
var ErrFormat = errors.New("not a recording of memgauge estimate")

const (
	maxLine    = 1 << 16 // a line of code has a path and a function's name
	maxEvents  = 32 << 20
	maxBytes   = 1 << 44 // of one storage: 16 TiB, more than any device has
	maxBatch   = 1 << 30
	formatLine = "memgauge-estimate 1"
)

// reader puts a recording together, line by line.
type reader struct {
	out    *Recording
	phase  string
	made   []string // by allocation: the phase that it was made in
	sites  int
	marked []bool
	freed  []bool
	ended  bool
}

// Read reads a recording. docs/formats/estimate.md describes the lines.
func Read(from io.Reader) (*Recording, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	r := reader{out: &Recording{}, phase: "setup"}
	for n := 1; lines.Scan(); n++ {
		if n == 1 && lines.Text() != formatLine {
			return nil, fmt.Errorf("read recording: %w", ErrFormat)
		}
		if n > maxEvents {
			return nil, fmt.Errorf("read recording: more than %d events", maxEvents)
		}
		if n == 1 {
			continue
		}
		if err := r.line(lines.Text()); err != nil {
			return nil, fmt.Errorf("read recording: line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	if !r.ended {
		return nil, fmt.Errorf("read recording: %w: it has no end", ErrFormat)
	}
	r.finish()
	return r.out, nil
}

func (r *reader) line(text string) error {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "a":
		return r.alloc(rest)
	case "f":
		return r.free(rest)
	case "is":
		return r.mark(rest)
	case "phase":
		r.phase = rest
	case "empty":
		r.add(opEmpty, 0)
	case "step":
		r.out.Steps++
		r.add(opStep, 0)
	case "uses":
		if strings.HasPrefix(rest, "matrix ") {
			r.add(opMatrix, 0)
		}
		r.out.Convolves = r.out.Convolves || strings.HasPrefix(rest, "convolution ")
	case "site":
		return r.site(rest)
	case "batch":
		return r.batch(rest)
	case "torch":
		return json.Unmarshal([]byte(rest), &r.out.Torch)
	case "end":
		r.ended = true
	default: // of a newer recorder
	}
	return nil
}

func (r *reader) add(kind opKind, alloc int) { r.out.ops = append(r.out.ops, op{kind, int32(alloc)}) }

// alloc reads NUMBER BYTES DTYPE SITE. Numbers count from 1.
func (r *reader) alloc(rest string) error {
	w := strings.Fields(rest)
	if len(w) != 4 {
		return ErrFormat
	}
	number, err := strconv.Atoi(w[0])
	if err != nil || number != len(r.made)+1 {
		return fmt.Errorf("%w: allocation %q", ErrFormat, w[0])
	}
	size, err := strconv.ParseInt(w[1], 10, 64)
	if err != nil || size <= 0 || size > maxBytes {
		return fmt.Errorf("%w: %q bytes", ErrFormat, w[1])
	}
	site, err := strconv.Atoi(w[3])
	if err != nil || site < 0 || site > r.sites {
		return fmt.Errorf("%w: site %q", ErrFormat, w[3])
	}
	r.out.Allocations = append(r.out.Allocations, Allocation{Bytes: size, Site: int32(site - 1),
		Wide: w[2] == "float32" || w[2] == "float64"})
	r.made, r.marked = append(r.made, r.phase), append(r.marked, false)
	r.freed = append(r.freed, false)
	r.add(opAlloc, number-1)
	return nil
}

// number is that of an allocation that was made, counted from 0.
func (r *reader) number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(r.made) {
		return 0, fmt.Errorf("%w: allocation %q", ErrFormat, text)
	}
	return n - 1, nil
}

func (r *reader) free(rest string) error {
	n, err := r.number(rest)
	if err != nil {
		return err
	}
	if r.freed[n] {
		return fmt.Errorf("%w: allocation %q is freed twice", ErrFormat, rest)
	}
	r.freed[n] = true
	if !r.marked[n] {
		r.out.Allocations[n].Category = lifeOf(r.made[n], r.phase)
		r.marked[n] = true
	}
	r.add(opFree, n)
	return nil
}

// lifeOf tells from the phases that made and freed a storage what it was for.
func lifeOf(made, freed string) Category {
	switch {
	case made == "forward" && freed != "forward":
		return Activation
	case made == "forward", made == "backward", made == "optimizer":
		return Temporary
	}
	return Rest
}

var marks = map[string]Category{"parameter": Parameter, "buffer": Parameter, "gradient": Gradient,
	"optimizer": Optimizer}

func (r *reader) mark(rest string) error {
	number, name, _ := strings.Cut(rest, " ")
	n, err := r.number(number)
	if category, ok := marks[name]; ok && err == nil {
		r.out.Allocations[n].Category, r.marked[n] = category, true
	}
	return err
}

// finish classifies what was alive at the end: it is kept for longer than its phase.
func (r *reader) finish() {
	for i := range r.made {
		if !r.marked[i] && r.made[i] == "forward" {
			r.out.Allocations[i].Category = Activation
		}
	}
}

func (r *reader) site(rest string) error {
	number, text, _ := strings.Cut(rest, " ")
	if n, err := strconv.Atoi(number); err != nil || n != r.sites+1 {
		return fmt.Errorf("%w: site %q", ErrFormat, number)
	}
	var name string
	if err := json.Unmarshal([]byte(text), &name); err != nil {
		return fmt.Errorf("%w: site: %w", ErrFormat, err)
	}
	r.sites++
	r.out.Sites = append(r.out.Sites, name)
	return nil
}

// batch reads OWN RUN WHERE; the last such line counts.
func (r *reader) batch(rest string) error {
	w := strings.SplitN(rest, " ", 3)
	if len(w) != 3 {
		return ErrFormat
	}
	own, err := strconv.Atoi(w[0])
	run, err2 := strconv.Atoi(w[1])
	if err != nil || err2 != nil || own < 1 || run < 1 || own > maxBatch || run > maxBatch {
		return fmt.Errorf("%w: batch %q", ErrFormat, rest)
	}
	r.out.Batch, r.out.BatchRun = own, run
	return json.Unmarshal([]byte(w[2]), &r.out.BatchWhere)
}
