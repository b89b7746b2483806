package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// activationsKept finds hooks and forwards that append to a list which nothing clears (MG120).
func activationsKept(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		if g.at.parent().is("lambda") {
			f.keptByLambda(g, r)
			continue
		}
		forward := fn.name == "forward" && fn.class.isModule()
		if last(f.dotted(g.at.field("function"))) != "append" || !forward && !f.isForwardHook(fn) {
			continue
		}
		h, ok := f.holderOf(g.into)
		if !ok || f.collects(h, fn) || forward && !h.attr || !h.attr && (h.scope == fn || !f.fromParams(fn,
			g.value)) || !f.growsFreely(h,
			g, node{}) ||
			!f.tensorish(g.value) && !f.fromParams(fn, g.value) || f.conditional(g.at) ||
			f.src.notebook && !h.attr && h.scope == f.module && f.isRead(h) { // to be looked at in the next cell
			continue
		}
		r.report(g.at, fmt.Sprintf("%s gets the activations of every forward pass and nothing clears it",
			quote(h.name)),
			"keep the newest ("+h.name+" = x), a number of them, or take the hook off after the step", held(h.name))
	}
}

// collects reports whether a function makes a container for a hook of its own, and reads it when the passes are done.
func (f *file) collects(h holder, hook *function) bool {
	return !h.attr && h.scope != nil && !h.scope.is("module") && h.scope != hook && !h.scope.hasBack &&
		(f.holding(h).returned || f.isRead(h))
}

// keptByLambda judges a hook that is a lambda: x.register_hook(lambda g: grads.append(g)).
func (f *file) keptByLambda(g growth, r *reporter) {
	lambda := g.at.parent()
	c := call{lambda.up("call"), ""}
	if !c.ok() || f.removesHooks(f.function(g.at)) || !hookMaker[last(f.dotted(c.field("function")))] ||
		!lambda.inside(c.field("arguments")) {
		return
	}
	given := set()
	for _, p := range lambda.field("parameters").children() {
		given[p.text()] = true
	}
	h, ok := f.holderOf(g.into)
	again := f.stepLoopOf(g.at)
	if !ok || !h.attr && h.scope != f.module && (!again.ok() || len(h.madeIn(again)) > 0) || !f.growsFreely(h, g,
		again) {
		return
	}
	for _, name := range f.names(g.value) {
		if given[name] {
			r.report(g.at, fmt.Sprintf("%s gets a tensor with each pass and nothing clears it", quote(h.name)),
				"keep the newest, or a number (.norm().item()), or clear it after the step", held(h.name))
			return
		}
	}
}

// hookMaker are the methods that register hooks of tensors and modules.
var hookMaker = set("register_hook", "register_forward_hook", "register_forward_pre_hook",
	"register_full_backward_hook",
	"register_backward_hook", "register_post_accumulate_grad_hook")

// isForwardHook reports whether a function is registered as a module's hook: by its name, or as what another returns.
func (f *file) isForwardHook(fn *function) bool {
	return fn.name != "" && f.index.hooks[fn.name] ||
		fn.outer != nil && fn.outer.name != "" && f.index.hooks[fn.outer.name]
}

// fromParams reports whether a value is made of what a hook is given: no number, no part of the module.
func (f *file) fromParams(fn *function, n node) bool {
	if f.grade(n) == scalar || len(fn.params) < 2 {
		return false
	}
	given := set(fn.params[1:]...)
	for _, name := range f.names(n) {
		if given[name] && !f.fits(textName, name) {
			return true
		}
	}
	return false
}

// textName are parameters that are no tensors.
var textName = pattern.Of(`(?i)(^name$|^idx$|meta|path|_id$|_ids$|key)`)

// onlyTheEnd finds lists that grow by a tensor a step and of which only the newest items are ever read (MG121).
func onlyTheEnd(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		loop := f.stepLoopOf(g.at)
		if !loop.ok() {
			loop = f.modelLoop(g.at)
		}
		h, ok := f.holderOf(g.into)
		if !ok || !g.at.is("call") || isNumber(f, g.value) || f.grade(g.value) == scalar || g.value.is("identifier") &&
			f.fits(numberName, g.value.text()) || !h.attr && (f.madeAround(h, g.at) || f.everySome(g.at)) {
			continue
		}
		tensor := f.grade(g.value) >= detached || f.fromModel(fn, g.value) || f.copied(fn, g.value)
		forward := fn.class.isModule() && fn.name == "forward" && tensor
		if !h.attr && !(loop.ok() && tensor && len(h.madeIn(loop)) == 0) ||
			h.attr && (constructor(fn.name) || !forward && (fn.class.isModule() || !f.calledInLoop(fn))) ||
			!f.growsFreely(h, g, loop) || !f.readsEnd(h, g) {
			continue
		}
		r.report(g.at, fmt.Sprintf("%s grows with each step, and only its end is read", quote(h.name)),
			"collections.deque(maxlen=…) of what is read", held(h.name))
	}
}

// everySome reports whether a place runs in some rounds only: if step % 100 == 0.
func (f *file) everySome(n node) bool {
	return f.underIf(n, func(at node) bool { return strings.Contains(at.field("condition").text(), "%") },
		"for_statement", "while_statement", "function_definition")
}

// copied reports whether a value is a copy that a method has made of a model or of a part of a batch.
func (f *file) copied(fn *function, n node) bool {
	if b, ok := f.latest(fn, n.text(), n); n.is("identifier") && ok && b.kind == "=" && len(b.path) == 0 {
		n = b.value
	}
	return fn.class != nil && n.any(func(at node) bool {
		return at.is("call") && (f.dotted(at.field("function")) == "copy.deepcopy" ||
			last(f.dotted(at.field("function"))) == "clone" && len(call{at, ""}.args()) == 0)
	})
}

