package check

import (
	"fmt"
	"slices"
	"strings"
)

// retainGraph finds backward(retain_graph=True) in a loop where nothing else needs the graph (MG106).
func retainGraph(f *file, r *reporter) {
	for _, c := range f.byName["backward"] {
		if c.keyword("retain_graph").text() != "True" {
			continue
		}
		loop := f.stepLoopOf(c.node)
		fn := f.function(c.node)
		if !loop.ok() || f.loops(c.node)[0].i != loop.i || f.otherGradients(fn, c) || f.carry(fn, c, loop).ok() ||
			!f.forwardIn(fn, c, loop) {
			continue
		}
		r.report(c.node, "backward(retain_graph=True) in a loop keeps each step's graph and what it saved until the "+
			"loss is rebound",
			"leave retain_graph out; if PyTorch then says \"backward through the graph a second time\", detach what "+
				"comes from the last step",
			held(f.plain(c.receiver())), suggested(withoutArgument(c, "retain_graph")...))
	}
}

// forwardIn reports whether the loop makes the graph anew. One that goes through the rows of a result, one backward()
// for each, needs the graph until its end.
func (f *file) forwardIn(fn *function, back call, loop node) bool {
	of, _ := f.backwardOf(back)
	for depth, open := 0, of; depth < maxTensorDepth && len(open) > 0; depth++ {
		var more []node
		for _, n := range open {
			if slices.ContainsFunc(f.callsIn(n), func(c call) bool { return c.i != back.i && f.makesGraph(c) }) {
				return true
			}
			for _, name := range f.carried(n) {
				for _, b := range fn.boundIn(name, loop) {
					if f.spend(1); b.kind != "for" && b.value.ok() {
						more = append(more, b.value)
					}
				}
			}
		}
		open = more
	}
	return false
}

// makesGraph reports whether a call is a forward pass: neither a loss of what is there, nor a method of a tensor.
func (f *file) makesGraph(c call) bool {
	name := c.last()
	if c.receiver().ok() && (sameTensor[name] || toDetached[name] || name == "scale") || f.fits(lossCall, name) {
		return f.isModel(c)
	}
	return len(c.args())+len(c.values()) > 0 && !strings.HasPrefix(c.name, "torch.")
}

// otherGradients reports whether a function asks for gradients more than once: then the graph is wanted.
func (f *file) otherGradients(fn *function, but call) bool {
	for _, name := range []string{"backward", "grad", "manual_backward", "step_fn", "jacobian", "hessian"} {
		for _, c := range fn.calls[name] {
			if c.i != but.i && (name != "grad" || strings.Contains(c.name, "autograd")) {
				return true
			}
		}
	}
	return f.conditional(but.node)
}

// conditional reports whether a node stands under an if within its loop.
func (f *file) conditional(n node) bool {
	return n.ok() && f.places[n.i].under
}

// carry is the call whose result the next round of the loop puts in again with its graph: out, h = rnn(x, h).
func (f *file) carry(fn *function, back call, loop node) node {
	for _, c := range f.callsIn(loop) {
		if f.function(c.node) != fn || c.inside(back.node) {
			continue
		}
		left := c.parent().field("left")
		if !c.parent().is("assignment") || !left.is("pattern_list", "tuple_pattern", "identifier") {
			continue
		}
		for _, name := range f.carried(left) {
			if f.passes(c, name) && f.madeBefore(fn, name, loop) && !f.cutIn(fn, name, c.parent(), loop) &&
				f.isModel(c) {
				return c.parent()
			}
		}
	}
	return node{}
}

// passes reports whether a call gets a variable as an argument.
func (f *file) passes(c call, name string) bool {
	for _, a := range append(c.args(), c.values()...) {
		if f.plain(a.bare()) == name {
			return true
		}
	}
	return false
}

func (f *file) madeBefore(fn *function, name string, loop node) bool {
	for _, b := range fn.bindings[name] {
		f.spend(1)
		if b.at.start() > loop.start() {
			break
		}
		if b.at.end() <= loop.start() {
			return true
		}
	}
	return false
}

