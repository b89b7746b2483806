package analyse

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Python is read line by line, by its indentation; what is written otherwise than people usually do is not understood,
// and says nothing. A pattern finds the statements about all names at once, so a file is read once, however many
// containers are asked about.
var (
	cacheLine    = pattern.Of(`^\s*@(?:functools\.)?(lru_cache|cache)\b(.*)`)
	cacheSize    = pattern.Of(`\bmaxsize\s*=\s*([\w.]+)|^\(\s*([\w.]+)\s*[,)]`)
	defLine      = pattern.Of(`^\s*(?:async\s+)?def\s+(\w+)`)
	testLine     = pattern.Of(`^\s*(?:if|elif|while)\b(.*)`)
	lengthOf     = pattern.Of(`\blen\(\s*([\w.\[\]'"]+)\s*\)\s*(<=|<|>=|>|==|!=)\s*([\w.]+)`)
	leaves       = pattern.Of(`^\s*(?:return|continue|break|raise)\b`)
	endOfOperand = pattern.Of(`\s(?:and|or|if|else)\b|:|#`)
	addCall      = pattern.Of(`\b(\w+)\.(?:append|appendleft|add|insert|extend)\(`)
	addItems     = pattern.Of(`\b(\w+)\.(?:append|appendleft|add|insert|extend|setdefault|update)\(|` +
		`\b(\w+)\s*\+=`)
	calls     = pattern.Of(`\b(\w+)\(`)
	cutDel    = pattern.Of(`\bdel\s+[\w.]*\b(\w+)\[`)
	cutCall   = pattern.Of(`\b(\w+)\.(?:pop|popleft|popitem|clear|remove)\(`)
	cutAssign = pattern.Of(`\b(\w+)(?:\[:\])?\s*=\s*(?:[\w.]*\b(\w+)\[|list\(|\[|\{)`)
	itemStore = pattern.Of(`\b(\w+)\[([^\]]*)\]\s*=[^=]`)
	modulo    = pattern.Of(`%\s*([\w.]+)\s*(?:#.*)?$`)
	assigned  = pattern.Of(`\b(\w+)\s*=`)
	given     = pattern.Of(`\b(\w+)(?:\s*:\s*int)?\s*=\s*(` + numberText + `)`)
	raised    = pattern.Of(`\b(\w+)\s*(?:\*|<<|\+)=`)
	compared  = pattern.Of(`(?:^|\s|\()([A-Za-z_][\w.]*)\s*(<=|<|>=|>|==)\s*([\w.]+)`)
	plainName = pattern.Of(`^[\w.]+$`)
	numeral   = pattern.Of(`^` + numberText + `$`)
	operator  = pattern.Of(`\*\*|<<|\*`)

	// sliced are the statements that cut a container to so many items whatever its length is. A slice must be given to
	// the container that it is of: rows = self.rows[-9:] cuts nothing.
	sliced = []func() *regexp.Regexp{
		pattern.Of(`()()\bdel\s+()[\w.]*\b(\w+)\[\s*([\w.]+)\s*:\s*\]`),
		pattern.Of(`()()\bdel\s+()[\w.]*\b(\w+)\[\s*:\s*-([\w.]+)\s*\]`),
		pattern.Of(`([\w.]*)\b(\w+)(?:\[:\])?\s*=\s*([\w.]*)\b(\w+)\[\s*-([\w.]+)\s*:\s*\]`),
		pattern.Of(`([\w.]*)\b(\w+)(?:\[:\])?\s*=\s*([\w.]*)\b(\w+)\[\s*:\s*([\w.]+)\s*\]`),
	}
)

// numberText is a number as people write large ones: 5_000, 1e15, 10**15, 1 << 40, 64 * 1024.
const numberText = `\d[\w.]*(?:\s*(?:\*\*|<<|\*)\s*\d[\w.]*)*`

const (
	cacheDefault = 128 // functools.lru_cache's maxsize, where none is given
	several      = -1  // of numbers that a name is given
)

