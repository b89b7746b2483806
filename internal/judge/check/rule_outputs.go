package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

var tensorName = pattern.Of(`(?i)(pred|logit|output|target|label|embed|feat|hidden|loss|batch|image|mask|` +
	`prob|latent|sample|attn|attention|recon)`)

// tensorish reports whether a value is likely to be a tensor or to hold some, of a size that matters: no number.
func (f *file) tensorish(n node) bool {
	n = n.bare()
	if g := f.grade(n); g == scalar {
		return false
	} else if g >= detached {
		return true
	}
	switch n.kind() {
	case "dictionary", "tuple", "list", "set":
		for _, c := range n.children() {
			if c.is("pair") {
				c = c.field("value")
			}
			if f.tensorish(c) {
				return true
			}
		}
		return false
	case "call":
		c := call{n, f.dotted(n.field("function"))}
		switch name := c.last(); {
		case toScalar[name], builtinScalar[name], name == "mean", name == "sum":
			return false
		case sameTensor[name], toDetached[name]:
			return c.receiver().ok() && f.tensorish(c.receiver())
		}
		return false
	case "identifier":
		return f.fits(tensorName, n.text()) && !strings.Contains(strings.ToLower(n.text()), "idx")
	case "subscript":
		return f.tensorish(n.field("value"))
	}
	return false
}

// stepList is what Lightning's documents call the list of a step's outputs.
var stepList = pattern.Of(`^self\.(training|train|validation|val|test|predict)_step_outputs$`)

// stepOutputs finds lists of a hook that only ever grow (MG102).
func stepOutputs(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		h, ok := f.holderOf(g.into)
		documented := !ok && h.attr && f.fits(stepList, h.name)
		if !g.at.is("call") || !fn.hook() && !(documented && fn == f.module) {
			continue
		}
		if documented { // made by whoever holds the rest of the class
			ok = !f.isEmptied(h, node{}, g.at)
		} else {
			ok = ok && h.attr && f.growsFreely(h, g, node{})
		}
		if !ok || !f.tensorish(g.value) || f.numbers(g) {
			continue
		}
		o := []option{held(h.name)}
		for _, b := range h.made {
			o = append(o, with(b.at))
		}
		if e := f.clearFix(h, fn); e != nil {
			o = append(o, fixed(e...))
		}
		step := fn.name
		if !fn.hook() { // a piece of a document, without its hook: the list is named after it
			step = last(h.name)
		}
		r.report(g.at, fmt.Sprintf("%s gets the outputs of every %s and nothing clears it", quote(h.name),
			stepOf(step)),
			"call "+h.name+".clear() at the end of "+endOf(step), o...)
	}
}

// numbers reports whether a list is extended by the numbers of an array: a history that somebody plots.
func (f *file) numbers(g growth) bool {
	v := g.value.bare()
	return last(f.dotted(g.at.field("function"))) == "extend" && (v.is("call") &&
		endsIn(f.dotted(v.field("function")), "numpy", "tolist", "flatten") || v.is("identifier"))
}

func stepOf(hook string) string {
	for _, phase := range []string{"validation", "test", "predict", "eval"} {
		if strings.Contains(hook, phase) {
			return phase + " step"
		}
	}
	return "step"
}

// endOf is the hook in which what a step's hook has collected is used up.
func endOf(hook string) string {
	switch {
	case strings.Contains(hook, "validation"), strings.HasPrefix(hook, "val"):
		return "on_validation_epoch_end"
	case strings.Contains(hook, "test"):
		return "on_test_epoch_end"
	case strings.Contains(hook, "predict"):
		return "on_predict_epoch_end"
	}
	return "on_train_epoch_end"
}

// clearFix empties the container at the end of the hook that uses it up, where that is the only one that reads it: what
// nobody reads any more can't change a result.
func (f *file) clearFix(h holder, fn *function) []Edit {
	if fn.class == nil {
		return nil
	}
	end := fn.class.methods[endOf(fn.name)]
	if end == nil || len(end.returns) > 0 {
		return nil
	}
	reads := 0
	for _, u := range f.uses(h) {
		in := f.function(u)
		switch {
		case in == end:
			reads++
		case in == fn || constructor(in.name):
		default:
			return nil
		}
	}
	body := end.field("body")
	final := body.lastChild()
	if reads == 0 || !final.ok() || final.is("return_statement", "raise_statement") || f.escapes(h, end) {
		return nil
	}
	return f.lineAfter(final, h.name+".clear()")
}

// escapes reports whether a function stores or hands on the container itself, which clear() would then empty for
// others.
func (f *file) escapes(h holder, fn *function) bool {
	for _, u := range f.uses(h) {
		if f.function(u) == fn && u.parent().is("assignment", "pair", "list", "tuple", "return_statement",
			"keyword_argument") {
			return true
		}
	}
	return false
}

