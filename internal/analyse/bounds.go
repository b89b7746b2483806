package analyse

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/units"
)

// The program's own lines say whether a container has a bound: no census sees a test of a length. Python is read line
// by line, by its indentation; what is written otherwise than people usually do is not understood, and says nothing.

var (
	cacheLine    = regexp.MustCompile(`^\s*@(?:functools\.)?(lru_cache|cache)\b(.*)`)
	cacheSize    = regexp.MustCompile(`\bmaxsize\s*=\s*([\w.]+)|^\(\s*([\w.]+)\s*[,)]`)
	defLine      = regexp.MustCompile(`^\s*(?:async\s+)?def\s+(\w+)`)
	testLine     = regexp.MustCompile(`^\s*(?:if|elif|while)\b(.*)`)
	lengthOf     = regexp.MustCompile(`\blen\(\s*([\w.\[\]'"]+)\s*\)\s*(<=|<|>=|>|==|!=)\s*([\w.]+)`)
	leaves       = regexp.MustCompile(`^\s*(?:return|continue|break|raise)\b`)
	endOfOperand = regexp.MustCompile(`\s(?:and|or|if|else)\b|:|#`)
	addLine      = regexp.MustCompile(`\b(\w+)\.(?:append|appendleft|add|insert|extend)\(`)
	plainName    = regexp.MustCompile(`^[\w.]+$`)
	numeral      = regexp.MustCompile(`^[\d_]+$`)
)

const (
	cacheDefault = 128 // functools.lru_cache's maxsize, where none is given
	belowTest    = 6   // lines below a test of the length in which the container is cut
)

// source is the text of a file of the program, in lines, and what may still be read of all files together.
type source struct {
	lines []string
	left  *int // bytes
}

const (
	// Every container asks for some passes over the files. A hundred of them in a file of 100 KiB, a large training,
	// take 100 MB, two seconds; whoever writes a program must not choose how long its judgement takes.
	mostRead = 512 << 20
	lineCost = 32 // what a look at an empty line counts for, in bytes
)

// readEnough is the panic that leaves the reading of sources when mostRead is used up.
type readEnough struct{}

// read counts a look at a line.
func (s source) read(text string) string {
	if *s.left -= len(text) + lineCost; *s.left < 0 {
		panic(readEnough{})
	}
	return text
}

func (s source) at(i int) string { return s.read(s.lines[i]) }

// from are the lines from one on, up to one before to.
func (s source) from(i, to int) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for ; i < to && yield(i, s.at(i)); i++ {
		}
	}
}

func (s source) all() iter.Seq2[int, string] { return s.from(0, len(s.lines)) }

// boundOf says whether a container that goes by a name, and is added to at a line (0: unknown), has a bound.
func (s source) boundOf(name string, line int) (b detect.Bound) {
	if name == "" {
		return b
	}
	if b = s.cache(name); b.Kind != detect.BoundUnknown {
		return b
	}
	if b = s.guard(name, line); b.Kind != detect.BoundUnknown {
		return b
	}
	if b = s.guards(name); b.Kind != detect.BoundUnknown {
		return b
	}
	if b = s.cut(name); b.Kind != detect.BoundUnknown {
		return b
	}
	if b = s.slices(name); b.Kind != detect.BoundUnknown {
		return b
	}
	if b = s.called(name); b.Kind != detect.BoundUnknown {
		return b
	}
	return s.wraps(name)
}

// called looks at the functions that add to the container: if each is called only under tests of the length of
// something that it adds to as well, there is a bound, of an unknown number of items.
func (s source) called(name string) (b detect.Bound) {
	adds := addsTo(name)
	for i, text := range s.all() {
		if !adds.MatchString(text) {
			continue
		}
		from, to := s.function(i)
		if from < 0 || !s.callsGuarded(from, to) {
			return detect.Bound{}
		}
		b = detect.Bound{Kind: detect.Bounded}
	}
	return b
}