// outline is what a file of the program says about containers. Lines count from 0. A name is what stands behind the
// last dot.
type outline struct {
	lines   []line
	adds    map[string][]int     // lines that add to a name
	calls   map[string][]int     // lines that call a function
	tests   map[string][]int     // lines that test the length of a name
	keys    map[string][]string  // NAME[key] = …
	wraps   map[string]string    // by what a name is taken modulo
	caches  map[string]decorator // functions that remember their results
	slices  map[string]slice     // statements that cut a container whatever its length is
	numbers map[string]float64   // what a name is given
	raises  map[string][]int     // lines that raise a name: a counter, or a capacity that is doubled
	defs    map[string]int       // where a function begins, the last of its name

	answers map[asked]detect.Bound
	looks   int // at lines, of all questions
}

// line is what a line says of itself.
type line struct {
	indent int    // -1: it is empty
	def    string // the function that begins here
	leaves bool
	breaks bool   // it leaves the loop
	loops  bool   // it is the head of a loop that a condition ends
	adds   string // what a call adds to, the first one
	tests  []lengthTest
	counts []lengthTest // tests of what is no length: a counter, perhaps
	cuts   []string     // what it takes items out of, or makes anew
	called []string     // functions
}

// asked is a question: what bounds a name that a line, from 1, adds to.
type asked struct {
	name string
	line int
}

type lengthTest struct{ name, op, limit string }

// slice is the statement that counts: of several forms the first, of several lines too.
type slice struct {
	form int
	size string
}

// decorator is what one says of a function's cache.
type decorator struct {
	free bool
	size string // "": cacheDefault
}

// parse reads a file's lines.
func parse(text []string) *outline {
	o := &outline{lines: make([]line, len(text)), adds: map[string][]int{}, calls: map[string][]int{},
		tests: map[string][]int{}, keys: map[string][]string{}, wraps: map[string]string{},
		caches: map[string]decorator{}, slices: map[string]slice{}, numbers: map[string]float64{},
		raises: map[string][]int{}, defs: map[string]int{}, answers: map[asked]detect.Bound{}}
	for i, s := range text {
		o.lines[i].indent = -1
		bare := strings.TrimLeft(s, " \t")
		if strings.TrimSpace(bare) == "" {
			continue
		}
		o.lines[i].indent = len(s) - len(bare)
		o.lines[i].leaves = leaves().MatchString(s)
		o.lines[i].breaks, o.lines[i].loops = strings.HasPrefix(bare, "break"), strings.HasPrefix(bare, "while")
		if m := defLine().FindStringSubmatch(s); m != nil {
			o.lines[i].def, o.defs[m[1]] = m[1], i
			o.cached(m[1], text[:i])
		}
		if strings.Contains(s, "(") {
			o.callsIn(i, s)
		}
		if strings.Contains(s, ".") || strings.Contains(s, "+=") {
			for _, m := range addItems().FindAllStringSubmatch(s, -1) {
				note(o.adds, m[1]+m[2], i)
			}
		}
		if strings.Contains(s, "=") {
			o.assignments(i, s)
		}
		if test := testLine().FindStringSubmatch(s); test != nil {
			o.countsIn(i, test[1])
		}
		if strings.Contains(s, "[") {
			o.brackets(i, s)
		}
	}
	return o
}

// callsIn reads what a line calls.
func (o *outline) callsIn(i int, s string) {
	for _, m := range calls().FindAllStringSubmatch(s, -1) {
		note(o.calls, m[1], i)
		o.lines[i].called = append(o.lines[i].called, m[1])
	}
	if m := addCall().FindStringSubmatch(s); m != nil {
		o.lines[i].adds = m[1]
	}
	for _, m := range cutCall().FindAllStringSubmatch(s, -1) {
		o.lines[i].cuts = append(o.lines[i].cuts, m[1])
	}
	if strings.Contains(s, ".add_param_group(") { // an optimizer's own method for its groups
		note(o.adds, "param_groups", i)
	}
	if test := testLine().FindStringSubmatch(s); test != nil && strings.Contains(s, "len(") {
		o.testsIn(i, test[1])
	}
}

// testsIn reads what lengths a condition tests.
func (o *outline) testsIn(i int, condition string) {
	for _, at := range lengthOf().FindAllStringSubmatchIndex(condition, -1) {
		of, limit := condition[at[2]:at[3]], operand(condition[at[6]:])
		if strings.Contains(limit, "(") {
			continue // against what may grow itself: the time, say
		}
		name := afterDot(of)
		o.lines[i].tests = append(o.lines[i].tests, lengthTest{name, condition[at[4]:at[5]], limit})
		note(o.tests, name, i)
	}
}

