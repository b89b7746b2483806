package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// carriedAttribute finds attributes whose new value is made of the old one and of this step's tensors, with the
// graphs of all steps: averages, centres, queues, caches, states (MG123).
func carriedAttribute(f *file, r *reporter) {
	for _, c := range f.classes {
		if c.isLightning() {
			continue
		}
		buffers := f.buffersOf(c)
		for _, fn := range c.order {
			if constructor(fn.name) || f.offFunction(fn) {
				continue
			}
			for _, name := range fn.names {
				for _, b := range fn.bindings[name] {
					f.carries(c, fn, name, b, buffers, r)
				}
			}
		}
	}
}

// carries judges one assignment to an attribute.
func (f *file) carries(c *class, fn *function, name string, b binding, buffers map[string]bool, r *reporter) {
	attr, of := strings.CutPrefix(strings.TrimSuffix(name, "[]"), "self.")
	if !of || b.kind == "for" || strings.ContainsAny(attr, ".[(?") || f.gradOff(b.at) {
		return
	}
	averaged := f.averagesWeights(fn, name, b)
	if !averaged && !c.isModule() || f.keepsIf(b.at) {
		return
	}
	added := f.addedTo(name, b)
	if !added.ok() {
		added = f.joinedLocal(fn, name, b)
	}
	called := f.recursion(c, name, b)
	switch {
	case averaged, called && f.retains():
	case called, !added.ok() || f.cutValue(b.value) || f.begunAnew(c, name):
		return
	case !buffers[attr] && len(f.byName["backward"]) == 0, !f.mayGraph(fn, f.summand(name, added, b), 0):
		return
	}
	r.report(b.at, fmt.Sprintf("%s is made of its old value and of this step's tensors with their graphs: the graphs "+
		"of all steps are kept", quote(b.target.text())),
		"update it under torch.no_grad(), or with what was detached", held("self."+attr), with(fn.node))
}

// begunAnew reports whether a method, not the constructor, gives an attribute a value without the old one:
// reset_state().
func (f *file) begunAnew(c *class, name string) bool {
	return slices.ContainsFunc(f.attrsOf(c, strings.TrimSuffix(name, "[]")), func(b binding) bool {
		return b.kind == "=" && !constructor(f.function(b.at).name) &&
			!f.joinedLocal(f.function(b.at), name, b).ok() && !f.namesOld(b.value, name)
	})
}

// namesOld reports whether an expression has an attribute's old value in it.
func (f *file) namesOld(n node, name string) bool {
	names := false
	n.all(func(at node) bool {
		if at.is("call") {
			maker := last(f.dotted(at.field("function")))
			return !makers[maker] && !toDetached[maker]
		}
		names = names || at.is("attribute") && f.plain(at) == strings.TrimSuffix(name, "[]")
		return !names
	})
	return names
}

// keepsIf reports whether a place runs only for generation: if use_cache, if not self.training.
func (f *file) keepsIf(n node) bool {
	for at := n.parent(); at.ok() && !at.is("function_definition"); at = at.parent() {
		if at.is("if_statement") && f.fits(cacheIf, at.field("condition").text()) {
			return true
		}
	}
	return false
}

var cacheIf = pattern.Of(`(?i)use_cache|kv_cache|infer|incremental|not self\.training|generat|decod`)

// cutValue reports whether a value leaves its graph behind at the end: (…).detach(), (…).data.
func (f *file) cutValue(n node) bool {
	n = n.bare()
	if n.is("attribute") && n.field("attribute").text() == "data" {
		return true
	}
	name := last(f.dotted(n.field("function")))
	return !n.is("binary_operator") && f.grade(n) == scalar || n.is("call") && (toDetached[name] || toScalar[name])
}

// joinedLocal is what torch.cat() adds to an attribute's old value on its way through a variable.
func (f *file) joinedLocal(fn *function, name string, b binding) node {
	v := b.value.bare()
	if !v.is("identifier") || len(b.path) > 0 {
		return node{}
	}
	for _, from := range fn.bindings[v.text()] {
		if f.spend(1); from.kind == "=" && from.at.end() <= b.at.start() {
			if added := f.joinedTo(from.value.bare(), name, from); added.ok() {
				return added
			}
		}
	}
	return node{}
}

// recursion reports whether an attribute is given what one of the module's own layers makes of its old value.
func (f *file) recursion(c *class, name string, b binding) bool {
	v := b.value.bare()
	return v.is("call") && strings.HasPrefix(f.plain(v.field("function")), "self.") &&
		f.passes(call{v, f.dotted(v.field("function"))}, name) && f.isModel(call{v, f.dotted(v.field("function"))})
}

// retains reports whether the file keeps graphs past their backward(), without which a carried one is an error.
func (f *file) retains() bool {
	for _, c := range f.byName["backward"] {
		if c.keyword("retain_graph").text() == "True" {
			return true
		}
	}
	return false
}

// averagesWeights reports whether an assignment adds a parameter itself, not its data, to an average.
func (f *file) averagesWeights(fn *function, name string, b binding) bool {
	added := f.addedTo(name, b)
	return added.ok() && !f.cutValue(b.value) && slices.ContainsFunc(f.carried(added), func(n string) bool {
		p, ok := f.latest(fn, n, b.at)
		over := p.value.bare()
		if !ok || p.kind != "for" || !over.is("call") {
			return false
		}
		last := last(f.dotted(over.field("function")))
		return (last == "parameters" || last == "named_parameters" && len(p.path) == 1 && p.path[0] == 1) &&
			f.wholeIn(n, added)
	})
}

