package native

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/model"
)

const (
	maxStacks  = 50_000 // different ones of a session; later ones count as the rest
	maxRows    = 256    // of a process at one moment, the largest; the others are one row
	maxProcess = 256    // files that are read: 8 ranks with 31 workers each
	two95      = 1.96   // standard deviations either side of a 95 % interval
)

// Frame is a line of a stack: Python's, or with Line 0 of C, where File is the module.
type Frame struct {
	Func, File string
	Line       int
	Native     bool
}

// Place is where it is: file:line, or a module.
func (f Frame) Place() string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return f.File
}

// Reader reads the files of a directory. It belongs to one goroutine at a time.
type Reader struct {
	dir     string
	files   map[string]*File
	seen    map[string]uint64 // when a file had changed last, as it was read
	stacks  map[int64]stack   // that were handed out
	symbols symbols
}

// stack is what is kept of one that was handed out.
type stack struct{ site, called string }

// NewReader reads the files of a directory, which need not exist.
func NewReader(dir string) *Reader {
	return &Reader{dir: dir, files: map[string]*File{}, seen: map[string]uint64{}, stacks: map[int64]stack{}}
}

// Close closes what is open.
func (r *Reader) Close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	clear(r.files)
	return err
}

// Know takes a stack that is stored already.
func (r *Reader) Know(id int64, site, called string) { r.stacks[id] = stack{site, called} }

// Forget takes nothing for handed out: the next look hands out all of it again.
func (r *Reader) Forget() {
	clear(r.stacks)
	clear(r.seen)
	for _, f := range r.files {
		clear(f.stacks)
	}
}

// Sweep removes the files of processes that are gone, and those to which nothing comes any more, as they were read
// last.
func (r *Reader) Sweep(alive func(pid int, start uint64) bool) {
	for name, f := range r.files {
		if f.read() != nil || f.changed != r.seen[name] || f.State != stateEnding && alive(f.PID, f.Start) {
			continue
		}
		f.Close()
		_ = rootdir.Remove(filepath.Join(r.dir, name))
		delete(r.files, name)
		delete(r.seen, name)
	}
}

// Look reads what has changed since the last look: the live samples by stack of each process, and the stacks that were
// not handed out before. A file that can't be read is an error, and the others are read all the same.
func (r *Reader) Look(now time.Time) (live []model.NativeLive, stacks []model.NativeFrame, err error) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != Suffix || len(r.files) >= maxProcess && r.files[e.Name()] == nil {
			continue
		}
		rows, frames, ferr := r.lookAt(e.Name(), now)
		err = errors.Join(err, ferr)
		live, stacks = append(live, rows...), append(stacks, frames...)
	}
	return live, stacks, err
}

func (r *Reader) lookAt(name string, now time.Time) (live []model.NativeLive, frames []model.NativeFrame, err error) {
	f := r.files[name]
	if f == nil {
		f, err = Open(filepath.Join(r.dir, name))
		if err != nil {
			return nil, nil, fmt.Errorf("read native samples: %w", err)
		}
		r.files[name] = f
	} else if err := f.read(); err != nil {
		return nil, nil, fmt.Errorf("read native samples: %s: %w", name, err)
	}
	if f.changed == r.seen[name] {
		return nil, nil, nil
	}
	r.seen[name] = f.changed
	by := map[int64]*estimate{}
	err = f.samples(func(s sample) {
		id, fresh := r.stackOf(f, s.stack)
		frames = append(frames, fresh...)
		add(by, id, s)
	})
	return r.rows(f, by, now), frames, err
}

// estimate is a row that is being summed up.
type estimate struct {
	model.NativeLive
	weight, blocks, variance float64
	least                    float64 // bytes of the samples themselves
	intervals                float64 // weight × interval, in bytes²
}

func newEstimate(stack int64) *estimate {
	return &estimate{NativeLive: model.NativeLive{Stack: stack, Rank: -1}}
}

// add counts a sample: a block of s bytes was sampled with probability p = 1 - exp(-s/interval), so it stands for 1/p
// blocks. The variance of such a sum is that of independent draws (Horvitz and Thompson).
func add(by map[int64]*estimate, id int64, s sample) {
	row := by[id]
	if row == nil {
		row = newEstimate(id)
		by[id] = row
	}
	size := float64(max(s.size, 1))
	p := -math.Expm1(-size / s.interval)
	row.Samples++
	row.weight += size / p
	row.blocks += 1 / p
	row.variance += (1 - p) / (p * p) * size * size
	row.least += size
	row.intervals += size / p * s.interval
}

// rows are the largest, and one for the rest, which is always there: it says that this moment was looked at.
func (r *Reader) rows(f *File, by map[int64]*estimate, now time.Time) []model.NativeLive {
	rest := newEstimate(0)
	var list []*estimate
	for _, row := range by {
		if row.Stack != 0 {
			list = append(list, row)
		} else {
			merge(rest, row)
		}
	}
	slices.SortFunc(list, func(a, b *estimate) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Stack, b.Stack))
	})
	for len(list) > maxRows {
		merge(rest, list[len(list)-1])
		list = list[:len(list)-1]
	}
	var rows []model.NativeLive
	for _, row := range append(list, rest) {
		row.Time, row.PID, row.Interval = now.UnixMicro(), int32(f.PID), f.Interval
		if row.weight > 0 {
			row.Interval = int64(math.Round(row.intervals / row.weight))
		}
		row.Bytes, row.Count = int64(math.Round(row.weight)), int64(math.Round(row.blocks))
		wide := two95 * math.Sqrt(row.variance)
		row.Low = int64(math.Round(max(row.weight-wide, row.least)))
		row.High = int64(math.Round(row.weight + wide))
		s := r.stacks[row.Stack]
		row.Site, row.Called = s.site, s.called
		rows = append(rows, row.NativeLive)
	}
	return rows
}

