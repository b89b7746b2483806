package analyse

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	belowTest   = 6       // lines below a test of the length in which the container is cut
	mostSource  = 1 << 20 // bytes of a file of the program that is read, at most
	mostSources = 32      // files

	// mostLooks at a file's lines may all questions about it take, some tenths of a second: whoever writes a program
	// must not choose how long its judgement takes.
	mostLooks = 20_000_000
)

// Sources are the files of a program, each read once, and what was read of its session and will not change. While a
// session lives it is judged again and again, and the program that runs is the one that it began with. The zero value
// is ready, for one session; several goroutines may use it.
type Sources struct {
	mu       sync.Mutex
	files    map[string]*outline
	parsed   int // files, for tests
	censuses censuses
	steps    digests
	devices  digests
	hosts    moments[reading]
	cgroups  moments[cgroup]
	samples  moments[sample]
}

// of reads a file that was not changed since a time; nil where it says nothing.
func (s *Sources) of(path string, since time.Time) *outline {
	if o := s.files[path]; o != nil || len(s.files) >= mostSources {
		return o
	}
	text := readSource(path, since)
	if text == nil {
		return nil // it may be that no time is known yet
	}
	if s.files == nil {
		s.files = map[string]*outline{}
	}
	s.parsed++
	s.files[path] = parse(text)
	return s.files[path]
}

// tooMany says whether a file asked for more than may be done about it.
func (s *Sources) tooMany() bool {
	for _, o := range s.files {
		if o.looks > mostLooks {
			return true
		}
	}
	return false
}

// bounds reads what the program's lines say of the containers that censuses saw: no census sees a test of a length.
// Files that are not there, or were changed since the run began, say nothing: the session may be another machine's.
// Installed packages are not the program's.
func (l *loader) bounds() error {
	s := l.o.Sources
	if s == nil {
		s = &Sources{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.UnixMicro(int64(l.from0))
	for _, p := range l.processes {
		programs := map[string]*outline{}
		read := func(site string) {
			path, _ := placeOf(site)
			if _, known := programs[path]; known || path == "" || detect.IsForeign(site) || detect.IsInstalled(site) {
				return
			}
			programs[path] = s.of(path, since)
		}
		for _, o := range p.Objects {
			read(o.Site)
		}
		for _, t := range p.Tensors {
			read(t.Site)
		}
		p.Bounds = boundsIn(programs, p)
	}
	if s.tooMany() {
		l.warnings = append(l.warnings, fmt.Sprintf("a source of the program needs more than %s looks at its lines: "+
			"bounds of some containers are not known", units.Count(mostLooks)))
	}
	return nil
}

// boundsIn asks once about each container and line that adds to it, however many censuses saw them.
func boundsIn(programs map[string]*outline, p *detect.Process) map[string]detect.Bound {
	type question struct{ holder, site string }
	bounds, asked := map[string]detect.Bound{}, map[question]bool{}
	for _, o := range p.Objects {
		if o.Evidence != "container" && o.Evidence != detect.Count {
			continue
		}
		q := question{detect.HolderOf(o.Holder), o.Site}
		if asked[q] {
			continue
		}
		asked[q] = true
		if b := boundIn(programs, lastName(q.holder), q.site); b.Kind != detect.BoundUnknown {
			bounds[q.holder] = b
		}
	}
	for _, t := range p.Tensors { // a census that was cut short has seen these, and not what they lie in
		container, inner, ok := strings.Cut(t.Holder, "[*]")
		q := question{container, t.Site}
		if !ok || asked[q] {
			continue
		}
		asked[q] = true
		if _, known := bounds[container]; known {
			continue
		}
		if strings.Trim(inner, "[*]") != "" { // that line makes the tensor, and need not add to the container
			q.site = ""
		}
		if b := boundIn(programs, lastName(container), q.site); b.Kind != detect.BoundUnknown {
			bounds[container] = b
		}
	}
	return bounds
}

// boundIn looks in the file that adds to the container, or where that is not known in all, if they agree.
func boundIn(programs map[string]*outline, name, site string) (b detect.Bound) {
	path, line := placeOf(site)
	if b = programs[path].boundOf(name, line); b.Kind != detect.BoundUnknown {
		return b
	}
	for _, o := range programs {
		if c := o.boundOf(name, 0); c.Kind != detect.BoundUnknown {
			if b.Kind != detect.BoundUnknown && b != c {
				return detect.Bound{}
			}
			b = c
		}
	}
	return b
}

// placeOf takes file:line apart.
func placeOf(site string) (path string, line int) {
	i := strings.LastIndexByte(site, ':')
	if i < 0 || !filepath.IsAbs(site) {
		return "", 0
	}
	line, _ = strconv.Atoi(site[i+1:])
	return site[:i], line
}

// lastName is the name that a holder's path ends with, before any key.
func lastName(holder string) string {
	holder, _, _ = strings.Cut(holder, "[")
	return afterDot(holder)
}

// readSource reads a regular file of some size that was not changed since a time.
func readSource(path string, since time.Time) []string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostSource || info.ModTime().After(since) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, mostSource))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// boundOf says whether a container that goes by a name, and is added to at a line (from 1; 0: unknown), has a bound. It
// looks for each answer once. The nil outline is of a file that can't be read, and knows of no bound.
func (o *outline) boundOf(name string, line int) detect.Bound {
	if o == nil || name == "" {
		return detect.Bound{}
	}
	q := asked{name, line}
	b, known := o.answers[q]
	if !known {
		b = o.search(name, line-1)
		o.answers[q] = b
	}
	return b
}