// cutIn reports whether the loop gives a variable another value than the call does: h = h.detach().
func (f *file) cutIn(fn *function, name string, but, loop node) bool {
	for _, b := range fn.boundIn(name, loop) {
		if b.at.i != but.i {
			return true
		}
	}
	return false
}

// carriedState finds states that take the graph of all steps along, and the retain_graph that makes it pass (MG107).
func carriedState(f *file, r *reporter) {
	for _, c := range f.byName["backward"] {
		if c.keyword("retain_graph").text() != "True" {
			continue
		}
		loop := f.stepLoopOf(c.node)
		if !loop.ok() {
			continue
		}
		if at := f.carry(f.function(c.node), c, loop); at.ok() {
			r.report(at, "the state of the last step comes with its graph: with retain_graph=True the graph of all "+
				"steps is kept",
				"detach the state before each step (h = h.detach()) and leave retain_graph out", with(c.node))
		}
	}
}

// createGraph finds backward(create_graph=True) whose gradients are not set to None (MG108).
func createGraph(f *file, r *reporter) {
	for _, c := range f.byName["backward"] {
		fn := f.function(c.node)
		if c.keyword("create_graph").text() != "True" || fn.name == "backward" || f.firstOnly(c.node) {
			continue
		}
		freed := false
		for _, z := range fn.calls["zero_grad"] {
			freed = freed || z.keyword("set_to_none").text() != "False"
		}
		for _, name := range fn.names {
			for _, b := range fn.bindings[name] {
				freed = freed || strings.HasSuffix(name, ".grad") && b.value.text() == "None"
			}
		}
		if !freed {
			r.report(c.node, "backward(create_graph=True) makes each parameter and its gradient hold each other",
				"use torch.autograd.grad(loss, params, create_graph=True), or set every p.grad to None after the step")
		}
	}
}

// exceptionKept finds exceptions that are stored with their tracebacks, whose frames hold tensors (MG109).
func exceptionKept(f *file, r *reporter) {
	f.root().all(func(n node) bool {
		if n.is("except_clause") {
			f.keptException(n, r)
		}
		return true
	})
}

func (f *file) keptException(clause node, r *reporter) {
	name := exceptionName(clause)
	try := clause.parent()
	fn := f.function(clause)
	if name == "" || !f.stepLoopOf(try).ok() && !fn.hook() || !f.runsModel(try.field("body")) {
		return
	}
	for _, g := range f.growthsIn(clause) {
		if !f.holdsName(g.value, name) {
			continue
		}
		if h, ok := f.holderOf(g.into); ok && f.growsFreely(h, g, f.stepLoopOf(g.at)) {
			r.report(g.at, fmt.Sprintf("%s keeps exceptions; each keeps its frames, and they the step's tensors",
				quote(h.name)),
				"keep str("+name+"), or "+name+".with_traceback(None)", held(h.name))
		}
	}
}

// exceptionName is what "except E as NAME" binds.
func exceptionName(clause node) string {
	if alias := clause.field("alias"); alias.ok() {
		return alias.text()
	}
	for _, c := range clause.children() {
		if c.is("as_pattern") {
			return c.lastChild().text()
		}
	}
	return ""
}

// holdsName reports whether a value is a variable or a literal with it.
func (f *file) holdsName(n node, name string) bool {
	n = n.bare()
	if n.is("tuple", "list", "dictionary", "pair") {
		for _, c := range n.children() {
			if f.holdsName(c, name) {
				return true
			}
		}
		return false
	}
	return n.is("identifier") && n.text() == name
}

// runsModel reports whether a block makes a step or calls a model.
func (f *file) runsModel(n node) bool {
	runs, known := f.index.runs[n.i]
	if !known {
		runs = f.findRun(n)
		f.index.runs[n.i] = runs
	}
	return runs
}

func (f *file) findRun(n node) bool {
	return n.any(func(at node) bool {
		if !at.is("call") {
			return false
		}
		c := call{at, f.dotted(at.field("function"))}
		return c.last() == "backward" || c.last() == "train_step" || c.last() == "training_step" || f.isModel(c)
	})
}