// callsGuarded says whether all calls of a function, given by its lines, are guarded by what it adds to.
func (s source) callsGuarded(from, to int) bool {
	call := regexp.MustCompile(`\b` + defLine.FindStringSubmatch(s.at(from))[1] + `\(`)
	guarded := false
	for i, text := range s.all() {
		if i == from || !call.MatchString(text) {
			continue
		}
		if guarded = s.guardedBy(from, to, i+1); !guarded {
			return false
		}
	}
	return guarded
}

// guardedBy says whether a line is guarded by the length of something that some lines add to.
func (s source) guardedBy(from, to, line int) bool {
	for _, text := range s.from(from, to) {
		if m := addLine.FindStringSubmatch(text); m != nil && s.guard(m[1], line).Kind == detect.Bounded {
			return true
		}
	}
	return false
}

// function gives the lines of the innermost function around a line: from its def to behind its end; -1 for none.
func (s source) function(line int) (from, to int) {
	within := indent(s.at(line))
	for from = line - 1; from >= 0; from-- {
		if strings.TrimSpace(s.at(from)) == "" || indent(s.at(from)) >= within {
			continue
		}
		if within = indent(s.at(from)); defLine.MatchString(s.at(from)) {
			break
		}
	}
	if from < 0 {
		return -1, 0
	}
	for to = from + 1; to < len(s.lines) && (strings.TrimSpace(s.at(to)) == "" || indent(s.at(to)) > within); to++ {
	}
	return from, to
}

// addsTo matches the lines that add to what goes by a name. An optimizer has a method of its own for its groups.
func addsTo(name string) *regexp.Regexp {
	x := `\b` + regexp.QuoteMeta(name)
	forms := x + `\.(?:append|appendleft|add|insert|extend|setdefault|update)\(|` + x + `\s*\+=`
	if name == "param_groups" {
		forms += `|\.add_param_group\(`
	}
	return regexp.MustCompile(forms)
}

// guards looks at all lines that add to what goes by the name: if each stands under a test of its length, there is a
// bound. The line that a census names may be the one that replaces when it is full.
func (s source) guards(name string) (b detect.Bound) {
	adds := addsTo(name)
	for i, text := range s.all() {
		if !adds.MatchString(text) {
			continue
		}
		g := s.guard(name, i+1)
		if g.Kind != detect.Bounded || b.Kind == detect.Bounded && b != g {
			return detect.Bound{}
		}
		b = g
	}
	return b
}

// cache looks for a function of that name that remembers its results.
func (s source) cache(name string) (b detect.Bound) {
	for i, text := range s.all() {
		if m := defLine.FindStringSubmatch(text); m == nil || m[1] != name {
			continue
		}
		for k := i - 1; k >= 0 && strings.HasPrefix(strings.TrimSpace(s.at(k)), "@"); k-- {
			m := cacheLine.FindStringSubmatch(s.at(k))
			if m == nil {
				continue
			}
			size := cacheSize.FindStringSubmatch(m[2])
			switch {
			case m[1] == "cache" || size != nil && size[1]+size[2] == "None":
				return detect.Bound{Kind: detect.Unbounded}
			case size == nil:
				return detect.Bound{Kind: detect.Bounded, Items: cacheDefault}
			}
			return detect.Bound{Kind: detect.Bounded, Items: s.value(size[1] + size[2])}
		}
	}
	return b
}

// guard looks for a test of the length that the adding line is reached through: a block that it stands in, or a line
// above it in the same block or in one around it that leaves otherwise.
func (s source) guard(name string, line int) (b detect.Bound) {
	if line < 1 || line > len(s.lines) {
		return b
	}
	within := indent(s.at(line - 1))
	for i := line - 2; i >= 0 && within > 0; i-- {
		if strings.TrimSpace(s.at(i)) == "" || indent(s.at(i)) > within {
			continue
		}
		encloses := indent(s.at(i)) < within
		if defLine.MatchString(s.at(i)) && encloses {
			return b
		}
		if items, op, ok := s.test(i, name); ok {
			below := strings.HasPrefix(op, "<") || op == "!="
			if encloses && below || !encloses && !below && i+1 < len(s.lines) && leaves.MatchString(s.at(i+1)) {
				return detect.Bound{Kind: detect.Bounded, Items: items}
			}
		}
		within = min(within, indent(s.at(i)))
	}
	return b
}