// objectOutputs finds objects whose methods keep the outputs of each step in a list that nothing clears (MG105).
func objectOutputs(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		if fn.hook() || constructor(fn.name) || fn.name == "forward" || !g.at.is("call") {
			continue
		}
		h, ok := f.holderOf(g.into)
		if !ok || !f.growsFreely(h, g, node{}) {
			continue
		}
		grade := f.grade(g.value)
		if grade < detached || !f.fromModel(fn, g.value) || f.numbers(g) {
			continue
		}
		outlives := h.attr && (fn.hasBack || f.calledInLoop(fn)) || !h.attr && h.scope != nil &&
			h.scope.node.is("module") &&
			h.scope != fn && f.calledInLoop(fn) || !h.attr && h.scope == f.module && fn == f.module && f.epochs(h, g.at)
		if !outlives || fn.flows[h.name] {
			continue
		}
		o := []option{held(h.name)}
		for _, b := range h.made {
			o = append(o, with(b.at))
		}
		r.report(g.at, fmt.Sprintf("%s gets the outputs of every step and nothing clears it", quote(h.name)),
			"clear it when the epoch's metrics are made, keep numbers (.item()), or bound it: deque(maxlen=…)", o...)
	}
}

// epochs reports whether a place lies in a loop over batches within one over epochs, and the container is made before
// both.
func (f *file) epochs(h holder, at node) bool {
	n := 0
	for _, l := range f.loops(at) {
		if len(h.madeIn(l)) > 0 {
			return false
		}
		if f.kindOf(l) == stepLoop {
			n++
		}
	}
	return n >= 2
}

// fromModel reports whether a tensor comes out of a model or of a hook's batch: of a size that matters.
func (f *file) fromModel(fn *function, n node) bool {
	found := false
	seen := map[int32]bool{}
	for depth, open := 0, []node{n}; depth < 4 && !found; depth++ {
		var more []node
		for _, at := range open {
			if seen[at.i] {
				continue
			}
			seen[at.i] = true
			found = found || at.any(func(x node) bool {
				return x.is("call") && f.isModel(call{x, f.dotted(x.field("function"))}) && !isReduced(f, x)
			})
			for _, name := range f.names(at) {
				if b, ok := f.latest(fn, name, at); ok && b.value.ok() {
					more = append(more, b.value)
				}
			}
		}
		open = more
	}
	return found
}

// isReduced reports whether a call's result goes into a loss at once: a single number.
func isReduced(f *file, n node) bool {
	for up := n.parent().up("call"); up.ok(); up = up.parent().up("call") {
		if name := last(f.dotted(up.field("function"))); f.fits(lossCall, name) || name == "mean" || name == "sum" {
			return true
		}
	}
	return false
}

// names are the variables in an expression that isn't reduced to a number.
func (f *file) names(n node) (names []string) {
	n.all(func(at node) bool {
		if at.is("call") {
			name := last(f.dotted(at.field("function")))
			if f.fits(lossCall, name) || name == "mean" || name == "sum" || toScalar[name] {
				return false
			}
		}
		if at.is("identifier") && !at.parent().is("keyword_argument") {
			names = append(names, at.text())
		}
		return true
	})
	return names
}

// calledInLoop reports whether a function is called in a loop over steps, or by one that is.
func (f *file) calledInLoop(fn *function) bool {
	seen := map[*function]bool{fn: true}
	for depth, open := 0, []*function{fn}; depth < 4; depth++ {
		var callers []*function
		for _, fn := range open {
			for _, c := range f.byName[fn.name] {
				if c.inside(fn.node) || (fn.class != nil) != c.receiver().ok() {
					continue
				}
				for _, l := range f.loops(c.node) {
					if f.kindOf(l) == stepLoop || f.fits(loaderName, l.field("right").text()) {
						return true
					}
				}
				if caller := f.function(c.node); !seen[caller] && !caller.node.is("module") {
					seen[caller] = true
					callers = append(callers, caller)
				}
			}
		}
		open = callers
	}
	return false
}

// meters finds meters of the file's own that add up what they get, and get a loss with its graph (MG104).
func meters(f *file, r *reporter) {
	for _, c := range f.classes {
		if c.isModule() || c.isLightning() {
			continue
		}
		for _, name := range []string{"update", "add", "append", "push", "log", "__call__", "record", "store"} {
			if m := c.methods[name]; m != nil && !f.gradOff(m.field("body")) {
				f.meter(c, m, r)
			}
		}
	}
	f.foreignMeters(r)
}

