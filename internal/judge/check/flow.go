package check

import "github.com/memgauge/memgauge/internal/base/pattern"

// runner is who asks gradients for others.
var runner = pattern.Of(`(?i)(accelerat|fabric|engine|^self$|strategy|trainer|plugin|runner|deepspeed|` +
	`booster|manager|^ctx)`)

// backwardOf is what a call asks the gradients of.
func (f *file) backwardOf(c call) (list []node, of bool) {
	switch c.last() {
	case "backward", "manual_backward", "backward_pass":
	default:
		return nil, false
	}
	r := c.receiver()
	if r.text() == "self" && f.ownBackward(c) {
		return nil, false
	}
	if r.ok() && c.last() == "backward" && !f.fits(runner, r.text()) {
		return []node{r}, true // loss.backward(gradient)
	}
	if len(c.args()) > 0 {
		return c.args()[:1], true // accelerator.backward(loss)
	}
	return []node{r}, r.ok()
}

// ownBackward reports whether a class of the file has a method of that name that asks for no gradients: a network that
// somebody differentiates by hand.
func (f *file) ownBackward(c call) bool {
	for k := c.up("class_definition"); k.ok(); k = k.parent().up("class_definition") {
		for _, m := range k.field("body").children() {
			if m.is("function_definition") && m.field("name").text() == c.last() {
				return !m.any(func(n node) bool {
					return n.is("attribute") && (n.field("attribute").text() == "backward" ||
						n.field("attribute").text() == "autograd") && n.text() != "self.backward"
				})
			}
		}
	}
	return false
}

// flow finds which of a function's names flow into a backward().
func (f *file) flow(fn *function) {
	if !fn.hasBack {
		return
	}
	var open []string
	read := map[int32]bool{}
	add := func(name string) {
		if !fn.flows[name] {
			fn.flows[name] = true
			open = append(open, name)
		}
	}
	for _, name := range []string{"backward", "manual_backward", "backward_pass"} {
		for _, c := range fn.calls[name] {
			of, _ := f.backwardOf(c)
			for _, n := range of {
				for _, name := range f.tensorsIn(n) {
					fn.backed[name], fn.backedAt[name] = true, max(fn.backedAt[name], c.start())
				}
				for _, name := range f.carried(n) {
					add(name)
				}
			}
		}
	}
	for len(open) > 0 {
		name := open[len(open)-1]
		open = open[:len(open)-1]
		for _, b := range fn.bindings[name] {
			if !b.value.ok() || read[b.value.i] {
				continue
			}
			read[b.value.i] = true // one value may be given to many names
			for _, n := range f.carried(b.value) {
				add(n)
			}
		}
	}
}

// tensorsIn are the names in an expression that are tensors themselves: losses.total, not the losses around it.
func (f *file) tensorsIn(n node) (names []string) {
	n.all(func(at node) bool {
		p := at.parent()
		switch {
		case at.is("attribute") && !(p.is("call") && p.field("function").i == at.i):
			names = append(names, f.plain(at))
			return false
		case at.is("identifier") && at.i != p.field("function").i && !(p.is("attribute") &&
			p.field("attribute").i == at.i) && !f.isKeyword(at):
			names = append(names, at.text())
		}
		return true
	})
	return names
}

// carried are the names whose graph an expression takes along.
func (f *file) carried(n node) (names []string) {
	n.all(func(at node) bool {
		switch at.kind() {
		case "string":
			return false
		case "call":
			name := last(f.dotted(at.field("function")))
			if name == "item" || name == "tolist" || name == "detach" || name == "float" &&
				!at.field("function").is("attribute") {
				return false
			}
		case "attribute":
			names = append(names, f.plain(at))
		case "identifier":
			if !(at.parent().is("attribute") && at.cell().field == at.t.g.fields["attribute"]) &&
				!(at.parent().is("keyword_argument") && at.cell().field == at.t.g.fields["name"]) {
				names = append(names, at.text())
			}
		}
		return true
	})
	return names
}
