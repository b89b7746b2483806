package check

import (
	"cmp"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
)

// A graph that is kept because a value is made of the one before: a running mean, a sum, a state. Cutting the old value
// from its history keeps the numbers, and the gradients of the step itself.

// cutGraph detaches what a value takes over from the step before.
func (c *curing) cutGraph() {
	carries := c.carriers()
	onLine := slices.DeleteFunc(slices.Clone(carries), func(b binding) bool { return !c.onLine(b.at) })
	if len(onLine) > 0 {
		carries = onLine
	}
	for _, b := range carries {
		if len(c.list) >= maxCures {
			return
		}
		if b.kind == "+=" || c.startsAsNumber(b) {
			c.detachAdded(b)
		} else {
			c.detachOld(b)
		}
	}
	if len(carries) == 0 {
		c.detachKept()
	}
}

// carriers are the assignments that make the holder of its own value, in the order of the text.
func (c *curing) carriers() (list []binding) {
	for _, name := range c.boundNames() {
		if !c.holds(name) {
			continue
		}
		for _, b := range c.index.bound[name] {
			if b.kind == "+=" && b.at.is("augmented_assignment") && b.value.ok() ||
				b.kind == "=" && b.value.ok() && len(c.olds(b)) > 0 {
				list = append(list, b)
			}
		}
	}
	order.By(list, func(a, b binding) int { return cmp.Compare(a.at.i, b.at.i) })
	return list
}

// olds are the places in an assignment's value that read what its target was before: x, x[key], x.get(key, …).
func (c *curing) olds(b binding) (list []node) {
	name, base := c.plain(b.target), c.plain(root(b.target))
	item := b.target.is("subscript")
	b.value.all(func(n node) bool {
		p := n.parent()
		switch {
		case n.is("lambda", "string"):
			return false
		case n.is("call") && item && n.field("function").is("attribute") &&
			n.field("function").field("attribute").text() == "get" &&
			c.plain(n.field("function").field("object")) == base,
			n.is("identifier", "attribute", "subscript") && c.plain(n) == name:
			if !c.isKeyword(n) && !p.is("comparison_operator") && !p.is("attribute") {
				list = append(list, n)
			}
			return false
		}
		return true
	})
	return list
}

// startsAsNumber reports whether a name has a plain number before it has a tensor: that has no detach().
func (c *curing) startsAsNumber(b binding) bool {
	return slices.ContainsFunc(c.index.bound[c.plain(b.target)], func(other binding) bool {
		v := other.value.bare()
		return v.is("integer", "float") || v.is("unary_operator") && v.field("argument").is("integer", "float")
	})
}

// startsAsTensor reports whether a name begins as a tensor for sure.
func (c *curing) startsAsTensor(b binding) bool {
	return slices.ContainsFunc(c.index.bound[c.plain(b.target)], func(other binding) bool {
		v := call{other.value.bare(), c.dotted(other.value.bare().field("function"))}
		return v.is("call") && makers[v.last()] && endsIn(v.name, "torch."+v.last())
	})
}

// detachOld cuts the old value: x = 0.9 * x.detach() + 0.1 * new. The graph behind it has been used up by the step
// before, unless that was asked to keep it.
func (c *curing) detachOld(b binding) {
	var edits []Edit
	for _, n := range c.olds(b) {
		edits = append(edits, Edit{n.end(), n.end(), ".detach()"})
	}
	look := ""
	switch {
	case c.retains():
		look = "whether gradients are meant to reach earlier steps: the file has retain_graph=True"
	case !c.startsAsTensor(b):
		look = "whether " + b.target.text() + " is one tensor whenever it is read here"
	}
	c.propose(b.at, "cut "+b.target.text()+" from the steps before", look, edits...)
}

// detachAdded takes the graph from what is added: x = x + new.detach(). What is added keeps its graph for its own step.
func (c *curing) detachAdded(b binding) {
	if c.function(b.at).flows[c.plain(b.target)] {
		return // gradients are asked of the sum
	}
	var edits []Edit
	for _, n := range c.added(b) {
		if graphless(n) {
			continue
		}
		if n.is("identifier", "attribute", "call", "subscript", "parenthesized_expression") {
			edits = append(edits, Edit{n.end(), n.end(), ".detach()"})
		} else {
			edits = append(edits, Edit{n.start(), n.start(), "("}, Edit{n.end(), n.end(), ").detach()"})
		}
	}
	look := "whether gradients are asked of " + b.target.text() + " elsewhere"
	if c.leak.Script && !c.usedForGradients(b) {
		look = ""
	}
	c.propose(b.at, "add to "+b.target.text()+" without the graph", look, edits...)
}

// graphless reports whether an expression is a plain number as it is written. What the run has shown to keep a graph is
// not asked of the rules' own reckoning.
func graphless(n node) bool {
	name := last(n.field("function").text())
	return n.is("integer", "float") || n.is("call") && (name == "item" || name == "detach" || name == "float" ||
		name == "tolist")
}

// added are the terms of a sum that are not the old value.
func (c *curing) added(b binding) (list []node) {
	v := b.value.bare()
	if b.kind == "+=" {
		return []node{v}
	}
	old := c.olds(b)
	for v.is("binary_operator") {
		left, right := v.field("left"), v.field("right")
		has := func(n node) bool { return slices.ContainsFunc(old, func(o node) bool { return o.inside(n) }) }
		switch {
		case has(left) && !has(right):
			list, v = append(list, right), left.bare()
		case has(right) && !has(left):
			list, v = append(list, left), right.bare()
		default:
			return nil
		}
	}
	return list
}

// usedForGradients reports whether a sum flows into a backward() anywhere in the text.
func (c *curing) usedForGradients(b binding) bool {
	return slices.ContainsFunc(c.funcs, func(fn *function) bool { return fn.flows[c.plain(b.target)] })
}

// retains reports whether some graph is kept beyond its backward().
func (c *curing) retains() bool {
	return slices.ContainsFunc(c.calls, func(k call) bool { return k.keyword("retain_graph").text() == "True" })
}

// detachKept takes the graph from what is put into a container.
func (c *curing) detachKept() {
	for _, g := range c.grown() {
		values := []node{g.value.bare()}
		if values[0].is("tuple", "list") {
			values = values[0].children()
		}
		var edits []Edit
		for _, n := range values {
			if n.is("identifier", "attribute", "call", "subscript") && c.grade(n) != scalar && c.grade(n) != detached &&
				(len(values) == 1 || c.grade(n).graph()) {
				edits = append(edits, Edit{n.end(), n.end(), ".detach()"})
			}
		}
		c.propose(g.at, "keep it without its graph in "+g.into.text(),
			"whether gradients are asked of what "+g.into.text()+" keeps", edits...)
	}
}