func merge(to, from *estimate) {
	to.Samples += from.Samples
	to.weight += from.weight
	to.blocks += from.blocks
	to.variance += from.variance
	to.least += from.least
	to.intervals += from.intervals
}

// stackOf gives the number of a stack, the same in every process and at every moment, and its frames when it is new.
func (r *Reader) stackOf(f *File, at uint32) (id int64, fresh []model.NativeFrame) {
	if id, ok := f.stacks[at]; ok {
		return id, nil
	}
	raw, ok := f.rawStack(at)
	frames := r.name(f, raw)
	if !ok || len(frames) == 0 {
		return 0, nil
	}
	h := fnv.New64a()
	for _, e := range frames {
		fmt.Fprintf(h, "%s\x00%s\x00%d\x00", e.Func, e.File, e.Line)
	}
	id = int64(h.Sum64() >> 1)
	if _, known := r.stacks[id]; !known {
		if len(r.stacks) >= maxStacks {
			return 0, nil
		}
		r.stacks[id] = stack{site(frames), called(frames)}
		for depth, e := range frames {
			kind := "python"
			if e.Native {
				kind = "native"
			}
			fresh = append(fresh, model.NativeFrame{Stack: id, Depth: int32(depth), Kind: kind, Func: e.Func,
				File: e.File, Line: int32(e.Line)})
		}
	}
	f.stacks[at] = id
	return id, fresh
}

// apart stands between the C frames of a thread that runs no Python and the Python call that waits meanwhile.
const apart = "(a thread without Python)"

// name gives a stack's frames, innermost first: C's down to the interpreter's loop, then Python's.
func (r *Reader) name(f *File, s raw) (frames []Frame) {
	for _, pc := range s.pcs {
		path, addr := f.module(pc - 1) // a return address lies behind its call
		e := Frame{Func: fmt.Sprintf("%#x", pc), Native: true}
		if path != "" {
			e.Func, e.File = r.symbols.name(path, addr), path
		}
		if len(s.python) > 0 && !s.waits && interpreter(e.Func) {
			break
		}
		frames = append(frames, e)
	}
	var python []Frame
	for _, c := range s.python {
		if e := f.frame(c); e.Func != trampoline {
			python = append(python, e)
		}
	}
	if s.waits {
		frames = append(frames, Frame{Func: apart})
		if len(python) > 0 && (python[0].Line == 0 || library(python[0].File)) {
			python = nil // it waits for a lock of Python's own, which no such thread releases
		}
	}
	return append(frames, python...)
}

// trampoline is what CPython 3.12 calls an entry from C into its loop: no function of anybody's.
const trampoline = "<interpreter trampoline>"

// interpreter names the functions that run Python code: what is above them Python's own frames tell.
func interpreter(name string) bool {
	return strings.HasPrefix(name, "_PyEval_EvalFrame") || strings.HasPrefix(name, "_TAIL_CALL_") ||
		name == "_PyEval_Vector" || name == "PyEval_EvalCode"
}

// site is the innermost line of the program itself; where there is none, of any Python file; else "".
func site(frames []Frame) string {
	first := ""
	for _, f := range frames {
		if f.Native || f.Line == 0 {
			continue
		}
		if first == "" {
			first = f.Place()
		}
		if !installed(f.File) {
			return f.Place()
		}
	}
	return first
}

func installed(file string) bool {
	return library(file) || strings.Contains(file, "/site-packages/") || strings.Contains(file, "/dist-packages/") ||
		strings.Contains(file, "/memgauge/_agent/")
}

// library says that a file is of Python's own library, or none.
func library(file string) bool {
	return strings.HasPrefix(file, "<") || strings.Contains(file, "/lib/python3") &&
		!strings.Contains(file, "-packages/")
}

// plumbing are modules that allocate on behalf of others.
var plumbing = []string{"libc.so", "libc-2.", "libstdc++.so", "libjemalloc", "libtcmalloc", "libmimalloc", "libffi"}

// called names the native code that allocated: the innermost function that is not an allocator's, with its module, and
// whether that ran in a thread that a line only waits for.
func called(frames []Frame) string {
	name := caller(frames)
	if name != "" && slices.ContainsFunc(frames, func(f Frame) bool { return f.Func == apart }) && site(frames) != "" {
		name += ", in a thread that it waits for"
	}
	return name
}

// caller takes the next function of the same module that has a name, where the innermost has none: a stripped library
// names only what it exports.
func caller(frames []Frame) string {
	var nameless *Frame
	for i, f := range frames {
		if !f.Native || (nameless != nil && f.File != nameless.File) {
			break
		}
		base := filepath.Base(f.File)
		switch {
		case nameless == nil &&
			slices.ContainsFunc(plumbing, func(p string) bool { return strings.HasPrefix(base, p) }):
		case f.File == "":
			return f.Func
		case !strings.HasPrefix(f.Func, base+"+"):
			return f.Func + " (" + base + ")"
		case nameless == nil:
			nameless = &frames[i]
		}
	}
	if nameless == nil {
		return ""
	}
	return nameless.Func
}
