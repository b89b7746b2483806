package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// growth is a place where a container gets one more item.
type growth struct {
	at    node // the call or the statement
	into  node
	value node
	by    bool // a helper that is called here adds it
}

func (f *file) findGrowths() (list []growth) {
	list = []growth{}
	for _, name := range []string{"append", "extend", "add", "appendleft"} {
		for _, c := range f.byName[name] {
			if c.receiver().ok() && len(c.args()) == 1 && c.parent().is("expression_statement", "lambda") {
				list = append(list, growth{c.node, c.receiver(), c.arg(0), false})
			}
		}
	}
	for _, fn := range f.funcs {
		for _, name := range fn.names {
			for _, b := range fn.bindings[name] {
				switch {
				case b.kind == "=" && b.target.is("subscript") && !b.target.field("subscript").is("slice", "string",
					"integer"):
					list = append(list, growth{b.at, b.target.field("value"), b.value, false})
				case b.kind == "+=" && b.value.is("list") && b.at.is("augmented_assignment"):
					list = append(list, growth{b.at, b.target, b.value, false})
				}
			}
		}
	}
	return append(append(list, f.helped(list)...), f.helpedElsewhere()...)
}

// helpedElsewhere are the calls of other files' helpers that add what they are given to a container.
func (f *file) helpedElsewhere() (more []growth) {
	if f.project == nil || !f.project.linked {
		return nil
	}
	for _, c := range f.calls {
		if t := f.foreign(c); t != nil {
			for _, g := range t.grows {
				if into, value := t.given(c, g.into), t.given(c, g.value); into.ok() && value.ok() {
					more = append(more, growth{c.node, into, value, true})
				}
			}
		}
	}
	return more
}

// helped are the calls of helpers that add what they are given to a container that they are given.
func (f *file) helped(list []growth) (more []growth) {
	for _, g := range list {
		into := g.into.bare()
		for into.is("subscript", "call") {
			if into.is("call") { // setdefault
				into = call{into, ""}.receiver().bare()
			} else {
				into = into.field("value").bare()
			}
		}
		fn := f.function(g.at)
		if p := into.text(); into.is("identifier") && fn.isParam[p] && len(fn.bindings[p]) == 0 && !f.empties(fn, p) {
			for _, c := range f.callers(fn) {
				for _, value := range f.givenTo(fn, c, g.value) {
					if to := c.given(fn, p); to.ok() {
						more = append(more, growth{c.node, to, value, true})
					}
				}
			}
		}
	}
	return more
}

// empties reports whether a function takes items out of a parameter, or looks at its length.
func (f *file) empties(fn *function, param string) bool {
	for _, u := range f.usesIn(param, fn.node) {
		p := u.parent()
		if f.places[u.i].deletes || p.is("attribute") && emptiers[p.field("attribute").text()] ||
			p.is("argument_list") && f.dotted(p.parent().field("function")) == "len" {
			return true
		}
	}
	return false
}

// givenTo are the values that a call gives to the parameters that a helper's expression takes along with their graphs.
func (f *file) givenTo(fn *function, c call, value node) (list []node) {
	for _, name := range f.carried(value) {
		if fn.isParam[name] && len(fn.bindings[name]) == 0 {
			if n := c.given(fn, name); n.ok() {
				list = append(list, n)
			}
			continue
		}
		if b, ok := f.latest(fn, name, value); ok && b.kind == "for" && fn.keywords != "" &&
			f.plain(b.value) == fn.keywords+".items()" {
			for _, k := range c.field("arguments").children() {
				if k.is("keyword_argument") && !fn.isParam[k.field("name").text()] {
					list = append(list, k.field("value"))
				}
			}
		}
	}
	return list
}

// sums finds totals that take the graph of every step along: total += loss (MG101).
func sums(f *file, r *reporter) {
	for _, fn := range f.funcs {
		for _, name := range fn.names {
			for _, b := range fn.bindings[name] {
				if added := f.addedTo(name, b); added.ok() {
					f.sum(fn, name, b, added, r)
				}
			}
		}
	}
}

// inLambda reports whether a function hands a variable on as a lambda's result: optimizer.update(lambda: loss / n) asks
// its gradients elsewhere.
func (f *file) inLambda(fn *function, name string) bool {
	return slices.ContainsFunc(f.usesIn(name, fn.node), func(n node) bool { return n.up("lambda").ok() })
}

