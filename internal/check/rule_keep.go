package check

import (
	"fmt"
	"regexp"
	"strings"
)

// growth is a place where a container gets one more item.
type growth struct {
	at    node // the call or the statement
	into  node
	value node
}

func (f *file) findGrowths() (list []growth) {
	list = []growth{}
	for _, name := range []string{"append", "extend", "add", "appendleft"} {
		for _, c := range f.byName[name] {
			if c.receiver().ok() && len(c.args()) == 1 && c.parent().is("expression_statement") {
				list = append(list, growth{c.node, c.receiver(), c.arg(0)})
			}
		}
	}
	for _, fn := range f.funcs {
		for _, name := range fn.names {
			for _, b := range fn.bindings[name] {
				switch {
				case b.kind == "=" && b.target.is("subscript") && !b.target.field("subscript").is("slice", "string",
					"integer"):
					list = append(list, growth{b.at, b.target.field("value"), b.value})
				case b.kind == "+=" && b.value.is("list") && b.at.is("augmented_assignment"):
					list = append(list, growth{b.at, b.target, b.value})
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

// addedTo is what an assignment adds to a variable's old value; none if it does something else.
func (f *file) addedTo(name string, b binding) node {
	if b.target.is("subscript") && !b.target.field("subscript").is("string", "integer", "identifier") {
		return node{}
	}
	if b.kind == "+=" {
		between := string(f.src.text[b.target.end():b.value.start()])
		if strings.Contains(between, "+=") && !b.value.is("list", "tuple") {
			return b.value
		}
	}
	if b.kind != "=" || b.target.is("subscript") {
		return node{}
	}
	values := []node{b.value.bare()}
	if values[0].is("conditional_expression") { // total = loss if total is None else total + loss
		values = values[0].children()
	}
	for _, v := range values {
		v = v.bare()
		if v.is("binary_operator") && strings.Contains(v.text(), "+") &&
			v.any(func(n node) bool { return n.is("identifier", "attribute") && f.plain(n) == name }) {
			return v
		}
	}
	return node{}
}

// sum judges one addition.
func (f *file) sum(fn *function, name string, b binding, added node, r *reporter) {
	loop := f.growsIn(fn, name, b.at)
	if !loop.ok() && !(strings.HasPrefix(name, "self.") && fn.hook()) || fn.name == "forward" {
		return
	}
	if fn.flows[name] || f.returnsIt(fn, name, loop) || f.gradOff(b.at) {
		return
	}
	value := f.summand(name, added)
	g := f.grade(value)
	if g != strong && !(g == weak && loop.ok() && evalLike(f, fn, loop)) {
		return
	}
	if f.cutLater(fn, name, loop, b.at) {
		return
	}
	o := []option{held(strings.TrimSuffix(name, "[]")), with(f.born(fn, value)...)}
	if edits := f.detachFix(value); edits != nil && value.bare().i == added.bare().i && b.kind == "+=" {
		o = append(o, fixed(edits...))
	}
	r.report(b.at, fmt.Sprintf("%s adds up a tensor with its autograd graph: every step's graph is kept",
		quote(b.target.text())),
		"add "+clip(value.text())+".item(), or .detach() to stay on the device", o...)
}

// summand is the part of an addition that is not the old value.
func (f *file) summand(name string, n node) node {
	if !n.is("binary_operator") {
		return n
	}
	for _, side := range []string{"left", "right"} {
		other := n.field(side)
		if !other.any(func(at node) bool { return at.is("identifier", "attribute") && f.plain(at) == name }) {
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

var evalName = regexp.MustCompile(`(?i)(eval|valid|test|predict|infer)`)

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
		if h.attr && !loop.ok() && fn.hasBack && value == strong {
			loop = fn.node // a method that makes one step
		}
		if !loop.ok() || !f.growsFreely(h, g, loop) || f.goesBack(fn, h, value, loop) {
			continue
		}
		o := []option{held(h.name), with(f.born(fn, g.value)...)}
		for _, b := range h.made {
			o = append(o, with(b.at))
		}
		if edits := f.detachFix(g.value); edits != nil && !endsIn(f.dotted(g.at.field("function")), "extend") {
			o = append(o, fixed(edits...))
		}
		r.report(g.at, fmt.Sprintf("%s keeps a tensor with its autograd graph for every step", quote(h.name)),
			"keep "+clip(g.value.text())+".item() or .detach(), or run this under torch.no_grad()", o...)
	}
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

var lossList = regexp.MustCompile(`(?i)^(\w+_)?(losses|loss_(list|history|hist|log|values))$`)

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
