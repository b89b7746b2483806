package check

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"

	sitter "github.com/tree-sitter/go-tree-sitter"
	python "github.com/tree-sitter/tree-sitter-python/bindings/go"

	"github.com/memgauge/memgauge/internal/base/units"
)

// cell is a node of the syntax tree. The tree is copied out of C once, named nodes only: rules look at a node many
// times, and each look into C would cost more than the whole visit here.
type cell struct {
	kind, field        uint16
	start, end         uint32
	parent, next, last int32 // -1: none; last is the last child
	first              int32
}

// tree is the syntax tree of one text.
type tree struct {
	g      *language
	src    string
	cells  []cell
	broken bool
	deep   bool // something lies below maxDepth and is not in cells
	left   int  // the steps that may still be made
	known  map[match]bool
	words  map[string]bool // what mentions has found
}

// match asks whether a text matches an expression.
type match struct {
	re   *regexp.Regexp
	text string
}

// expression is a pattern.Of.
type expression func() *regexp.Regexp

// node is a place in a tree; the zero value is no node, and everything asked of it answers "nothing".
type node struct {
	t *tree
	i int32
}

// language has tables of the grammar's properties that every node needs.
type language struct {
	language *sitter.Language
	named    []bool
	leaf     []bool // has no children, or none that matter: a string's plain text
	kinds    []string
	fields   map[string]uint16
}

var grammar = sync.OnceValue(func() *language {
	g := &language{fields: map[string]uint16{}}
	g.language = sitter.NewLanguage(python.Language())
	plain := set("string_start", "string_content", "string_end", "escape_sequence", "escape_interpolation")
	leaves := set("identifier", "integer", "float", "true", "false", "none", "comment", "pass_statement",
		"break_statement", "continue_statement")
	for id := range g.language.NodeKindCount() {
		kind := g.language.NodeKindForId(uint16(id))
		g.named = append(g.named, !plain[kind] && g.language.NodeKindIsNamed(uint16(id)) &&
			g.language.NodeKindIsVisible(uint16(id)))
		g.kinds = append(g.kinds, kind)
		g.leaf = append(g.leaf, !g.language.NodeKindIsNamed(uint16(id)) || leaves[kind] || plain[kind])
	}
	for id := uint32(1); id <= g.language.FieldCount(); id++ {
		g.fields[g.language.FieldNameForId(uint16(id))] = uint16(id)
	}
	return g
})

const (
	maxFile   = 64 << 20 // bytes of a file; outputs are the larger part of a notebook
	maxSource = 4 << 20  // bytes: the tree of as much takes up to 1.4 GB, and no source that people wrote is larger
	maxCells  = 8 << 20  // nodes: two a byte would be a grammar gone mad
	// levels, a hundred times what people write: what lies below is not read, so recursion may follow
	maxDepth = 1000
)

// tooLarge says how large what is read may be.
func tooLarge(most int64) error { return fmt.Errorf("more than %s", units.Bytes(most)) }

// parse makes the tree of a text. Broken text gives a tree with errors in it, never none.
func parse(src []byte) (*tree, error) { return parseWithin(src, newParserWork(src)) }

func parseWithin(src []byte, w *parserWork) (*tree, error) {
	if len(src) > maxSource {
		return nil, tooLarge(maxSource)
	}
	g := grammar()
	p := sitter.NewParser()
	defer p.Close()
	if err := p.SetLanguage(g.language); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // whose time is taken
	defer runtime.UnlockOSThread()
	w.start()
	parsed := p.ParseWithOptions(w.read, nil, &sitter.ParseOptions{ProgressCallback: w.tooMuch})
	w.src = nil // the binding never lets go of the options
	if parsed != nil {
		defer parsed.Close()
	}
	if parsed == nil || w.reads < 0 { // or the end of the text that the parser saw was not its end
		return nil, errHard
	}
	root := parsed.RootNode()
	t := &tree{g: g, src: string(src), cells: make([]cell, 0, len(src)/4+16), broken: root.HasError(),
		left: stepsFor(len(src)), known: map[match]bool{}, words: map[string]bool{}}
	c := root.Walk()
	defer c.Close()
	t.copy(c)
	return t, nil
}

// copy walks the tree in C once, without recursion: nesting is the text's business, the stack ours.
func (t *tree) copy(c *sitter.TreeCursor) {
	g, parents := t.g, []int32{-1}
	for {
		at := c.Node()
		id := at.KindId()
		mine := parents[len(parents)-1]
		if int(id) >= len(g.named) || g.named[id] {
			if len(t.cells) >= maxCells {
				return
			}
			start, end := at.ByteRange()
			mine = t.add(cell{kind: id, field: c.FieldId(), start: uint32(start), end: uint32(end),
				parent: mine, next: -1, first: -1, last: -1})
		}
		leaf := int(id) < len(g.leaf) && g.leaf[id]
		if !leaf && len(parents) < maxDepth && c.GotoFirstChild() {
			parents = append(parents, mine)
			continue
		}
		t.deep = t.deep || !leaf && len(parents) == maxDepth
		for !c.GotoNextSibling() {
			if !c.GotoParent() {
				return
			}
			parents = parents[:len(parents)-1]
		}
	}
}