// addedTo is what an assignment adds to a variable's old value; none if it does something else.
func (f *file) addedTo(name string, b binding) node {
	if b.target.is("subscript") && !b.target.field("subscript").is("string", "integer", "identifier", "attribute") {
		return node{}
	}
	if b.kind == "+=" {
		between := f.span(b.target.end(), b.value.start())
		if strings.Contains(between, "+=") && !b.value.is("list", "tuple") {
			return b.value
		}
	}
	if b.kind != "=" || len(b.path) > 0 {
		return node{}
	}
	values := []node{b.value.bare()}
	if values[0].is("conditional_expression") { // total = loss if total is None else total + loss
		values = values[0].children()
	}
	for _, v := range values {
		for v = v.bare(); v.is("subscript") && v.field("value").is("call"); { // torch.cat((bank, z))[-size:]
			v = v.field("value")
		}
		if v.is("binary_operator") && strings.Contains(v.text(), "+") && f.oldIn(v, name, b) {
			return v
		}
		if joined := f.joinedTo(v, name, b); joined.ok() {
			return joined
		}
	}
	return node{}
}

// oldIn reports whether an expression has the old value of what an assignment sets: x, d[k], d.get(k, 0).
func (f *file) oldIn(v node, name string, b binding) bool {
	return v.any(func(n node) bool {
		switch n.kind() {
		case "identifier", "attribute":
			return f.plain(n) == name
		case "subscript":
			return f.plain(n) == name && n.field("subscript").text() == b.target.field("subscript").text()
		case "call":
			return b.target.is("subscript") && f.plain(n.field("function")) == strings.TrimSuffix(name, "[]")+".get" &&
				call{n, ""}.arg(0).text() == b.target.field("subscript").text()
		}
		return false
	})
}

// joinedTo is what torch.cat([x, y]) adds to x.
func (f *file) joinedTo(v node, name string, b binding) (added node) {
	if !v.is("call") || !endsIn(f.dotted(v.field("function")), "torch.cat", "torch.concat", "torch.hstack",
		"torch.vstack", "torch.concatenate") {
		return node{}
	}
	old := false
	for _, item := range (call{v, ""}).arg(0).children() {
		switch {
		case f.plain(item.bare()) == name:
			old = true
		case !added.ok():
			added = item
		}
	}
	if !old {
		return node{}
	}
	return added
}

// sum judges one addition.
func (f *file) sum(fn *function, name string, b binding, added node, r *reporter) {
	loop := f.growsIn(fn, name, b.at)
	step := strings.HasPrefix(name, "self.") && (fn.hook() || fn.hasBack && len(f.loops(b.at)) == 0 &&
		f.calledInLoop(fn))
	if !loop.ok() && (!step || f.begunIn(fn, name, b)) || fn.name == "forward" {
		return
	}
	value := f.summand(name, added, b)
	g := f.grade(value)
	if g < used && loop.ok() && !f.trains(loop) && !f.fits(loaderName, loop.field("right").text()) {
		return // a rollout, a solver: what it collects lives until the backward() behind it
	}
	if loop.ok() && !f.trains(loop) && len(f.loops(b.at)) == 1 && len(fn.calls["step"]) > 0 &&
		len(between(fn.calls["step"], loop, func(c call) node { return c.node })) == 0 &&
		slices.ContainsFunc(f.names(loop.field("right")), func(n string) bool { return fn.isParam[n] }) {
		return // the parts of one step: update(self, minibatches)
	}
	if fn.flows[name] || g < used && f.returnsIt(fn, name, loop) || f.gradOff(b.at) {
		return
	}
	if g < strong && !(g == weak && loop.ok() && evalLike(f, fn, loop)) {
		return
	}
	if f.cutLater(fn, name, loop, b.at) || f.inLambda(fn, name) {
		return
	}
	o := []option{held(strings.TrimSuffix(name, "[]")), with(f.born(fn, value)...)}
	if value.bare().i == added.bare().i && b.kind == "+=" {
		o = append(o, f.detached(value))
	}
	r.report(b.at, fmt.Sprintf("%s adds up a tensor with its autograd graph: every step's graph is kept",
		quote(b.target.text())),
		"add "+clip(value.text())+".item(), or .detach() to stay on the device", o...)
}

// begunIn reports whether a function gives a total a first value before it adds to it: it holds one step.
func (f *file) begunIn(fn *function, name string, b binding) bool {
	for _, first := range fn.bindings[name] {
		if f.spend(1); first.kind == "=" && first.at.end() <= b.at.start() && !f.oldIn(first.value, name, first) {
			return !f.conditional(first.at)
		}
	}
	return false
}

