package check

import "strings"

// holder is a container by its name: "losses", "self.outputs".
type holder struct {
	name  string
	made  []binding // where it is made
	attr  bool      // of self
	scope *function // whose variable it is; the class's __init__ or the like for attributes
}

// holderOf is the container that a node names, and where it is made. ok is false where that can't be seen.
func (f *file) holderOf(n node) (h holder, ok bool) {
	n = n.bare()
	for n.is("subscript") { // outputs[name].append(…)
		n = n.field("value").bare()
	}
	h.name = f.plain(n)
	if attr, is := strings.CutPrefix(h.name, "self."); is && !strings.ContainsAny(attr, ".[(?") {
		h.attr = true
		c := f.classAt(n)
		if c == nil {
			return h, false
		}
		for _, fn := range f.funcs {
			if f.classAt(fn.node) == c || fn.class == c {
				h.made = append(h.made, fn.bindings[h.name]...)
			}
		}
		return h, len(h.made) > 0
	}
	if !n.is("identifier") {
		return h, false
	}
	for fn := f.function(n); fn != nil; fn = fn.outer {
		for _, p := range fn.params {
			if p == h.name {
				return h, false // the caller's
			}
		}
		if made := fn.bindings[h.name]; len(made) > 0 {
			h.made, h.scope = made, fn
			return h, true
		}
	}
	return h, false
}

// isContainer reports whether an expression makes an empty or a growing container, and whether that is bounded.
func (f *file) isContainer(n node) (container, bounded bool) {
	n = n.bare()
	switch n.kind() {
	case "list", "dictionary", "set":
		return !n.any(func(at node) bool {
			return at.is("call") && f.grade(at) == unknown &&
				at.parent().i == n.i
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

// isEmptied reports whether something takes items out of a container again: clear(), del, pop, a slice, a test of its
// length, or making it anew where the loop, if any, comes by.
func (f *file) isEmptied(h holder, loop, grows node) bool {
	for name := range emptiers {
		for _, c := range f.byName[name] {
			if f.means(h, c.receiver()) {
				return true
			}
		}
	}
	emptied := false
	f.root().all(func(n node) bool {
		if emptied {
			return false
		}
		switch n.kind() {
		case "delete_statement":
			emptied = n.any(func(at node) bool { return f.means(h, at) })
		case "comparison_operator":
			emptied = n.any(func(at node) bool {
				return at.is("call") && f.dotted(at.field("function")) == "len" &&
					f.means(h, call{at, "len"}.arg(0))
			}) && f.guards(n, grows)
		case "assignment":
			emptied = f.remakes(h, n, loop)
		}
		return true
	})
	return emptied
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
	hit := !left.is("subscript") && f.means(h, left)
	for _, part := range left.children() {
		hit = hit || left.is("pattern_list", "tuple_pattern") && f.means(h, part)
	}
	if !hit {
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

// uses are the places where the container is named, other than in the given statement.
func (f *file) uses(h holder, but node) (list []node) {
	f.root().all(func(n node) bool {
		if but.ok() && n.i == but.i {
			return false
		}
		if n.is("identifier", "attribute") && f.means(h, n) && !n.parent().is("keyword_argument") {
			list = append(list, n)
			return false
		}
		return true
	})
	return list
}