// wholeIn reports whether a variable itself stands in an expression, not only a part of it: p, not p.data.
func (f *file) wholeIn(name string, n node) bool {
	return n.any(func(at node) bool {
		p := at.parent()
		return at.is("identifier") && at.text() == name && !p.is("attribute", "subscript") &&
			!p.is("argument_list", "keyword_argument")
	})
}

// buffersOf are the names that a class registers as buffers, or makes as tensors.
func (f *file) buffersOf(c *class) map[string]bool {
	list := map[string]bool{}
	for _, b := range between(f.byName["register_buffer"], c.node, func(c call) node { return c.node }) {
		list[unquoted(b.arg(0))] = true
	}
	if init := c.methods["__init__"]; init != nil {
		for _, name := range init.names {
			for _, b := range init.bindings[name] {
				v := b.value.bare()
				if maker := f.dotted(v.field("function")); v.is("call") && strings.HasPrefix(maker, "torch.") &&
					makers[last(maker)] {
					list[strings.TrimPrefix(name, "self.")] = true
				}
			}
		}
	}
	return list
}

var plainInput = pattern.Of(`(?i)(label|target|mask|idx|index|length|size|step|epoch|momentum|count|num|` +
	`weight|lr|beta|alpha|decay|action|reward|done|teacher_temp|^n$|^y$|^k$|^t$|^i$|^self$)`)

// mayGraph reports whether a module's method is likely to be given, or to make, a value with a graph.
func (f *file) mayGraph(fn *function, n node, depth int) bool {
	n = n.bare()
	if !n.ok() || depth > maxTensorDepth {
		return false
	}
	switch g := f.grade(n); {
	case g.graph():
		return true
	case g == scalar && !n.is("binary_operator"), g == detached && f.cutValue(n):
		return false
	}
	switch n.kind() {
	case "identifier":
		if b, ok := f.latest(fn, n.text(), n); ok {
			return b.kind == "=" && !f.gradOff(b.at) && len(b.path) == 0 && f.mayGraph(fn, b.value, depth+1)
		}
		return f.mayBeGiven(fn, n.text(), depth)
	case "subscript":
		return f.mayGraph(fn, n.field("value"), depth+1)
	case "binary_operator":
		return f.mayGraph(fn, n.field("left"), depth+1) || f.mayGraph(fn, n.field("right"), depth+1)
	case "unary_operator":
		return f.mayGraph(fn, n.field("argument"), depth+1)
	case "list", "tuple":
		return slices.ContainsFunc(n.children(), func(c node) bool { return f.mayGraph(fn, c, depth+1) })
	case "call":
		c := call{n, f.dotted(n.field("function"))}
		if on := c.receiver(); on.ok() && sameTensor[c.last()] && !strings.HasPrefix(c.name, "torch.") {
			return f.mayGraph(fn, on, depth+1)
		}
		if layer, of := strings.CutPrefix(c.name, "self."); of && fn.class.isModule() && !strings.Contains(layer,
			".") &&
			fn.class.methods[layer] == nil { // self.encoder(x)
			return len(c.args()) > 0
		}
		return strings.HasPrefix(c.name, "torch.") && !strings.Contains(c.name, "distributed") && !makers[c.last()] &&
			c.arg(0).ok() && f.mayGraph(fn, c.arg(0), depth+1)
	}
	return false
}

// mayBeGiven reports whether a parameter is likely to carry a graph: forward's own inputs do, others' where forward
// gives them one.
func (f *file) mayBeGiven(fn *function, name string, depth int) bool {
	if !fn.isParam[name] || f.fits(plainInput, name) {
		return false
	}
	if fn.name == "forward" {
		return true
	}
	for _, c := range f.callers(fn) {
		if in := f.function(c.node); in != fn && !f.gradOff(c.node) {
			if arg := c.given(fn, name); arg.ok() && f.mayGraph(in, arg, depth+1) {
				return true
			}
		}
	}
	return false
}

// graphMakers are methods whose result is a tensor with the graph of a distribution's parameters.
var graphMakers = set("log_prob", "entropy", "rsample")

// neverCleared finds lists of an object that get a graph with each step and that nothing ever clears (MG124).
func neverCleared(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		if fn.name == "forward" || constructor(fn.name) || !g.at.is("call") || f.gradOff(g.at) ||
			!f.keepsGraph(g.value) {
			continue
		}
		trainer := fn.class != nil && fn.name == "compute_loss"
		h, ok := f.holderOf(g.into)
		if !ok || !h.attr || len(f.byName["backward"]) == 0 && !trainer || !f.growsFreely(h, g, node{}) {
			continue
		}
		if !trainer && !fn.hasBack && !fn.hook() && !f.calledInLoop(fn) && !f.stepLoopOf(g.at).ok() {
			continue
		}
		r.report(g.at, fmt.Sprintf("%s keeps this step's graph, and nothing ever clears it", quote(h.name)),
			"clear it when its backward() is done, or keep numbers (.item())", held(h.name))
	}
}

// keepsGraph reports whether a value has a graph in it: that of a loss, or of a distribution.
func (f *file) keepsGraph(n node) bool {
	if f.grade(n).graph() {
		return true
	}
	keeps := false
	n.all(func(at node) bool {
		if !at.is("call") || keeps {
			return !keeps
		}
		name := last(f.dotted(at.field("function")))
		keeps = graphMakers[name] && at.field("function").is("attribute")
		return !toScalar[name] && !toDetached[name]
	})
	if n.is("identifier") {
		b, ok := f.latest(f.function(n), n.text(), n)
		return ok && b.kind == "=" && len(b.path) == 0 && b.value.is("call") && f.keepsGraph(b.value)
	}
	return keeps
}
