package check

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Leak is what a run has shown of a leak, as far as it says what to change in a text.
type Leak struct {
	Class  string
	Holder string // a path to what holds the memory: "main().pool.states"; "" not known
	Held   string // what that is: "list, 889 items, +1.02 per step"; "" not known
	Line   int    // of the text, which adds to it or makes it; 0: not known
	Grown  int64  // bytes
	Steps  int64
	Views  bool // parts of larger storages are kept
	Script bool // the text is the program itself: no other imports it
}

// Cure is a change of a text after which a leak should be gone.
type Cure struct {
	What  string // is done, in a few words
	Look  string // at what to look before it is made; "" where results stay the same for sure
	Line  int
	Edits []Edit
	After []byte // the text with the change made
}

// Sure reports whether results stay the same for sure.
func (c Cure) Sure() bool { return c.Look == "" }

// maxCures bounds the changes that are proposed for one leak: who has three to choose from wants no more.
const maxCures = 3

// Cures are the changes of a text that are known for a leak, the likeliest first. All parse. None where the text can't
// be read in full, and none for notebooks: their text is not the file's.
func Cures(path string, data []byte, leak Leak) ([]Cure, error) {
	src, err := newSource(path, data)
	if err != nil || src.notebook || !mayMend(data) || src.fault() != nil {
		return nil, err
	}
	f, err := newFile(src)
	if err != nil || f.broken || f.deep {
		return nil, err
	}
	c := &curing{file: f, leak: leak, names: partsOf(leak.Holder)}
	if !f.within(func() { f.read(); c.find() }) {
		return nil, nil
	}
	return c.list, nil
}

// Changed is a text with edits made, if it parses then as it did before.
func Changed(data []byte, edits []Edit) ([]byte, bool) {
	if len(edits) == 0 || !mayMend(data) || !parses(data) {
		return nil, false
	}
	after := edited(data, slices.Clone(edits))
	return after, !bytes.Equal(after, data) && parses(after)
}

// curing looks for the changes of one text.
type curing struct {
	*file
	leak  Leak
	names []string // the parts of the holder's path
	list  []Cure
}

func (c *curing) find() {
	c.ofManager()
	if c.leak.Class == "autograd_graph" {
		c.cutGraph()
		return
	}
	for _, look := range []func(){c.freeBlock, c.endCycle, c.sizeCache, c.removeHook, c.looseFinalizer, c.emptyStream,
		c.sizeQueue, c.collect, c.cutTable, c.bound} {
		if look(); len(c.list) >= maxCures {
			return
		}
	}
}

// managed is what the path of something begins with that a process of multiprocessing.Manager holds for others.
const managed = "multiprocessing.Manager()"

// ofManager names the proxies of the text where a manager's process holds the memory. What it counts there are the
// items of all lists together.
func (c *curing) ofManager() {
	if !strings.HasPrefix(c.leak.Holder, managed) {
		return
	}
	c.names = nil
	for _, kind := range []string{"list", "dict"} {
		for _, k := range c.byName[kind] {
			if name := c.boundTo(k.node); k.receiver().ok() && name != "?" && len(k.args()) == 0 {
				c.names, c.leak.Held = []string{last(name)}, kind
			}
		}
	}
}

// boundNames are all names that get a value somewhere, in their own order.
func (c *curing) boundNames() []string {
	c.spend(len(c.index.bound))
	return slices.Sorted(maps.Keys(c.index.bound))
}

// propose adds a change, if the text parses with it.
func (c *curing) propose(at node, what, look string, edits ...Edit) {
	after, ok := Changed(c.src.text, edits)
	if !ok || slices.ContainsFunc(c.list, func(k Cure) bool { return bytes.Equal(k.After, after) }) {
		return
	}
	c.list = append(c.list, Cure{What: what, Look: look, Line: c.src.line(at.start()), Edits: edits, After: after})
}

// keys are what a census's path says of an item of a dict, or of all: ['kind'], [*].
var keys = pattern.Of(`\[('[^']*'|"[^"]*"|[^\]]*)\]`)

// partsOf are the names in a census's path to what holds memory: main, pool, states of main().pool.states['new'].
func partsOf(holder string) []string {
	holder = keys().ReplaceAllString(holder, "")
	return strings.FieldsFunc(holder, func(r rune) bool { return strings.ContainsRune(".[]*'\"() ", r) })
}