// cut looks for a test of the length below which the container is cut.
func (s source) cut(name string) (b detect.Bound) {
	x := `\b` + regexp.QuoteMeta(name)
	cuts := regexp.MustCompile(`\bdel\s+[\w.]*` + x + `\[|` + x + `\.(?:pop|popleft|popitem|clear|remove)\(|` +
		x + `(?:\[:\])?\s*=\s*(?:[\w.]*` + x + `\[|list\(|\[|\{)`)
	for i := range s.all() {
		items, op, ok := s.test(i, name)
		if !ok || strings.HasPrefix(op, "<") {
			continue
		}
		for k := i + 1; k < len(s.lines) && k <= i+belowTest && (strings.TrimSpace(s.at(k)) == "" ||
			indent(s.at(k)) > indent(s.at(i))); k++ {
			if cuts.MatchString(s.at(k)) {
				return detect.Bound{Kind: detect.Bounded, Items: items}
			}
		}
	}
	return b
}

// sliced are the statements that cut a container to so many items whatever its length is: NAME stands for it.
var sliced = []string{
	`()\bdel\s+()[\w.]*\bNAME\[\s*([\w.]+)\s*:\s*\]`,
	`()\bdel\s+()[\w.]*\bNAME\[\s*:\s*-([\w.]+)\s*\]`,
	`([\w.]*)\bNAME(?:\[:\])?\s*=\s*([\w.]*)\bNAME\[\s*-([\w.]+)\s*:\s*\]`,
	`([\w.]*)\bNAME(?:\[:\])?\s*=\s*([\w.]*)\bNAME\[\s*:\s*([\w.]+)\s*\]`,
}

// slices looks for such a statement. Of a slice it must be given to the container that it is of: rows = self.rows[-9:]
// cuts nothing.
func (s source) slices(name string) (b detect.Bound) {
	for _, form := range sliced {
		cuts := regexp.MustCompile(strings.ReplaceAll(form, "NAME", regexp.QuoteMeta(name)))
		for _, text := range s.all() {
			if m := cuts.FindStringSubmatch(text); m != nil && m[1] == m[2] {
				return detect.Bound{Kind: detect.Bounded, Items: s.value(m[3])}
			}
		}
	}
	return b
}

// wraps looks at the lines that store into the container: if the key of each is one that some line takes modulo, as the
// index of a ring is, there is a bound.
func (s source) wraps(name string) (b detect.Bound) {
	stores := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\[([^\]]*)\]\s*=[^=]`)
	for _, text := range s.all() {
		m := stores.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if !plainName.MatchString(m[1]) || numeral.MatchString(m[1]) {
			return detect.Bound{}
		}
		key := regexp.QuoteMeta(m[1][strings.LastIndexByte(m[1], '.')+1:])
		wrapped := regexp.MustCompile(`\b` + key + `\s*=.*%\s*([\w.]+)\s*(?:#.*)?$`)
		wraps := []string(nil)
		for _, text := range s.all() {
			if wraps = wrapped.FindStringSubmatch(text); wraps != nil {
				break
			}
		}
		if wraps == nil {
			return detect.Bound{}
		}
		b = detect.Bound{Kind: detect.Bounded, Items: s.value(wraps[1])}
	}
	return b
}