// retryInExcept finds second tries inside the handler of an out-of-memory error, where the first one's tensors are
// still held by the exception (MG110).
func retryInExcept(f *file, r *reporter) {
	f.root().all(func(n node) bool {
		if !n.is("except_clause") || n.child().is("block") {
			return true
		}
		head := n.child().text()
		body := n.lastChild()
		oom := strings.Contains(head, "OutOfMemoryError") ||
			strings.Contains(head, "RuntimeError") && strings.Contains(body.text(), "out of memory")
		if !oom || !f.runsModel(n.parent().field("body")) {
			return true
		}
		body.all(func(at node) bool {
			if at.is("call") {
				c := call{at, f.dotted(at.field("function"))}
				if c.last() == "backward" || f.isModel(c) {
					r.report(at, "a second try inside the handler: the exception still holds the first one's frames "+
						"and tensors",
						"set a flag in the handler and try again after it")
					return false
				}
			}
			return true
		})
		return true
	})
}

// tensorCache finds caches that are keyed by tensors, or by their shapes without a bound (MG111).
func tensorCache(f *file, r *reporter) {
	for _, fn := range f.funcs {
		for _, d := range fn.decorators {
			if !endsIn(d, "lru_cache", "functools.cache") && d != "cache" {
				continue
			}
			if p := f.tensorParam(fn); p.ok() {
				r.report(p, fmt.Sprintf("the cache of %s() keeps every tensor that it was called with", fn.name),
					"cache by a number or a shape, with a maxsize; a tensor is hashed by identity and never found "+
						"again", held(fn.name))
			}
		}
		f.shapeCache(fn, r)
	}
}

// tensorParam is a parameter that is said to be a tensor.
func (f *file) tensorParam(fn *function) node {
	for _, p := range fn.field("parameters").children() {
		if t := p.field("type"); t.ok() && strings.HasSuffix(t.text(), "Tensor") {
			return p
		}
	}
	return node{}
}

func (f *file) shapeCache(fn *function, r *reporter) {
	for _, name := range fn.names {
		for _, b := range fn.bindings[name] {
			if b.kind != "=" || !b.target.is("subscript") {
				continue
			}
			key := b.target.field("subscript")
			if k, ok := f.latest(fn, f.plain(key), b.at); ok && key.is("identifier") && k.value.ok() {
				key = k.value
			}
			content := strings.Contains(key.text(), ".tolist()") // of a tensor: hardly ever the same again
			if !content && !(fn.name == "forward" || fn.hook()) ||
				!content && !strings.Contains(key.text(), ".shape") && !strings.Contains(key.text(), ".size(") &&
					!strings.Contains(key.text(), "data_ptr()") && !strings.HasPrefix(key.text(), "id(") {
				continue
			}
			h, ok := f.holderOf(b.target.field("value"))
			if !ok || !h.attr && !(content && h.scope == f.module && fn != f.module) ||
				f.isEmptied(h, node{}, node{}) || !f.plainDict(h) || f.grade(b.value) < detached &&
				!f.makesTensor(b.value) {
				continue
			}
			what := "shape"
			if content {
				what = "batch's numbers"
			}
			r.report(b.at, fmt.Sprintf("%s keeps a tensor for every %s that comes by, without a bound",
				quote(h.name), what),
				"bound it: an OrderedDict that drops the oldest, or one buffer of the largest shape", held(h.name))
		}
	}
}

func (f *file) plainDict(h holder) bool {
	container, _ := f.madeAs(h)
	return container
}

func (f *file) makesTensor(n node) bool {
	return n.any(func(at node) bool {
		return at.is("call") && strings.HasPrefix(f.dotted(at.field("function")), "torch.")
	})
}

// contextOutput finds autograd functions whose context keeps the output, or a closure over tensors (MG112).
func contextOutput(f *file, r *reporter) {
	for _, fn := range f.funcs {
		if fn.name != "forward" || fn.class == nil || len(fn.params) == 0 ||
			!endsIn(f.joined(fn.class.bases), "Function", "autograd.Function") {
			continue
		}
		ctx := fn.params[0]
		for _, name := range fn.names {
			if !strings.HasPrefix(name, ctx+".") {
				continue
			}
			for _, b := range fn.bindings[name] {
				if b.value.is("lambda") {
					r.report(b.at, fmt.Sprintf("%s is a closure: it keeps the tensors that it uses for as long as the "+
						"graph lives", quote(name)),
						"save_for_backward() the tensors and compute in backward()", held(name))
				} else if b.value.is("identifier") && f.isReturned(fn, b.value.text()) && f.grade(b.value) != scalar {
					r.report(b.at, fmt.Sprintf("%s keeps the output, whose graph keeps the context: a circle that is "+
						"never freed", quote(name)),
						ctx+".save_for_backward("+b.value.text()+")", held(name))
				}
			}
		}
	}
}