// foreignMeters finds those of other files.
func (f *file) foreignMeters(r *reporter) {
	if f.project == nil {
		return
	}
	for _, c := range f.calls {
		if on := c.receiver(); !on.ok() || on.text() == "self" || !keepers[c.last()] {
			continue
		}
		t := f.foreign(c)
		if t == nil || len(t.keeps) == 0 || f.gradOff(c.node) {
			continue
		}
		for _, p := range t.keeps {
			if arg := t.given(c, p); arg.ok() && f.grade(arg) >= strong {
				f.tellMeter(c, arg, f.makersOf(f.plain(c.receiver()))[0], r)
			}
		}
	}
}

// tellMeter reports that a meter's method is given a graph that its object keeps.
func (f *file) tellMeter(c call, arg node, class string, r *reporter, more ...option) {
	o := append(more, held(f.plain(c.receiver())), f.detached(arg))
	r.report(c.node, fmt.Sprintf("%s.%s() keeps %s with its autograd graph", last(class), c.last(), quote(arg.text())),
		"pass "+clip(arg.text())+".item(), or detach inside "+c.last()+"()", o...)
}

// meter looks for calls of a meter's method with a graph, if the method keeps what it is given.
func (f *file) meter(c *class, m *function, r *reporter) {
	calls := f.callsOn(c, m.name)
	if len(calls) == 0 {
		return
	}
	for i, p := range m.params {
		if i == 0 || !f.keepsParam(c, m, p) {
			continue
		}
		for _, call := range calls {
			if call.inside(c.node) || f.gradOff(call.node) {
				continue
			}
			for _, arg := range call.givenTo(m, i, p) {
				if arg.ok() && f.grade(arg) >= strong {
					f.tellMeter(call, arg, c.name, r, with(m.node))
				}
			}
		}
	}
}

// countName are parameters that say how often a value counts.
var countName = pattern.Of(`(?i)^(n|num|k|count|size|weight|batch_size|w|times|n_\w+|num_\w+)$`)

// givenTo is what a call gives to a method's parameter: to **losses all keywords that have no parameter of their own.
func (c call) givenTo(m *function, i int, param string) (list []node) {
	if param == m.keywords {
		for _, n := range c.field("arguments").children() {
			if n.is("keyword_argument") && !m.isParam[n.field("name").text()] {
				list = append(list, n.field("value"))
			}
		}
		return list
	}
	if arg := c.arg(i - 1); arg.ok() {
		return []node{arg}
	}
	return []node{c.keyword(param)}
}

// keepsParam reports whether a method adds a parameter to what its object keeps.
func (f *file) keepsParam(c *class, m *function, param string) bool {
	if len(m.bindings[param]) > 0 || f.fits(countName, param) {
		return false // made another value first, or a number
	}
	uses := func(n node) bool {
		return slices.ContainsFunc(f.carried(n), func(name string) bool {
			return name == param || f.itemOf(m, name, param)
		})
	}
	for _, name := range m.names {
		for _, b := range m.bindings[name] {
			if strings.HasPrefix(name, "self.") && b.value.ok() && f.addedTo(name, b).ok() && uses(b.value) {
				return true
			}
		}
	}
	for _, g := range f.growthsOf(m) {
		if !uses(g.value) {
			continue
		}
		if h, ok := f.holderOf(g.into); ok && h.attr && f.growsFreely(h, g, node{}) {
			return true
		}
	}
	return false
}

// itemOf reports whether a loop takes a name out of a parameter: for name, loss in losses.items().
func (f *file) itemOf(fn *function, name, param string) bool {
	return slices.ContainsFunc(fn.bindings[name], func(b binding) bool {
		over := b.value.bare()
		if c := (call{over, f.dotted(over.field("function"))}); over.is("call") && endsIn(c.name, "items", "values") {
			over = c.receiver()
		}
		return b.kind == "for" && over.is("identifier") && over.text() == param && !endsIn(name, "name", "key", "k")
	})
}

// callsOn are the calls of a method on names that were made by a call of the class.
func (f *file) callsOn(c *class, method string) []call {
	byClass, known := f.index.on[method]
	if !known {
		byClass = map[string][]call{}
		for _, on := range f.byName[method] {
			if on.receiver().ok() {
				for _, class := range f.makersOf(f.plain(on.receiver())) {
					byClass[class] = append(byClass[class], on)
				}
			}
		}
		if method == "__call__" {
			for _, on := range f.calls {
				for _, class := range f.makersOf(f.plain(on.field("function"))) {
					byClass[class] = append(byClass[class], on)
				}
			}
		}
		f.index.on[method] = byClass
	}
	return byClass[c.name]
}

