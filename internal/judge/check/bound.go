package check

import (
	"slices"
	"strings"
)

// holder is a container by its name: "losses", "self.outputs".
type holder struct {
	name  string
	made  []binding // where it is made, in the order of the text
	attr  bool      // of self
	scope *function // whose variable it is; the class's __init__ or the like for attributes
}

// holderOf is the container that a node names, and where it is made. ok is false where that can't be seen.
func (f *file) holderOf(n node) (h holder, ok bool) {
	n = n.bare()
	for n.is("subscript") || n.is("call") && last(f.dotted(n.field("function"))) == "setdefault" {
		if n.is("call") { // outputs.setdefault(name, []).append(…)
			n = call{n, ""}.receiver().bare()
		} else { // outputs[name].append(…)
			n = n.field("value").bare()
		}
	}
	h.name = f.plain(n)
	if attr, is := strings.CutPrefix(h.name, "self."); is && !strings.ContainsAny(attr, ".[(?") {
		h.attr = true
		c := f.classAt(n)
		if c == nil {
			return h, false
		}
		if h.made = f.attrsOf(c, h.name); len(h.made) == 0 {
			h.made = f.bodyOf(c, attr)
		}
		return h, len(h.made) > 0
	}
	if n.is("attribute") {
		h.attr, h.made = true, f.attrOf(n)
		return h, len(h.made) > 0
	}
	if !n.is("identifier") {
		return h, false
	}
	for fn := f.function(n); fn != nil; fn = fn.outer {
		f.spend(1)
		if fn.isParam[h.name] {
			return h, false // the caller's
		}
		if made := fn.bindings[h.name]; len(made) > 0 {
			h.made, h.scope = made, fn
			return h, true
		}
	}
	return h, false
}

// attrOf are the places where another object's attribute is made: policy.log_probs, in the one class that has it.
func (f *file) attrOf(n node) (made []binding) {
	name := "self." + n.field("attribute").text()
	if !n.field("object").is("identifier") {
		return nil
	}
	for _, c := range f.classes {
		f.spend(1)
		if list := f.attrsOf(c, name); len(list) > 0 {
			if made != nil {
				return nil
			}
			made = list
		}
	}
	return made
}

// bodyOf are the bindings of a name in a class's own body: all objects share it.
func (f *file) bodyOf(c *class, name string) (list []binding) {
	for _, b := range f.module.boundIn(name, c.node) {
		if f.spend(1); b.at.parent().parent().parent().i == c.i {
			list = append(list, b)
		}
	}
	return list
}

// madeIn are the places in a node where the container is made.
func (h holder) madeIn(n node) []binding {
	return between(h.made, n, func(b binding) node { return b.at })
}

// making is how a container is made, in all places together.
type making struct{ container, bounded bool }

// madeAs reports whether the container is one wherever it is made, and whether one of those has a bound.
func (f *file) madeAs(h holder) (container, bounded bool) {
	if len(h.made) == 0 {
		return false, false
	}
	as, known := f.index.made[&h.made[0]]
	if known {
		return as.container, as.bounded
	}
	for _, b := range h.made {
		if !b.value.ok() || b.target.is("subscript") {
			continue
		}
		is, bounded := f.isContainer(b.value)
		as.container, as.bounded = as.container || is, as.bounded || bounded
	}
	f.index.made[&h.made[0]] = as
	return as.container, as.bounded
}

// isContainer reports whether an expression makes an empty or a growing container, and whether that is bounded.
func (f *file) isContainer(n node) (container, bounded bool) {
	n = n.bare()
	switch n.kind() {
	case "list", "dictionary", "set":
		return !slices.ContainsFunc(n.children(), func(at node) bool {
			return at.is("call") && f.grade(at) == unknown
		}), false
	case "list_comprehension", "dictionary_comprehension":
		b := n.field("body").bare()
		if b.is("pair") {
			b = b.field("value").bare()
		}
		c, _ := f.isContainer(b)
		return c, false
	case "call":
		c := call{n, f.dotted(n.field("function"))}
		switch c.last() {
		case "list", "dict", "set", "defaultdict", "OrderedDict", "Counter":
			return true, false
		case "deque":
			limit := c.keyword("maxlen")
			return true, limit.ok() && limit.text() != "None" || len(c.args()) > 1
		}
	}
	return false, false
}

var emptiers = set("clear", "pop", "popleft", "popitem", "remove")

// holding is what a file does with a container, wherever it is named.
type holding struct {
	uses     []node // where it is named, the outermost of nested ones
	emptied  bool   // an item, or all, is taken out
	tests    []node // comparisons with its length in them
	remade   []node // assignments to it or to a slice of it
	lossUse  bool   // something makes a loss of it
	returned bool   // it stands in a return
}

// holderKey is all that means looks at.
type holderKey struct {
	name  string
	attr  bool
	scope *function
}