// isReturned reports whether a function returns a variable that it has made.
func (f *file) isReturned(fn *function, name string) bool {
	if len(fn.bindings[name]) == 0 {
		return false
	}
	for _, ret := range fn.returns {
		ret = ret.bare()
		if ret.text() == name {
			return true
		}
		for _, c := range ret.children() {
			if ret.is("expression_list", "tuple") && c.text() == name {
				return true
			}
		}
	}
	return false
}

// viewKept finds slices of a model's output that are collected: each keeps the whole (MG113).
func viewKept(f *file, r *reporter) {
	for _, g := range f.growths() {
		v := g.value.bare()
		for v.is("call") && endsIn(f.dotted(v.field("function")), "detach", "squeeze", "view", "numpy") && (call{v,
			""}).receiver().ok() {
			v = call{v, ""}.receiver()
		}
		if endsIn(f.dotted(g.at.field("function")), "extend") || !v.is("subscript") || !f.stepLoopOf(g.at).ok() ||
			!g.at.is("call") || !isView(v) {
			continue
		}
		h, ok := f.holderOf(g.into)
		fn := f.function(g.at)
		if !ok || !f.fromModel(fn, v.field("value")) || !f.holderLoop(h, g.at).ok() || fn.flows[h.name] ||
			!f.growsFreely(h, g, f.stepLoopOf(g.at)) {
			continue
		}
		r.report(g.at, fmt.Sprintf("%s gets a view: each item keeps the whole of %s", quote(h.name),
			quote(v.field("value").text())),
			"add "+clip(v.text())+".clone(), or .cpu() on a GPU", held(h.name))
	}
}

// isView reports whether a subscript takes a part of a tensor without copying: [:, 0], not [mask] or ["key"].
func isView(n node) bool {
	slices, numbers := 0, 0
	for c := n.field("value").next(); c.ok(); c = c.next() {
		switch c.kind() {
		case "slice":
			slices++
		case "integer", "unary_operator":
			numbers++
		default:
			return false
		}
	}
	return slices > 0 && numbers > 0
}

// modelCopies finds copies of a model or its weights of which each epoch adds one (MG114).
func modelCopies(f *file, r *reporter) {
	for _, g := range f.growths() {
		if !g.value.any(func(n node) bool {
			name := f.dotted(n.field("function"))
			return n.is("call") && (name == "copy.deepcopy" && f.fits(modelCall, call{n, name}.arg(0).text()) ||
				last(name) == "state_dict" && !strings.Contains(name, "()"))
		}) {
			continue
		}
		loop := f.stepLoopOf(g.at)
		h, ok := f.holderOf(g.into)
		if !ok || !loop.ok() || !f.holderLoop(h, g.at).ok() || !f.growsFreely(h, g, loop) ||
			f.holding(h).returned && f.conditional(g.at) {
			continue
		}
		r.report(g.at, fmt.Sprintf("%s keeps a copy of the weights for every round", quote(h.name)),
			"keep the best or the last few, or write them to disk", held(h.name))
	}
}

// hooksEachStep finds hooks that every step adds to a module (MG116).
func hooksEachStep(f *file, r *reporter) {
	for _, name := range []string{"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
		"register_backward_hook", "register_full_backward_pre_hook", "register_module_forward_hook"} {
		for _, c := range f.byName[name] {
			fn := f.function(c.node)
			loop := f.stepLoopOf(c.node)
			if !loop.ok() && !(fn.name == "forward" && fn.class.isModule()) && !fn.hook() && !f.calledByStep(fn) ||
				f.removesHooks(fn) || f.conditional(c.node) || loop.ok() && f.madeIn(fn, c.receiver(), loop) {
				continue
			}
			r.report(c.node, "every step registers one more hook on the same module: they and what they hold add up",
				"register it once before the loop, or call handle.remove() after the step", held(f.plain(c.receiver())))
		}
	}
}

