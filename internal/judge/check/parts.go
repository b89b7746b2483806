package check

import (
	"slices"
	"strings"
)

// What is known of a part of a value: an item of a returned tuple, a key of a dict, what a loop takes out of something.
// A tuple of a loss and a count is not one value: each item has a grade of its own.

// partKey is a node and the way into its value: "1", "0.1" or "loss".
type partKey struct {
	node int32
	way  string
}

// partWay writes a way of positions as a key.
func partWay(path []int) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('.')
		b.WriteByte(byte('0' + min(p, 200)))
	}
	return b.String()
}

// gradePart is the grade of an item of a tuple, or of an item of an item.
func (f *file) gradePart(n node, path []int) grade {
	n = n.bare()
	if len(path) == 0 || !n.ok() {
		return f.grade(n)
	}
	return f.once(partKey{n.i, partWay(path)}, func() grade { return f.findPart(n, path) })
}

// once finds a part's grade the first time that it is asked for; a ring proves nothing.
func (f *file) once(key partKey, find func() grade) grade {
	f.spend(1)
	if g, known := f.grades.parts[key]; known {
		return g
	}
	f.grades.parts[key] = unknown
	if f.grades.deep >= maxChain {
		return unknown
	}
	f.grades.deep++
	g := find()
	f.grades.deep--
	f.grades.parts[key] = g
	return g
}

func (f *file) findPart(n node, path []int) grade {
	switch n.kind() {
	case "tuple", "list", "expression_list":
		items := n.children()
		if path[0] >= len(items) || slices.ContainsFunc(items, func(c node) bool { return c.is("list_splat") }) {
			return f.grade(n)
		}
		return f.gradePart(items[path[0]], path[1:])
	case "conditional_expression":
		if c := n.children(); len(c) == 3 {
			return max(f.gradePart(c[0], path), f.gradePart(c[2], path))
		}
	case "identifier":
		fn := f.function(n)
		if b, ok := f.latest(fn, n.text(), n); ok && b.kind == "=" && b.value.ok() && !b.target.is("subscript") {
			return f.gradePart(b.value, append(slices.Clone(b.path), path...))
		}
	case "call":
		return f.gradeCallPart(call{n, f.dotted(n.field("function"))}, path)
	}
	return f.grade(n)
}

// sorters are functions that return values, which have the tensor's graph, and indices, which have none.
var sorters = set("max", "min", "topk", "sort", "kthvalue", "cummax", "cummin", "median", "mode")

func (f *file) gradeCallPart(c call, path []int) grade {
	name := c.last()
	if sorters[name] && path[0] == 1 {
		return detached
	}
	if f.gradOff(c.node) {
		return f.grade(c.node)
	}
	if own := f.resolve(c); len(own) > 0 {
		g := unknown
		for _, fn := range own {
			for _, r := range fn.returns {
				g = max(g, fn.file.gradePart(r, path))
			}
		}
		if g == unknown && f.moduleCalled(c) != nil {
			return f.grade(c.node) // what its layers return isn't known, but they are a model
		}
		return g
	}
	if t := f.foreign(c); t != nil {
		return f.foreignGrade(c, path, "")
	}
	if f.fits(lossCall, name) && path[0] > 0 {
		return unknown // loss, items = compute_loss(…): who returns parts of a loss detaches them
	}
	return f.grade(c.node)
}

// gradeKey is the grade of a dict's value by its key.
func (f *file) gradeKey(n node, key string) grade {
	n = n.bare()
	if !n.ok() {
		return unknown
	}
	return f.once(partKey{n.i, key}, func() grade { return f.findKey(n, key) })
}

func (f *file) findKey(n node, key string) grade {
	switch n.kind() {
	case "dictionary":
		for _, p := range n.children() {
			if p.is("pair") && unquoted(p.field("key")) == key {
				return f.grade(p.field("value"))
			}
		}
		return unknown
	case "identifier":
		return f.keyOfName(n, key)
	case "call":
		c := call{n, f.dotted(n.field("function"))}
		if c.name == "dict" {
			return f.grade(c.keyword(key))
		}
		own := f.resolve(c)
		if t := f.foreign(c); len(own) == 0 && t != nil && !f.gradOff(n) {
			return f.foreignGrade(c, nil, key)
		}
		if len(own) == 0 || f.gradOff(n) {
			return f.grade(n)
		}
		g := unknown
		for _, fn := range own {
			for _, r := range fn.returns {
				g = max(g, fn.file.gradeKey(r, key))
			}
		}
		return g
	}
	return f.grade(n)
}

// keyOfName looks for d["key"] = value, and for the dict that the name got.
func (f *file) keyOfName(n node, key string) (g grade) {
	fn, name := f.function(n), n.text()
	set := false
	for _, b := range fn.bindings[name+"[]"] {
		f.spend(1)
		if b.kind == "=" && unquoted(b.target.field("subscript")) == key {
			g, set = max(g, f.gradeBinding(b)), true
		}
	}
	if set {
		return g
	}
	if b, ok := f.latest(fn, name, n); ok && b.kind == "=" && len(b.path) == 0 {
		return f.gradeKey(b.value, key)
	}
	return f.grade(n)
}

// unquoted is a string's content; "" where a node is no plain string.
func unquoted(n node) string {
	text := n.text()
	if !n.is("string") || len(text) < 2 || text[0] != '"' && text[0] != '\'' {
		return ""
	}
	return strings.Trim(text, `"'`)
}

// gradeItem is the grade of what a loop takes out of something.
func (f *file) gradeItem(over node, path []int) grade {
	over = over.bare()
	if !over.is("call") {
		if len(path) > 0 && !over.is("list", "tuple") {
			return unknown
		}
		return f.grade(over)
	}
	c := call{over, f.dotted(over.field("function"))}
	switch name := c.last(); {
	case c.name == "enumerate" && len(path) > 0:
		if path[0] == 0 {
			return scalar
		}
		return f.gradeItem(c.arg(0), path[1:])
	case c.name == "zip" && len(path) > 0:
		return f.gradeItem(c.arg(path[0]), path[1:])
	case c.name == "range", name == "keys":
		return scalar
	case name == "items" && len(path) == 1:
		if path[0] == 0 {
			return scalar
		}
		return f.grade(c.receiver())
	case len(path) > 0:
		return unknown
	}
	return f.grade(over)
}