// placed is a call without what only says where and how its result is to be: Net(8) of Net(8).to(device).eval().
func (f *file) placed(v node) node {
	for v.is("call") && v.field("function").is("attribute") && places[v.field("function").field("attribute").text()] {
		on := v.field("function").field("object").bare()
		if !on.is("call") {
			break
		}
		f.spend(1)
		v = on
	}
	return v
}

var places = set("to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_")

// makersOf are the functions whose results a name is given, each once.
func (f *file) makersOf(name string) []string {
	list, known := f.index.makers[name]
	if !known {
		seen := map[string]bool{}
		for _, b := range f.index.bound[name] {
			if v := f.placed(b.value.bare()); v.is("call") && !seen[f.dotted(v.field("function"))] {
				maker := f.dotted(v.field("function"))
				seen[maker] = true
				list = append(list, maker)
			}
		}
		f.index.makers[name] = list
	}
	return list
}

// stepReturns finds training steps whose results are kept for training_epoch_end with their graphs (MG115).
func stepReturns(f *file, r *reporter) {
	for _, c := range f.classes {
		step, end := c.methods["training_step"], c.methods["training_epoch_end"]
		if step == nil || end == nil {
			continue
		}
		for _, ret := range step.returns {
			for _, p := range ret.bare().children() {
				key, v := strings.Trim(p.field("key").text(), `"'`), p.field("value")
				if ret.bare().is("dictionary") && key != "loss" && v.ok() && f.grade(v).graph() {
					o := []option{with(end.node)}
					if e := f.detachFix(v); e != nil {
						o = append(o, fixed(e...))
					}
					r.report(p, fmt.Sprintf("%s is kept with its graph until training_epoch_end", quote(v.text())),
						"return "+clip(v.text())+".detach()", o...)
				}
			}
		}
	}
}

// epochEndCleanup finds ends of epochs that gather all outputs and leave them in place (MG118).
func epochEndCleanup(f *file, r *reporter) {
	said := map[string]bool{}
	for _, c := range f.classes {
		for _, fn := range c.order {
			if !fn.epochEnd() || c.methods[fn.name] != fn {
				continue
			}
			for _, n := range []string{"cat", "stack", "vstack", "concatenate"} {
				for _, call := range fn.calls[n] {
					f.gathered(c, fn, call, said, r)
				}
			}
		}
	}
}

func (f *file) gathered(c *class, fn *function, call call, said map[string]bool, r *reporter) {
	for _, name := range f.carried(call.arg(0)) {
		if !strings.HasPrefix(name, "self.") {
			continue
		}
		var h holder
		var grows growth
		for _, hook := range c.order {
			for _, g := range f.growthsOf(hook) {
				if hook.hook() && strings.HasPrefix(f.plain(g.into), name) {
					h, _ = f.holderOf(g.into)
					grows = g
				}
			}
		}
		if place := c.name + fn.name + h.name; h.name != "" && !said[place] && f.growsFreely(h, grows, node{}) {
			said[place] = true
			r.report(call.node, fmt.Sprintf("%s is gathered here at each epoch's end and left in place: no clean-up",
				quote(h.name)),
				"after the metrics: "+h.name+".clear(), del the gathered tensors; on a GPU whose cache fragments, "+
					"torch.cuda.empty_cache() once an epoch", held(h.name), with(grows.at))
			return
		}
	}
}

// resultPastEpoch finds whole epochs' results that an object keeps through the next epoch (MG119).
func resultPastEpoch(f *file, r *reporter) {
	for _, c := range f.classes {
		for _, fn := range c.order {
			if !fn.epochEnd() || !c.isLightning() || c.methods[fn.name] != fn {
				continue
			}
			for _, name := range fn.names {
				for _, b := range fn.bindings[name] {
					v := b.value.bare()
					if !strings.HasPrefix(name, "self.") || !v.is("call") || b.kind != "=" {
						continue
					}
					if !endsIn(f.dotted(v.field("function")), "torch.cat", "torch.stack", "concatenate",
						"torch.vstack") ||
						f.released(c, name, b.at) {
						continue
					}
					r.report(b.at, fmt.Sprintf("%s keeps the whole epoch's results until the next epoch's end",
						quote(name)),
						"use a local variable, keep the metrics, or set it to None when it has been used", held(name))
				}
			}
		}
	}
}

// released reports whether an attribute is deleted or set to something else again.
func (f *file) released(c *class, name string, but node) bool {
	h := holder{name: name, attr: true}
	for _, u := range f.uses(h) {
		if u.up("delete_statement").ok() {
			return true
		}
		if a := u.parent(); a.is("assignment") && a.i != but.i && !constructor(f.function(a).name) {
			return true
		}
	}
	return false
}