// calledByStep reports whether a function is called by a loop that trains or evaluates, and by nothing else.
func (f *file) calledByStep(fn *function) bool {
	calls := f.byName[fn.name]
	for _, c := range calls {
		if !f.stepLoopOf(c.node).ok() {
			return false
		}
	}
	return len(calls) > 0 && !fn.node.is("module") && fn.class == nil
}

// removesHooks reports whether a function, or its class, takes hooks off again.
func (f *file) removesHooks(fn *function) bool {
	for _, c := range f.byName["remove"] {
		if in := f.function(c.node); in == fn || fn.class != nil && in.class == fn.class {
			return true
		}
	}
	return false
}

// madeIn reports whether what an expression begins with is made within the loop: a fresh object for each round.
func (f *file) madeIn(fn *function, n node, loop node) bool {
	root, _, _ := strings.Cut(f.plain(n), ".")
	root, _, _ = strings.Cut(root, "[")
	root = strings.TrimSuffix(root, "()")
	return len(fn.boundIn(root, loop)) > 0
}

// evalWithGradients finds evaluations that build graphs for nothing (MG117).
func evalWithGradients(f *file, r *reporter) {
	told := map[*function]bool{}
	for _, c := range f.byName["eval"] {
		fn := f.function(c.node)
		if !c.parent().is("expression_statement") || len(c.args()) > 0 || fn.hasBack || f.wantsGradients(fn) {
			continue
		}
		model := f.plain(c.receiver())
		if told[fn] || f.volatile() || f.guardedElsewhere(fn, noGradients) {
			continue
		}
		for _, m := range f.callsIn(fn.node) {
			if f.function(m.node) != fn || f.frozenBefore(fn, model) || f.plain(m.field("function")) != model ||
				m.start() < c.start() ||
				f.gradOff(m.node) {
				continue
			}
			loop := f.stepLoopOf(m.node)
			if unquoted(m.keyword("mode")) == "inference" { // the model sees to it
				continue
			}
			if !loop.ok() || !f.fits(loaderName, loop.field("right").text()) {
				continue
			}
			r.report(m.node, "an evaluation with gradients on: each batch builds a graph that nothing uses",
				"put the loop under torch.no_grad() or torch.inference_mode()", with(c.node), f.withoutGradients(fn))
			told[fn] = true // one mistake, however many models it evaluates
			break
		}
	}
}

// withoutGradients is the suggestion to run a function without gradients.
func (f *file) withoutGradients(fn *function) option {
	if !fn.is("function_definition") || f.imports["torch"] != "torch" || fn.firstChild().is("decorator") ||
		fn.parent().is("decorated_definition") {
		return func(*reporter, *Finding) {}
	}
	return suggested(Edit{fn.start(), fn.start(), "@torch.no_grad()\n" + f.src.indent(fn.start())})
}

// volatile reports whether a file switches gradients off as PyTorch 0.3 did.
func (f *file) volatile() bool {
	return f.mentions("volatile=True")
}

// frozenBefore reports whether a function freezes a model: model.freeze() switches all of its gradients off.
func (f *file) frozenBefore(fn *function, model string) bool {
	for _, name := range []string{"freeze", "requires_grad_"} {
		for _, c := range fn.calls[name] {
			if f.plain(c.receiver()) == model {
				return true
			}
		}
	}
	return false
}

// wantsGradients reports whether a function, for all that it evaluates, asks for gradients or switches them.
func (f *file) wantsGradients(fn *function) bool {
	for _, name := range []string{"grad", "requires_grad", "requires_grad_", "autograd", "no_grad", "inference_mode",
		"set_grad_enabled", "jacobian", "retain_grad", "enable_grad", "attack", "perturb", "adversary", "fgsm", "pgd",
		"PGD", "FGSM", "autoattack", "AutoAttack"} {
		if len(f.usesIn(name, fn.node)) > 0 {
			return true
		}
	}
	return false
}
