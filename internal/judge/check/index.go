package check

import (
	"cmp"
	"sort"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Rules ask the same of every node: what stands around it, where a name is used, what a function calls. It is noted
// once, in passes over the text; without that each question would be a pass of its own.

// place is what stands around a node.
type place struct {
	function  int32 // the definition whose text it stands in, or the root
	loop      int32 // the innermost loop of that function in whose body it stands; -1: none
	generator int32 // the outermost comprehension; -1: none
	under     bool  // it stands under an if of that loop or function
	deletes   bool  // it stands in a del
}

func (f *file) findPlaces() {
	f.places = make([]place, len(f.cells))
	for i := range f.cells {
		n := f.at(int32(i))
		p := place{loop: -1, generator: -1}
		if i > 0 {
			p = f.placeBelow(n.parent(), n)
		}
		switch n.kind() {
		case "function_definition":
			p.function = n.i
		case "delete_statement":
			p.deletes = true
		case "list_comprehension", "dictionary_comprehension", "set_comprehension", "generator_expression":
			if p.generator < 0 {
				p.generator = n.i
			}
		}
		f.places[i] = p
	}
	f.spend(len(f.cells))
}

// placeBelow is what a node gives to its children.
func (f *file) placeBelow(n, child node) place {
	p := f.places[n.i]
	switch n.kind() {
	case "function_definition":
		p.loop, p.under = -1, false
	case "class_definition", "lambda":
		p.loop = -1
	case "for_statement", "while_statement":
		p.under = false
		if child.cell().field == f.g.fields["body"] {
			p.loop = n.i
		}
	case "module":
		p.under = false
	case "if_statement", "conditional_expression", "except_clause", "match_statement":
		p.under = true
	}
	return p
}

// index has what rules look up by name or by function.
type index struct {
	trains   map[int32]bool         // loops and functions whose own body updates weights
	offFrom  map[*function]int      // from which byte on gradients are switched off for good
	frozen   map[*function]bool     // functions that freeze weights
	members  map[*class][]*function // whose class it is, in the order of the text
	attrs    map[*class]map[string][]binding
	bound    map[string][]binding // by name, of all functions
	uses     map[string][]node    // identifiers and attributes by their last part, in the order of the text
	holders  map[holderKey]*holding
	made     map[*binding]making // by the first of the bindings
	grown    []growth            // in the order of the text
	grows    map[*function][]growth
	into     map[int32]bool  // the nodes that grow
	trained  map[string]bool // what parameters() is asked of, by the last part of the name
	detached map[string]bool // what detach_() is called on
	hooks    map[string]bool // what is registered as a forward hook, by the last part of the name
	classes  map[string][]*class
	on       map[string]map[string][]call // what callsOn has found, by method and class
	makers   map[string][]string
	workers  map[*class][]growth // what growsInWorker has found
	given    map[*function]map[string]bool
	modules  map[string]bool
	asked    map[*function]map[string]bool
	runs     map[int32]bool
	limits   map[*class]bool
	cuda     map[*function][]call
	resolved map[int32][]*function // by call
	foreign  map[int32]*fact       // by call
}

func (f *file) makeIndex() {
	f.index = index{trains: map[int32]bool{}, offFrom: map[*function]int{}, frozen: map[*function]bool{},
		members: map[*class][]*function{}, attrs: map[*class]map[string][]binding{}, bound: map[string][]binding{},
		uses: map[string][]node{}, holders: map[holderKey]*holding{}, made: map[*binding]making{},
		trained:  map[string]bool{},
		detached: map[string]bool{}, hooks: map[string]bool{}, classes: map[string][]*class{},
		workers: map[*class][]growth{}, given: map[*function]map[string]bool{}, modules: map[string]bool{},
		asked: map[*function]map[string]bool{}, runs: map[int32]bool{},
		limits: map[*class]bool{}, cuda: map[*function][]call{}, resolved: map[int32][]*function{},
		foreign: map[int32]*fact{},
		on:      map[string]map[string][]call{}, makers: map[string][]string{}}
	x := &f.index
	for _, fn := range f.funcs {
		if fn.within != nil {
			x.members[fn.within] = append(x.members[fn.within], fn)
		}
		for _, name := range fn.names {
			x.bound[name] = append(x.bound[name], fn.bindings[name]...)
		}
		f.spend(1 + len(fn.names))
	}
	for _, c := range f.classes {
		x.classes[c.name] = append(x.classes[c.name], c)
	}
	f.root().all(func(n node) bool {
		switch n.kind() {
		case "identifier":
			x.uses[n.text()] = append(x.uses[n.text()], n)
		case "attribute":
			name := n.field("attribute").text()
			x.uses[name] = append(x.uses[name], n)
		}
		return true
	})
	f.indexCalls()
}

func (f *file) indexCalls() {
	x := &f.index
	for _, name := range []string{"backward", "manual_backward"} {
		for _, c := range f.byName[name] {
			f.marksLoops(c)
		}
	}
	for _, c := range f.byName["set_grad_enabled"] {
		if _, known := x.offFrom[f.function(c.node)]; !known && c.parent().is("expression_statement") &&
			c.arg(0).text() != "True" {
			x.offFrom[f.function(c.node)] = c.start() // the first of the text
		}
	}
	for _, c := range f.byName["requires_grad_"] {
		if c.arg(0).text() == "False" {
			x.frozen[f.function(c.node)] = true
		}
	}
	for _, c := range f.byName["parameters"] {
		if c.receiver().ok() {
			x.trained[last(f.plain(c.receiver()))] = true
		}
	}
	for _, c := range f.byName["detach_"] {
		x.detached[f.plain(c.receiver())] = true
	}
	for _, name := range []string{"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
		"register_hook", "register_backward_hook", "register_post_accumulate_grad_hook"} {
		for _, c := range f.byName[name] {
			hook := c.arg(0).bare()
			if hook.is("call") {
				hook = hook.field("function")
			}
			x.hooks[last(f.plain(hook))] = true
		}
	}
}

// marksLoops notes that the loops around a call of backward() in its function, and that function, train.
func (f *file) marksLoops(c call) {
	for at, p := c.node, c.parent(); p.ok(); at, p = p, p.parent() {
		f.spend(1)
		if p.is("for_statement", "while_statement", "function_definition") && at.cell().field == f.g.fields["body"] {
			if f.index.trains[p.i] {
				return
			}
			f.index.trains[p.i] = true
		}
		if p.is("function_definition") {
			return
		}
	}
}

// attrsOf are the bindings of a class's attribute in all of its methods.
func (f *file) attrsOf(c *class, name string) []binding {
	all, known := f.index.attrs[c]
	if !known {
		all = map[string][]binding{}
		for _, fn := range f.index.members[c] {
			for _, name := range fn.names {
				f.spend(1 + len(fn.bindings[name]))
				all[name] = append(all[name], fn.bindings[name]...)
			}
		}
		for _, list := range all { // a function in a method comes after all of it
			order.Stable(list, func(a, b binding) int { return cmp.Compare(a.at.i, b.at.i) })
		}
		f.index.attrs[c] = all
	}
	return all[name]
}

// between are the items of a list, in the order of the text, that begin in a node.
func between[T any](list []T, n node, of func(T) node) []T {
	if !n.ok() {
		return nil
	}
	n.t.spend(1)
	from := sort.Search(len(list), func(i int) bool { return of(list[i]).start() >= n.start() })
	to := from + sort.Search(len(list)-from, func(i int) bool { return of(list[from+i]).start() >= n.end() })
	return list[from:to]
}

func (f *file) callsIn(n node) []call {
	return between(f.calls, n, func(c call) node { return c.node })
}

// boundIn are the bindings of a function's name that stand in a node.
func (fn *function) boundIn(name string, n node) []binding {
	return between(fn.bindings[name], n, func(b binding) node { return b.at })
}

// usesIn are the identifiers of a name in a node.
func (f *file) usesIn(name string, n node) (list []node) {
	for _, u := range between(f.index.uses[name], n, func(n node) node { return n }) {
		f.spend(1)
		if u.is("identifier") {
			list = append(list, u)
		}
	}
	return list
}

// growths are all places where something is added to a container, in the order of the text.
func (f *file) growths() []growth {
	if f.index.grows == nil {
		list := f.findGrowths()
		order.Stable(list, func(a, b growth) int { return cmp.Compare(a.at.i, b.at.i) })
		f.index.grown, f.index.grows, f.index.into = list, map[*function][]growth{}, map[int32]bool{}
		for _, g := range list {
			fn := f.function(g.at)
			f.index.grows[fn] = append(f.index.grows[fn], g)
			f.index.into[g.into.bare().i] = true
		}
	}
	return f.index.grown
}

// growthsOf are those in a function.
func (f *file) growthsOf(fn *function) []growth {
	f.growths()
	return f.index.grows[fn]
}

func (f *file) growthsIn(n node) []growth {
	return between(f.growths(), n, func(g growth) node { return g.at })
}