// countsIn reads what a condition compares that is no length, either side first.
func (o *outline) countsIn(i int, condition string) {
	turned := map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
	for _, at := range compared().FindAllStringSubmatchIndex(condition, -1) {
		of, op, limit := condition[at[2]:at[3]], condition[at[4]:at[5]], operand(condition[at[6]:])
		if strings.Contains(limit, "(") {
			continue // it may grow itself
		}
		o.lines[i].counts = append(o.lines[i].counts, lengthTest{afterDot(of), op, limit})
		if plainName().MatchString(limit) && !numeral().MatchString(limit) {
			o.lines[i].counts = append(o.lines[i].counts, lengthTest{afterDot(limit), turned[op], of})
		}
	}
}

// assignments reads what a line gives to what.
func (o *outline) assignments(i int, s string) {
	for _, m := range cutAssign().FindAllStringSubmatch(s, -1) {
		if m[2] == "" || m[2] == m[1] {
			o.lines[i].cuts = append(o.lines[i].cuts, m[1])
		}
	}
	for _, m := range raised().FindAllStringSubmatch(s, -1) {
		note(o.raises, m[1], i)
	}
	for _, m := range given().FindAllStringSubmatch(s, -1) {
		n := numberOf(m[2])
		if old := o.numbers[m[1]]; old != 0 && old != n {
			n = several
		}
		o.numbers[m[1]] = n
	}
	if !strings.Contains(s, "%") {
		return
	}
	if m := modulo().FindStringSubmatchIndex(s); m != nil {
		for _, to := range assigned().FindAllStringSubmatch(s[:m[0]], -1) {
			if o.wraps[to[1]] == "" {
				o.wraps[to[1]] = s[m[2]:m[3]]
			}
		}
	}
}

// brackets reads what a line cuts or stores into.
func (o *outline) brackets(i int, s string) {
	for _, m := range cutDel().FindAllStringSubmatch(s, -1) {
		o.lines[i].cuts = append(o.lines[i].cuts, m[1])
	}
	for _, m := range itemStore().FindAllStringSubmatch(s, -1) {
		o.keys[m[1]] = append(o.keys[m[1]], m[2])
	}
	if !strings.Contains(s, ":") {
		return
	}
	for form, cuts := range sliced {
		m := cuts().FindStringSubmatch(s)
		if m == nil || m[1] != m[3] || m[2] != "" && m[2] != m[4] {
			continue
		}
		if old, known := o.slices[m[4]]; !known || form < old.form {
			o.slices[m[4]] = slice{form, m[5]}
		}
	}
}

// cached looks above a function for a decorator that has it remember its results.
func (o *outline) cached(name string, above []string) {
	if _, known := o.caches[name]; known {
		return
	}
	for k := len(above) - 1; k >= 0 && strings.HasPrefix(strings.TrimSpace(above[k]), "@"); k-- {
		m := cacheLine().FindStringSubmatch(above[k])
		if m == nil {
			continue
		}
		size := ""
		if of := cacheSize().FindStringSubmatch(m[2]); of != nil {
			size = of[1] + of[2]
		}
		o.caches[name] = decorator{m[1] == "cache" || size == "None", size}
		return
	}
}

func note(lines map[string][]int, name string, i int) {
	if n := len(lines[name]); n == 0 || lines[name][n-1] != i {
		lines[name] = append(lines[name], i)
	}
}

// operand is what a length is compared with, from its beginning on: up to the next word or sign of the test.
func operand(text string) string {
	if end := endOfOperand().FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return strings.TrimRight(strings.TrimSpace(text), ")")
}

func afterDot(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// numberOf is what a number comes to; 0 where it is none.
func numberOf(text string) float64 {
	at := operator().FindStringIndex(text)
	if at == nil {
		n, _ := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 64)
		return n
	}
	first, rest := numberOf(text[:at[0]]), numberOf(text[at[1]:])
	switch text[at[0]:at[1]] {
	case "**":
		return math.Pow(first, rest)
	case "<<":
		return first * math.Exp2(rest)
	}
	return first * rest
}