func (t *tree) add(c cell) int32 {
	i := int32(len(t.cells))
	t.cells = append(t.cells, c)
	if c.parent >= 0 {
		p := &t.cells[c.parent]
		if p.last >= 0 {
			t.cells[p.last].next = i
		} else {
			p.first = i
		}
		p.last = i
	}
	return i
}

func (t *tree) root() node { return t.at(0) }

func (t *tree) at(i int32) node {
	if i < 0 || int(i) >= len(t.cells) {
		return node{}
	}
	return node{t, i}
}

func (n node) ok() bool { return n.t != nil }

func (n node) cell() *cell { return &n.t.cells[n.i] }

func (n node) kind() string {
	if !n.ok() {
		return ""
	}
	if k := n.cell().kind; int(k) < len(n.t.g.kinds) {
		return n.t.g.kinds[k]
	}
	return "ERROR"
}

// is reports whether the node is of one of these kinds.
func (n node) is(kinds ...string) bool {
	k := n.kind()
	for _, want := range kinds {
		if k == want {
			return n.ok()
		}
	}
	return false
}

func (n node) text() string {
	if !n.ok() {
		return ""
	}
	text := n.t.src[n.cell().start:n.cell().end]
	n.t.spend(1 + len(text)/bytesAStep)
	return text
}

// span is the text from one byte to another.
func (t *tree) span(from, to int) string {
	text := t.src[from:to]
	t.spend(1 + len(text)/bytesAStep)
	return text
}

// mentions reports whether a rule's word stands anywhere in the text, which is looked through once for it: rules ask
// that again at each place.
func (t *tree) mentions(word string) bool {
	t.spend(1)
	is, known := t.words[word]
	if !known {
		t.spend(len(t.src) / bytesAStep)
		is = strings.Contains(t.src, word)
		t.words[word] = is
	}
	return is
}

// joined is names as one text.
func (t *tree) joined(names []string) string {
	text := strings.Join(names, " ")
	t.spend(1 + len(text)/bytesAStep)
	return text
}

// fits reports whether a text matches an expression. That takes far longer than a look at the text, so it is counted
// for what it is, and the answer is kept: the same names come again and again.
func (t *tree) fits(e expression, text string) bool {
	t.spend(1 + len(text)/bytesAStep)
	m := match{e(), text}
	is, known := t.known[m]
	if !known {
		t.spend(stepsAMatch + stepsAMatchedByte*len(text))
		is = m.re.MatchString(text)
		if len(t.known) < maxMatches {
			t.known[m] = is
		}
	}
	return is
}

func (n node) start() int { return int(n.cell().start) }
func (n node) end() int   { return int(n.cell().end) }

func (n node) parent() node {
	if !n.ok() {
		return n
	}
	return n.t.at(n.cell().parent)
}

func (n node) next() node {
	if !n.ok() {
		return n
	}
	return n.t.at(n.cell().next)
}

func (n node) firstChild() node {
	if !n.ok() {
		return n
	}
	return n.t.at(n.cell().first)
}

func (n node) lastChild() node {
	if !n.ok() {
		return n
	}
	return n.t.at(n.cell().last)
}

// children are the node's own, comments left out.
func (n node) children() (list []node) {
	for c := n.firstChild(); c.ok(); c = c.next() {
		n.t.spend(1)
		if c.kind() != "comment" {
			list = append(list, c)
		}
	}
	return list
}

// child is the first child, comments left out.
func (n node) child() node {
	for c := n.firstChild(); c.ok(); c = c.next() {
		n.t.spend(1)
		if c.kind() != "comment" {
			return c
		}
	}
	return node{}
}

// field is the child with that role.
func (n node) field(name string) node {
	if !n.ok() {
		return n
	}
	id := n.t.g.fields[name]
	for c := n.firstChild(); c.ok(); c = c.next() {
		n.t.spend(1)
		if c.cell().field == id && id != 0 {
			return c
		}
	}
	return node{}
}

// all visits the node and everything below it, in the order of the text; where enter says false it goes no deeper.
func (n node) all(enter func(node) bool) {
	if !n.ok() {
		return
	}
	stop := n.i
	for at := n; ; {
		n.t.spend(1)
		deeper := enter(at)
		if deeper && at.cell().first >= 0 {
			at = at.t.at(at.cell().first)
			continue
		}
		for at.i != stop && at.cell().next < 0 {
			n.t.spend(1)
			at = at.parent()
		}
		if at.i == stop {
			return
		}
		at = at.t.at(at.cell().next)
	}
}

// any reports whether the node or something below it satisfies want.
func (n node) any(want func(node) bool) bool {
	found := false
	n.all(func(at node) bool {
		found = found || want(at)
		return !found
	})
	return found
}

// inside reports whether the node is outer or lies in it.
func (n node) inside(outer node) bool {
	if n.ok() {
		n.t.spend(1)
	}
	return n.ok() && outer.ok() && n.start() >= outer.start() && n.end() <= outer.end()
}

// up is the nearest node above, itself included, of one of the kinds.
func (n node) up(kinds ...string) node {
	for at := n; at.ok(); at = at.parent() {
		n.t.spend(1)
		if at.is(kinds...) {
			return at
		}
	}
	return node{}
}

// bare takes brackets off, and what waits.
func (n node) bare() node {
	for n.is("parenthesized_expression", "await") {
		n.t.spend(1)
		n = n.child()
	}
	return n
}