// numberName are what people call numbers.
var numberName = pattern.Of(`(?i)(reward|score|novelty|error|acc|priority|return|entropy|length|count|time|` +
	`rate|steps?|loss|component|metric|norm)$`)

// madeAround reports whether a loop around a place makes the container anew: it holds one episode.
func (f *file) madeAround(h holder, n node) bool {
	return slices.ContainsFunc(f.loops(n), func(l node) bool { return len(h.madeIn(l)) > 0 })
}

// modelLoop is the innermost loop around a place that puts its own variable into a model: one over inputs.
func (f *file) modelLoop(n node) node {
	for _, l := range f.loops(n) {
		for _, c := range f.callsIn(l.field("body")) {
			f.spend(1)
			if !f.isModel(c) || f.function(c.node) != f.function(n) {
				continue
			}
			for _, name := range f.carried(l.field("left")) {
				if f.passes(c, name) {
					return l
				}
			}
		}
	}
	return node{}
}

// isNumber reports whether a value is a mean, a sum or a loss: a tensor of one number.
func isNumber(f *file, n node) bool {
	n = n.bare()
	if n.is("dictionary", "tuple") {
		return !slices.ContainsFunc(n.children(), func(c node) bool {
			if c.is("pair") {
				c = c.field("value")
			}
			return f.grade(c) != scalar && !f.fits(stepName, c.text()) && !isNumber(f, c)
		})
	}
	if n.is("list_comprehension") {
		return false
	}
	if b, ok := f.latest(f.function(n), n.text(), n); n.is("identifier") && ok && b.value.is("call") &&
		endsIn(f.dotted(b.value.field("function")), "numpy.mean", "np.mean", "numpy.sum", "np.sum") {
		return true
	}
	for n.is("call") && (sameTensor[last(f.dotted(n.field("function")))] ||
		toDetached[last(f.dotted(n.field("function")))]) {
		if name := last(f.dotted(n.field("function"))); name == "mean" || name == "sum" || name == "norm" {
			return true
		}
		n = call{n, ""}.receiver()
	}
	return strings.Contains(strings.ToLower(n.text()), "loss")
}

// firstItems is a slice of a few items from the front, or of those numbers of the newest ones.
var firstItems = pattern.Of(`^:\s*[0-9]+$`)

// readsEnd reports whether all that is read of a container are its newest items: xs[-16:], xs[-1].
func (f *file) readsEnd(h holder, g growth) bool {
	reads := 0
	for _, u := range f.uses(h) {
		p := u.parent()
		if c := p.parent(); p.is("argument_list") && c.is("call") && c.parent().is("subscript") {
			if name := c.field("function").text(); name == "list" || name == "tuple" { // list(queue)[-40:]
				u, p = c, c.parent()
			}
		}
		switch {
		case p.is("assignment") && p.field("left").i == u.i, u.inside(g.at) && u.i == g.into.i:
		case p.is("attribute") && (p.field("attribute").text() == "append" || p.field("attribute").text() == "extend"):
		case p.is("subscript") && p.field("value").i == u.i && strings.HasPrefix(p.field("subscript").text(), "-"):
			reads++
		case p.is("subscript") && p.field("value").i == u.i && f.fits(firstItems, p.field("subscript").text()):
			reads++
		case p.is("argument_list") && f.dotted(p.parent().field("function")) == "len":
		case p.is("if_statement", "while_statement", "not_operator", "boolean_operator"): // is there anything?
		case p.is("attribute") && p.field("attribute").text() == "sort":
		default:
			return false
		}
	}
	return reads > 0
}

// neverRead finds lists that get a tensor with each step and that nothing reads (MG122).
func neverRead(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		h, ok := f.holderOf(g.into)
		if !ok || h.attr || h.scope != fn || isNumber(f, g.value) || f.grade(g.value).graph() ||
			!f.tensorish(g.value) {
			continue // what carries a graph is MG103's
		}
		loop := f.holderLoop(h, g.at)
		if !loop.ok() || h.scope == f.module && f.src.notebook || !f.growsFreely(h, g, loop) || f.isRead(h) ||
			f.madeAround(h, g.at) && !f.fits(loaderName, loop.field("right").text()) ||
			h.scope == f.module && f.fromModel(fn, g.value) && f.epochs(h, g.at) { // MG105's
			continue
		}
		r.report(g.at, fmt.Sprintf("%s gets a tensor with each step, and nothing reads it", quote(h.name)),
			"leave it out, or keep what will be read: a number (.item()), the newest", held(h.name))
	}
}

// isRead reports whether anything but its own growth names a container, or may do so by its name as text.
func (f *file) isRead(h holder) bool {
	for _, name := range []string{"locals", "globals", "vars", "exec"} {
		for _, c := range f.byName[name] {
			if !c.receiver().ok() {
				return true
			}
		}
	}
	f.growths()
	for _, u := range f.uses(h) {
		p := u.parent()
		if p.is("argument_list") && f.dotted(p.parent().field("function")) == "len" {
			continue // its length can be counted
		}
		if p.is("pattern_list", "tuple_pattern") && p.parent().is("assignment") &&
			p.cell().field == f.g.fields["left"] {
			continue // bank, step = [], 0
		}
		if !f.index.into[u.i] && !(p.is("assignment") && p.field("left").i == u.i) {
			return true
		}
	}
	return false
}