// summand is the part of an addition that is not the old value.
func (f *file) summand(name string, n node, b binding) node {
	if !n.is("binary_operator") {
		return n
	}
	for _, side := range []string{"left", "right"} {
		other := n.field(side)
		if !f.oldIn(other, name, b) {
			return other
		}
	}
	return node{}
}

// growsIn is the innermost loop over steps around a place in which a variable isn't made anew.
func (f *file) growsIn(fn *function, name string, at node) node {
	for _, l := range f.loops(at) {
		for _, b := range fn.boundIn(name, l) {
			f.spend(1)
			if b.kind != "+=" && b.at.i != at.i && !f.firstValue(name, b.at) {
				return node{}
			}
		}
		if f.kindOf(l) == stepLoop {
			return l
		}
	}
	return node{}
}

// firstValue reports whether an assignment is only made while the variable has no value: under "if x is None".
func (f *file) firstValue(name string, at node) bool {
	up := at.up("if_statement")
	cond := up.field("condition")
	return up.ok() && at.inside(up.field("consequence")) && cond.is("comparison_operator") &&
		f.plain(cond.child()) == name && strings.HasSuffix(cond.text(), " is None")
}

// returnsIt reports whether the function gives the variable away with its graph on purpose: a loss made of parts, where
// nothing here asks for its gradients.
func (f *file) returnsIt(fn *function, name string, loop node) bool {
	if fn.hasBack || !loop.ok() || f.fits(evalName, fn.name) {
		return false
	}
	given := f.index.given[fn]
	if given == nil {
		given = map[string]bool{}
		for _, r := range fn.returns {
			for _, n := range f.carried(r) {
				given[n] = true
			}
		}
		f.index.given[fn] = given
	}
	return given[name]
}

// cutLater reports whether the loop detaches the variable itself: total = total.detach().
func (f *file) cutLater(fn *function, name string, loop, at node) bool {
	for _, b := range fn.boundIn(name, loop) {
		f.spend(1)
		if b.kind == "=" && b.at.i != at.i && !f.firstValue(name, b.at) {
			return true
		}
	}
	return f.index.detached[name]
}

var evalName = pattern.Of(`(?i)(eval|valid|test|predict|infer)`)

// evalLike reports whether a loop looks like an evaluation that asks for no gradients: it goes over a loader, and its
// function calls eval() or is named so, and none asks backward().
func evalLike(f *file, fn *function, loop node) bool {
	if fn.hasBack || !loop.is("for_statement") {
		return fn.hasBack && f.trains(loop)
	}
	if !f.fits(loaderName, loop.field("right").text()) {
		return false
	}
	return f.callsEval(fn) || f.fits(evalName, fn.name)
}

// callsEval reports whether a function puts a model into evaluation mode.
func (f *file) callsEval(fn *function) bool {
	for _, c := range fn.calls["eval"] {
		if c.receiver().ok() && len(c.args()) == 0 {
			return true
		}
	}
	return false
}

// born are the places where the value's names were made.
func (f *file) born(fn *function, n node) (list []node) {
	for _, name := range f.carried(n) {
		for _, b := range fn.bindings[name] {
			f.spend(1)
			list = append(list, b.at)
		}
	}
	return list
}

// graphInContainer finds tensors with graphs that are put into a list or dict which outlives the step (MG103).
func graphInContainer(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		if fn.name == "forward" || f.gradOff(g.at) || fn.class != nil && fn.class.isLightning() && fn.hook() {
			continue
		}
		value := f.grade(g.value)
		if !value.graph() {
			continue
		}
		h, ok := f.holderOf(g.into)
		if !ok {
			continue
		}
		loop := f.holderLoop(h, g.at)
		if f.oneStep(h, g.at) {
			continue
		}
		if h.attr && !loop.ok() && fn.hasBack && value >= strong {
			loop = fn.node // a method that makes one step
		}
		if !loop.ok() || !f.growsFreely(h, g, loop) || f.goesBack(fn, h, value, loop) ||
			value == used && !f.trains(loop) && f.epochsOnly(loop) {
			continue
		}
		o := []option{held(h.name), with(f.born(fn, g.value)...)}
		for _, b := range h.made {
			o = append(o, with(b.at))
		}
		if !g.by && !endsIn(f.dotted(g.at.field("function")), "extend") {
			o = append(o, f.detached(g.value))
		}
		r.report(g.at, fmt.Sprintf("%s keeps a tensor with its autograd graph for every step", quote(h.name)),
			"keep "+clip(g.value.text())+".item() or .detach(), or run this under torch.no_grad()", o...)
	}
}