// test says whether a line tests the length of a container, and against what.
func (s source) test(i int, name string) (items float64, op string, ok bool) {
	m := testLine.FindStringSubmatch(s.at(i))
	if m == nil {
		return 0, "", false
	}
	for _, at := range lengthOf.FindAllStringSubmatchIndex(m[1], -1) {
		of, limit := m[1][at[2]:at[3]], operand(m[1][at[6]:])
		if of[strings.LastIndexByte(of, '.')+1:] != name || strings.Contains(limit, "(") {
			continue // of another, or against what may grow itself: the time, say
		}
		return s.value(limit), m[1][at[4]:at[5]], true
	}
	return 0, "", false
}

// operand is what a length is compared with, from its beginning on: up to the next word or sign of the test.
func operand(text string) string {
	if end := endOfOperand.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return strings.TrimRight(strings.TrimSpace(text), ")")
}

// value of a number, or of a name that is given one in the file; 0 unknown.
func (s source) value(word string) float64 {
	if numeral.MatchString(word) {
		n, _ := strconv.ParseFloat(strings.ReplaceAll(word, "_", ""), 64)
		return n
	}
	if !plainName.MatchString(word) {
		return 0 // a sum or a product: a bound, but nobody counts it out here
	}
	name := regexp.QuoteMeta(word[strings.LastIndexByte(word, '.')+1:])
	given := regexp.MustCompile(`\b` + name + `(?:\s*:\s*int)?\s*=\s*([\d_]+)\b`)
	value := 0.0
	for _, text := range s.all() {
		if m := given.FindStringSubmatch(text); m != nil {
			n, _ := strconv.ParseFloat(strings.ReplaceAll(m[1], "_", ""), 64)
			if value != 0 && value != n { // it has several
				return 0
			}
			value = n
		}
	}
	return value
}

func indent(text string) int { return len(text) - len(strings.TrimLeft(text, " \t")) }

const (
	mostSource  = 1 << 20 // bytes of a file of the program that is read, at most
	mostSources = 32      // files
)

// bounds reads what the program's lines say of the containers that censuses saw. Files that are not there, or were
// changed since the run began, say nothing: the session may be another machine's.
func (l *loader) bounds() error {
	l.untilEnough(l.findBounds)
	return nil
}

// untilEnough reads sources, and says where it had to stop.
func (l *loader) untilEnough(read func()) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case readEnough{}:
			l.warnings = append(l.warnings, fmt.Sprintf("the program's sources need more than %s of reading: bounds "+
				"of some containers are not known", units.Bytes(mostRead)))
		default:
			panic(r)
		}
	}()
	read()
}

func (l *loader) findBounds() {
	files, left := map[string]source{}, mostRead
	read := func(path string) source {
		s, known := files[path]
		if !known && len(files) < mostSources {
			s = source{readSource(path, time.UnixMicro(int64(l.from0))), &left}
			files[path] = s
		}
		return s
	}
	for _, p := range l.processes {
		programs := map[string]source{}
		for _, o := range p.Objects {
			if path, _ := placeOf(o.Site); path != "" && !detect.IsForeign(o.Site) {
				programs[path] = read(path)
			}
		}
		for _, t := range p.Tensors {
			if path, _ := placeOf(t.Site); path != "" && !detect.IsForeign(t.Site) {
				programs[path] = read(path)
			}
		}
		p.Bounds = map[string]detect.Bound{}
		for _, o := range p.Objects {
			if o.Evidence != "container" && o.Evidence != detect.Count {
				continue
			}
			holder := detect.HolderOf(o.Holder)
			if b := boundIn(programs, lastName(holder), o.Site); b.Kind != detect.BoundUnknown {
				p.Bounds[holder] = b
			}
		}
	}
}

// boundIn looks in the file that adds to the container, or where that is not known in all, if they agree.
func boundIn(programs map[string]source, name, site string) (b detect.Bound) {
	if path, line := placeOf(site); len(programs[path].lines) > 0 {
		if b = programs[path].boundOf(name, line); b.Kind != detect.BoundUnknown {
			return b
		}
	}
	for _, s := range programs {
		if c := s.boundOf(name, 0); c.Kind != detect.BoundUnknown {
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
	return holder[strings.LastIndexByte(holder, '.')+1:]
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