// holding looks at each place that names the container, once.
func (f *file) holding(h holder) *holding {
	key := holderKey{h.name, h.attr, h.scope}
	if w := f.index.holders[key]; w != nil {
		return w
	}
	w := &holding{}
	var outer node
	uses := f.index.uses[last(h.name)]
	if !h.attr && h.scope != nil && !h.scope.is("module") { // a function's own name means nothing outside of it
		uses = between(uses, h.scope.node, func(n node) node { return n })
	}
	for _, n := range uses {
		if !f.means(h, n) {
			continue
		}
		if !f.isKeyword(n) && !(outer.ok() && n.inside(outer)) {
			outer = n
			w.uses = append(w.uses, n)
			w.lossUse = w.lossUse || f.lossUse(n)
			w.returned = w.returned || n.up("return_statement").ok()
		}
		w.emptied = w.emptied || f.places[n.i].deletes
		f.addUse(w, n)
	}
	f.index.holders[key] = w
	return w
}

// isKeyword reports whether a node is the name of a keyword argument, not its value.
func (f *file) isKeyword(n node) bool {
	return n.parent().is("keyword_argument") && n.cell().field == f.g.fields["name"]
}

// addUse notes what is done to the container, or to an item of it, at a place that names it.
func (f *file) addUse(w *holding, n node) {
	for {
		p := n.parent()
		f.spend(1)
		switch {
		case p.is("attribute") && p.field("object").i == n.i:
			w.emptied = w.emptied || emptiers[p.field("attribute").text()] && p.parent().is("call") &&
				p.parent().field("function").i == p.i
			return
		case p.is("argument_list"):
			c := call{p.parent(), "len"}
			if c.is("call") && c.arg(0).i == n.i && f.dotted(c.field("function")) == "len" {
				for at := c.up("comparison_operator"); at.ok(); at = at.parent().up("comparison_operator") {
					w.tests = append(w.tests, at)
				}
			}
			return
		case p.is("assignment"):
			if p.field("left").i == n.i {
				w.remade = append(w.remade, p)
			}
			return
		case p.is("pattern_list", "tuple_pattern") && p.parent().is("assignment"):
			w.remade = append(w.remade, p.parent())
			return
		case p.is("parenthesized_expression", "await"), p.is("subscript") && p.field("value").i == n.i:
			n = p
		default:
			return
		}
		if p.is("subscript") && p.parent().is("assignment") && p.parent().field("left").i == p.i {
			w.remade = append(w.remade, p.parent())
			return
		}
	}
}

// isEmptied reports whether something takes items out of a container again: clear(), del, pop, a slice, a test of its
// length, or making it anew where the loop, if any, comes by.
func (f *file) isEmptied(h holder, loop, grows node) bool {
	w := f.holding(h)
	return w.emptied || slices.ContainsFunc(w.tests, func(n node) bool { return f.guards(n, grows) }) ||
		slices.ContainsFunc(w.remade, func(n node) bool { return f.remakes(h, n, loop) })
}

// guards reports whether a comparison decides over the growth: it stands under it, or behind an if that may leave.
func (f *file) guards(n, grows node) bool {
	at := n.up("if_statement", "while_statement", "elif_clause", "conditional_expression")
	if !at.ok() || at.is("conditional_expression") {
		return at.ok()
	}
	if !n.inside(at.child()) {
		return false
	}
	if !grows.ok() || grows.inside(at) || at.is("elif_clause") {
		return true
	}
	return f.sameFunction(at, grows) && at.start() < grows.start() && at.any(func(x node) bool {
		return x.is("return_statement", "continue_statement", "break_statement", "raise_statement")
	})
}

// remakes reports whether an assignment empties the container: each time that the loop comes by, or when a hook runs.
func (f *file) remakes(h holder, n, loop node) bool {
	left := n.field("left")
	if left.is("subscript") && f.means(h, left.field("value")) && left.field("subscript").is("slice") {
		return true // xs[:] = []
	}
	if left.is("subscript") {
		return false
	}
	fn := f.function(n)
	if h.attr {
		return !constructor(fn.name)
	}
	if h.scope != nil && fn != h.scope { // a function with `global xs`
		return true
	}
	return loop.ok() && n.inside(loop) || !loop.ok() && len(f.loops(n)) > 0
}

func constructor(name string) bool {
	return name == "__init__" || name == "setup" || name == "__post_init__" || name == "build" || name == "__new__" ||
		name == "init" || name == ""
}

// means reports whether a node names the container: by its own name, or by the attribute of any object.
func (f *file) means(h holder, n node) bool {
	n = n.bare()
	for n.is("subscript") {
		n = n.field("value").bare()
	}
	if !n.ok() {
		return false
	}
	name := f.plain(n)
	if h.attr {
		return n.is("attribute") && last(name) == last(h.name)
	}
	if name != h.name {
		return false
	}
	fn := f.function(n)
	return h.scope == nil || fn == h.scope || len(fn.bindings[h.name]) == 0 || h.scope.node.is("module")
}

// uses are the places where the container is named.
func (f *file) uses(h holder) []node {
	w := f.holding(h)
	f.spend(1 + len(w.uses))
	return w.uses
}