// epochsOnly reports whether a loop counts epochs: what is left of a used graph, once an epoch, is nothing to speak of.
func (f *file) epochsOnly(loop node) bool {
	return loop.is("for_statement") && strings.Contains(strings.ToLower(loop.field("right").text()), "epoch")
}

// oneStep reports whether a loop over batches around a place makes the container anew: it holds one step.
func (f *file) oneStep(h holder, n node) bool {
	return slices.ContainsFunc(f.loops(n), func(l node) bool {
		return len(h.madeIn(l)) > 0 && l.is("for_statement") && f.fits(loaderName, l.field("right").text()) &&
			slices.ContainsFunc(h.madeIn(l), func(b binding) bool { return b.kind == "=" && !b.target.is("subscript") })
	})
}

// holderLoop is the innermost loop over steps around a place in which the container isn't made.
func (f *file) holderLoop(h holder, at node) node {
	for _, l := range f.loops(at) {
		for _, b := range h.madeIn(l) {
			f.spend(1)
			if b.kind != "+=" && b.target.kind() != "subscript" {
				return node{}
			}
		}
		if f.kindOf(l) == stepLoop {
			return l
		}
	}
	return node{}
}

// growsFreely reports whether what is added stays: a container, without a bound, never emptied.
func (f *file) growsFreely(h holder, g growth, loop node) bool {
	if container, bounded := f.madeAs(h); bounded || !container || f.isEmptied(h, loop, g.at) {
		return false
	}
	if g.at.is("assignment") && !f.keyGrows(g, loop) {
		return false
	}
	return true
}

// keyGrows reports whether the key of an assignment is a new one each time: it depends on the loop's own variable.
func (f *file) keyGrows(g growth, loop node) bool {
	key := g.at.field("left").field("subscript")
	target := loop.field("left")
	if !target.ok() {
		return f.fits(stepName, last(f.plain(key)))
	}
	names := set(f.carried(target)...)
	for _, n := range f.carried(key) {
		if names[n] || f.fits(stepName, last(n)) {
			return f.kindOf(loop) == stepLoop
		}
	}
	return false
}

// goesBack reports whether the container's graphs are wanted: it flows into a backward(), or out of a function that
// asks for none.
func (f *file) goesBack(fn *function, h holder, value grade, loop node) bool {
	for up := fn; up != nil; up = up.outer {
		if up.flows[h.name] {
			return true
		}
	}
	if value == used {
		return false
	}
	if value == strong && f.backedIn(fn, loop) && f.freed(fn) {
		return false
	}
	if h.attr {
		return true
	}
	if evalLike(f, fn, loop) && !fn.hasBack {
		return false
	}
	w := f.holding(h)
	if w.lossUse || !fn.hasBack && w.returned {
		return true
	}
	if fn == f.module && f.fits(lossList, h.name) && f.fits(loaderName, loop.field("right").text()) {
		return false // all_losses of a script: nothing here makes a loss of it
	}
	return !f.trainedLoop(fn, loop)
}

var lossList = pattern.Of(`(?i)^(\w+_)?(losses|loss_(list|history|hist|log|values))$`)

// trainedLoop reports whether steps are made in the loop around.
func (f *file) trainedLoop(fn *function, loop node) bool {
	return fn.hasBack && loop.ok() && f.trains(loop)
}

// backedIn reports whether a backward() runs in the loop.
func (f *file) backedIn(fn *function, loop node) bool {
	return fn.hasBack && (f.trains(loop) || loop.i == fn.i)
}

// freed reports whether no backward() of the function keeps its graph.
func (f *file) freed(fn *function) bool {
	for _, c := range fn.calls["backward"] {
		if c.keyword("retain_graph").ok() {
			return false
		}
	}
	return true
}

// lossUse reports whether a place hands the container to something that makes a loss of it.
func (f *file) lossUse(n node) bool {
	if c := n.up("call"); c.ok() && n.inside(c.field("arguments")) {
		name := last(f.dotted(c.field("function")))
		return f.fits(lossCall, name) || name == "cat" || name == "stack"
	}
	return false
}

// quote puts a name into backticks.
func quote(s string) string { return "`" + clip(s) + "`" }

// clip makes an expression fit a message.
func clip(s string) string {
	s = s[:min(len(s), maxLine)]
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}