func (o *outline) search(name string, at int) (b detect.Bound) {
	for _, look := range []func() detect.Bound{
		func() detect.Bound { return o.cache(name) },
		func() detect.Bound { return o.guard(name, at) },
		func() detect.Bound { return o.guards(name) },
		func() detect.Bound { return o.counted(name, at) },
		func() detect.Bound { return o.cut(name) },
		func() detect.Bound { return o.sliced(name) },
		func() detect.Bound { return o.addedToByGuarded(name) },
		func() detect.Bound { return o.wrapped(name) },
	} {
		if b = look(); b.Kind != detect.BoundUnknown {
			break
		}
	}
	return b
}

// bounded by a number, or by a name that is given one in the file. A sum or a product is a bound too, but nobody counts
// it out here.
func (o *outline) bounded(by string) detect.Bound {
	b := detect.Bound{Kind: detect.Bounded}
	switch {
	case numeral().MatchString(by):
		b.Items = numberOf(by)
	case plainName().MatchString(by):
		b.Items = max(0, o.numbers[afterDot(by)])
	}
	if b.Items > detect.MostItems { // that never comes true
		return detect.Bound{Kind: detect.Unbounded}
	}
	return b
}

// look counts a look at a line, and says whether there may be one more.
func (o *outline) look() bool {
	o.looks++
	return o.looks <= mostLooks
}

// cache looks for a function of that name that remembers its results.
func (o *outline) cache(name string) detect.Bound {
	switch d, found := o.caches[name]; {
	case !found:
		return detect.Bound{}
	case d.free:
		return detect.Bound{Kind: detect.Unbounded}
	case d.size == "":
		return detect.Bound{Kind: detect.Bounded, Items: cacheDefault}
	default:
		return o.bounded(d.size)
	}
}

// guard looks for a test of the length that the adding line is reached through: a block that it stands in, or a line
// above it in the same block or in one around it that leaves otherwise.
func (o *outline) guard(name string, at int) (b detect.Bound) {
	if at < 0 || at >= len(o.lines) || len(o.tests[name]) == 0 {
		return b
	}
	for i, encloses := range o.through(at) {
		if limit, op, ok := o.lines[i].test(name); ok {
			below := strings.HasPrefix(op, "<") || op == "!="
			if encloses && below || !encloses && !below && i+1 < len(o.lines) && o.lines[i+1].leaves {
				return o.bounded(limit)
			}
		}
	}
	return b
}

// through are the lines that a line is reached through, the nearest first: each with whether the line stands in its
// block, or else below it in the same block or in one around it. They end at the head of the function.
func (o *outline) through(at int) iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		within := o.lines[at].indent
		for i := at - 1; i >= 0 && within > 0 && o.look(); i-- {
			l := &o.lines[i]
			if l.indent < 0 || l.indent > within {
				continue
			}
			encloses := l.indent < within
			if l.def != "" && encloses || !yield(i, encloses) {
				return
			}
			within = min(within, l.indent)
		}
	}
}

// test says whether a line tests the length of a container, and against what.
func (l *line) test(name string) (limit, op string, ok bool) {
	for _, t := range l.tests {
		if t.name == name {
			return t.limit, t.op, true
		}
	}
	return "", "", false
}

// guards looks at all lines that add to what goes by the name: if each stands under a test of its length, there is a
// bound. The line that a census names may be the one that replaces when it is full.
func (o *outline) guards(name string) (b detect.Bound) {
	for _, i := range o.adds[name] {
		g := o.guard(name, i)
		if g.Kind != detect.Bounded || b.Kind == detect.Bounded && b != g {
			return detect.Bound{}
		}
		b = g
	}
	return b
}