// holds reports whether a name of the text is the last of the holder's path, or another part of it where the last is
// none of the text's.
func (c *curing) holds(name string) bool {
	name = last(strings.TrimRight(name, "[]()"))
	if name == "" || name == "?" || name == "self" {
		return false
	}
	for i := len(c.names) - 1; i >= 0; i-- {
		if len(c.index.uses[c.names[i]]) > 0 {
			return c.names[i] == name
		}
	}
	return false
}

// onLine reports whether a node covers the leak's line.
func (c *curing) onLine(n node) bool {
	return c.leak.Line > 0 && n.ok() && c.src.line(n.start()) <= c.leak.Line && c.src.line(n.end()) >= c.leak.Line
}

// held is the first word of what is held: list, deque, dict, lru_cache.
func (c *curing) held() string {
	kind, _, _ := strings.Cut(c.leak.Held, ",")
	return kind
}

// tenth is a tenth of what a holder had come to, to one figure: a bound that the same run would meet, where nothing
// says which it should be.
func (c *curing) tenth() int64 {
	n := c.leak.Steps
	if _, rest, ok := strings.Cut(c.leak.Held, ", "); ok {
		if digits, _, is := strings.Cut(rest, " items"); is {
			if items, err := strconv.ParseInt(strings.ReplaceAll(digits, ",", ""), 10, 64); err == nil {
				n = items
			}
		}
	}
	return roundDown(n / 10)
}

// roundDown keeps the first figure of a number, which is 1 at least.
func roundDown(n int64) int64 {
	unit := int64(1)
	for n/unit >= 10 {
		unit *= 10
	}
	return max(1, n/unit*unit)
}

// statement is the statement that a node stands in.
func (f *file) statement(n node) node {
	for n.ok() && !n.parent().is("block", "module") {
		f.spend(1)
		n = n.parent()
	}
	return n
}

// behind is an edit that puts lines behind the statement of a node, indented like it. Lines that begin with a tab lie
// one level deeper. None where the statement shares its lines with others.
func (f *file) behind(n node, lines ...string) []Edit {
	s := f.statement(n)
	if !s.ok() || s.is("if_statement", "for_statement", "while_statement", "with_statement", "try_statement",
		"function_definition", "class_definition", "decorated_definition") {
		return nil
	}
	return f.lineAfter(s, strings.Join(f.indented(s, lines), "\n"+f.src.indent(s.start())))
}

// before is an edit that puts lines before the statement of a node.
func (f *file) before(n node, lines ...string) []Edit {
	s := f.statement(n)
	indent := ""
	if s.ok() {
		indent = f.src.indent(s.start())
	}
	if !s.ok() || f.src.starts[f.src.line(s.start())-1]+len(indent) != s.start() {
		return nil
	}
	return []Edit{{s.start(), s.start(), strings.Join(f.indented(s, lines), "\n"+indent) + "\n" + indent}}
}

// indented are lines with the text's own indentation for the tabs that they begin with.
func (f *file) indented(s node, lines []string) []string {
	unit := "    "
	if strings.HasPrefix(f.src.indent(s.start()), "\t") {
		unit = "\t"
	}
	out := slices.Clone(lines)
	for i, l := range out {
		if rest, deeper := strings.CutPrefix(l, "\t"); deeper {
			out[i] = unit + rest
		}
	}
	return out
}

// importing is how a module is named in the text, with the edit that imports it where nothing does.
func (f *file) importing(module string) (name string, edits []Edit) {
	for name, full := range f.imports {
		if full == module {
			return name, nil
		}
	}
	for n := f.root().firstChild(); n.ok(); n = n.next() {
		if n.is("import_statement", "import_from_statement") {
			return module, f.before(n, "import "+module)
		}
	}
	return module, nil
}

// plainName reports whether an expression can be read twice without doing anything: names, attributes and items.
func plainName(n node) bool {
	return n.ok() && !n.any(func(at node) bool {
		return !at.is("identifier", "attribute", "subscript", "string", "integer", "unary_operator", "tuple",
			"expression_list")
	})
}