// counted looks for a counter that bounds what the adding line adds: the line is reached only while the counter is
// below some limit that is not raised, and every line that raises the counter is reached in the same way. A counter
// that ends a loop bounds what one run of the loop adds: while step < steps: is the whole training, and what that keeps
// is a leak.
func (o *outline) counted(name string, at int) (b detect.Bound) {
	if at < 0 {
		if len(o.adds[name]) != 1 {
			return b
		}
		at = o.adds[name][0]
	}
	if at >= len(o.lines) {
		return b
	}
	for i, encloses := range o.through(at) {
		if o.lines[i].loops || i+1 < len(o.lines) && o.lines[i+1].breaks {
			continue
		}
		for _, t := range o.lines[i].counts {
			below := strings.HasPrefix(t.op, "<")
			leaves := !encloses && !below && i+1 < len(o.lines) && o.lines[i+1].leaves
			if (encloses && below || leaves) && o.raisedWithin(t, i, encloses) {
				return o.bounded(t.limit)
			}
		}
	}
	return b
}

// raisedWithin says whether a test's counter is raised, only in the block under the test's line, or behind it where the
// test leaves; and its limit never is.
func (o *outline) raisedWithin(t lengthTest, at int, block bool) bool {
	if len(o.raises[t.name]) == 0 || len(o.raises[afterDot(t.limit)]) > 0 {
		return false
	}
	least, end := o.lines[at].indent, at+1
	for ; end < len(o.lines) && o.look(); end++ {
		if in := o.lines[end].indent; in >= 0 && (in < least || block && in == least) {
			break
		}
	}
	for _, i := range o.raises[t.name] {
		if i <= at || i >= end {
			return false
		}
	}
	return true
}

// cut looks for a test of the length below which the container is cut, there or in a function that is called there.
func (o *outline) cut(name string) (b detect.Bound) {
	for _, i := range o.tests[name] {
		limit, op, _ := o.lines[i].test(name)
		if strings.HasPrefix(op, "<") {
			continue
		}
		for k := i + 1; k < len(o.lines) && k <= i+belowTest && o.look() && (o.lines[k].indent < 0 ||
			o.lines[k].indent > o.lines[i].indent); k++ {
			if slices.Contains(o.lines[k].cuts, name) || o.callsCut(k, name) {
				return o.bounded(limit)
			}
		}
	}
	return b
}

// callsCut says whether a line calls a function of the file that takes items out of the container.
func (o *outline) callsCut(at int, name string) bool {
	for _, called := range o.lines[at].called {
		from, found := o.defs[called]
		if !found {
			continue
		}
		within := o.lines[from].indent
		for k := from + 1; k < len(o.lines) && o.look() && (o.lines[k].indent < 0 || o.lines[k].indent > within); k++ {
			if slices.Contains(o.lines[k].cuts, name) {
				return true
			}
		}
	}
	return false
}

// sliced looks for a statement that cuts the container whatever its length is.
func (o *outline) sliced(name string) (b detect.Bound) {
	if s, found := o.slices[name]; found {
		return o.bounded(s.size)
	}
	return b
}

// addedToByGuarded looks at the functions that add to the container: if each is called only under tests of the length
// of something that it adds to as well, there is a bound, of an unknown number of items.
func (o *outline) addedToByGuarded(name string) (b detect.Bound) {
	for _, i := range o.adds[name] {
		from, to := o.function(i)
		if from < 0 || !o.callsGuarded(from, to) {
			return detect.Bound{}
		}
		b = detect.Bound{Kind: detect.Bounded}
	}
	return b
}

// callsGuarded says whether all calls of a function, given by its lines, are guarded by what it adds to.
func (o *outline) callsGuarded(from, to int) bool {
	guarded := false
	for _, i := range o.calls[o.lines[from].def] {
		if i == from {
			continue
		}
		if guarded = o.guardedBy(from, to, i); !guarded {
			return false
		}
	}
	return guarded
}

// guardedBy says whether a line is guarded by the length of something that some lines add to.
func (o *outline) guardedBy(from, to, at int) bool {
	for i := from; i < to && o.look(); i++ {
		if adds := o.lines[i].adds; adds != "" && o.guard(adds, at).Kind == detect.Bounded {
			return true
		}
	}
	return false
}

// function gives the lines of the innermost function around a line: from its def to behind its end; -1 for none.
func (o *outline) function(at int) (from, to int) {
	within := o.lines[at].indent
	for from = at - 1; from >= 0 && o.look(); from-- {
		if o.lines[from].indent < 0 || o.lines[from].indent >= within {
			continue
		}
		if within = o.lines[from].indent; o.lines[from].def != "" {
			break
		}
	}
	if from < 0 || o.lines[from].def == "" {
		return -1, 0
	}
	for to = from + 1; to < len(o.lines) && o.look() && (o.lines[to].indent < 0 || o.lines[to].indent > within); to++ {
	}
	return from, to
}

// wrapped looks at the lines that store into the container: if the key of each is one that some line takes modulo, as
// the index of a ring is, there is a bound.
func (o *outline) wrapped(name string) (b detect.Bound) {
	for _, key := range o.keys[name] {
		size := o.wraps[afterDot(key)]
		if !plainName().MatchString(key) || numeral().MatchString(key) || size == "" {
			return detect.Bound{}
		}
		b = o.bounded(size)
	}
	return b
}
