package check

import (
	"path/filepath"
	"slices"
	"strings"
)

// What a file tells others of its functions: made once, when it has been read, of what the rules have found out anyway.

const (
	maxFacts = 2000 // functions and classes of a file that are told of: more are made by programs
	maxParts = 8    // items of a returned tuple, and keys of a dict
)

// summarise makes what a file tells others. found says that it has findings.
func (f *file) summarise(found bool) *summary {
	s := &summary{path: f.src.path, dir: filepath.Dir(f.src.path), funcs: map[string]*fact{},
		classes: map[string]*classFact{}, names: map[string]string{}, found: found}
	f.within(func() {
		for name, from := range f.imports {
			if name != "" && len(s.names) < maxFacts {
				s.names[strings.Clone(name)] = strings.Clone(from)
			}
		}
		s.stars = slices.Clone(f.stars)
		for _, c := range f.classes[:min(len(f.classes), maxFacts)] {
			k := &classFact{module: c.isModule()}
			for _, b := range c.bases {
				k.bases = append(k.bases, strings.Clone(b))
			}
			s.classes[strings.Clone(c.name)] = k
		}
		s.cares = len(f.byName["backward"]) > 0 || len(f.growths()) > 0
		f.noteGuards(s)
		for _, fn := range f.funcs[:min(len(f.funcs), maxFacts)] {
			if name := fn.tellName(); name != "" {
				s.funcs[strings.Clone(name)] = f.factOf(fn)
			}
		}
	})
	return s
}

// tellName is the name by which another file can call a function; "" none.
func (fn *function) tellName() string {
	switch {
	case fn.is("module"):
		return ""
	case fn.class != nil:
		return fn.class.name + "." + fn.name
	case fn.outer != nil && fn.outer.is("module"):
		return fn.name
	}
	return ""
}

// factOf is what others need to know of a function.
func (f *file) factOf(fn *function) *fact {
	t := &fact{method: fn.class != nil && !fn.static()}
	for _, p := range fn.params {
		t.params = append(t.params, strings.Clone(p))
	}
	off := f.offFunction(fn)
	for i, r := range fn.returns {
		g := f.grade(r)
		if g == scalar && r.bare().is("binary_operator") && len(f.returnedParams(fn, r)) > 0 {
			g = unknown // a number, and what the caller gives
		}
		if i == 0 || g > t.returns {
			t.returns = g
		}
		f.partsOf(t, r.bare(), i == 0)
		if !off && g == unknown {
			for _, p := range f.returnedParams(fn, r) {
				t.carries = appendNew(t.carries, p)
			}
		}
	}
	if fn.class != nil && !fn.class.isModule() && !fn.class.isLightning() && keepers[fn.name] && !off {
		for _, p := range fn.params[min(1, len(fn.params)):] {
			if f.keepsParam(fn.class, fn, p) {
				t.keeps = append(t.keeps, strings.Clone(p))
			}
		}
	}
	for _, g := range f.growthsOf(fn) {
		into := g.into.bare()
		if into.is("identifier") && fn.isParam[into.text()] && len(fn.bindings[into.text()]) == 0 && !g.by &&
			!f.empties(fn, into.text()) {
			for _, name := range f.carried(g.value) {
				if fn.isParam[name] && len(fn.bindings[name]) == 0 {
					t.grows = append(t.grows, grownParam{strings.Clone(into.text()), strings.Clone(name)})
				}
			}
		}
	}
	return t
}

// partsOf notes the grades of a returned tuple's items, or of a dict's values.
func (f *file) partsOf(t *fact, r node, first bool) {
	switch {
	case r.is("tuple", "expression_list"):
		for i, item := range r.children() {
			if i >= maxParts || item.is("list_splat") {
				break
			}
			if g := f.grade(item); i < len(t.parts) {
				t.parts[i] = max(t.parts[i], g)
			} else if first || i > 0 {
				t.parts = append(t.parts, g)
			}
		}
	case r.is("dictionary"):
		for _, p := range r.children() {
			if key := unquoted(p.field("key")); p.is("pair") && key != "" && len(t.keys) < maxParts {
				if t.keys == nil {
					t.keys = map[string]grade{}
				}
				t.keys[strings.Clone(key)] = max(t.keys[key], f.grade(p.field("value")))
			}
		}
	case r.is("identifier") && !r.is("call"): // return output, a dict that was made before
		if b, ok := f.latest(f.function(r), r.text(), r); ok && b.kind == "=" && len(b.path) == 0 &&
			b.value.bare().is("tuple", "dictionary") {
			f.partsOf(t, b.value.bare(), first)
		}
	}
}

// returnedParams are a function's parameters whose graphs a returned expression takes along.
func (f *file) returnedParams(fn *function, r node) (list []string) {
	seen := map[string]bool{}
	open := f.carried(r)
	for depth := 0; depth < maxTensorDepth && len(open) > 0; depth++ {
		var more []string
		for _, name := range open {
			if seen[name] {
				continue
			}
			seen[name] = true
			if fn.isParam[name] && name != "self" && len(fn.bindings[name]) == 0 && len(fn.bindings[name+"[]"]) == 0 {
				list = append(list, strings.Clone(name))
				continue
			}
			for _, b := range fn.bindings[name] {
				if f.spend(1); b.value.ok() && b.kind != "for" && f.grade(b.value) == unknown {
					more = append(more, f.carried(b.value)...)
				}
			}
		}
		open = more
	}
	return list
}

// keepers are the names of methods by which meters are given values.
var keepers = set("update", "add", "append", "push", "log", "__call__", "record", "store", "add_value", "add_scalar",
	"meter", "track", "put", "collect")

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// noteGuards notes calls without gradients, and those that one rank alone makes, of what may be another file's.
func (f *file) noteGuards(s *summary) {
	off := f.mentions("no_grad") || f.mentions("inference_mode") || f.mentions("set_grad_enabled")
	ranks := f.mentions("rank") || f.mentions("is_main")
	for _, c := range f.calls {
		if len(s.guards) >= maxFacts {
			return
		}
		if len(f.fnNamed[c.last()]) > 0 || strings.HasPrefix(c.name, "torch.") {
			continue
		}
		var kind guardKind
		if off && f.gradOff(c.node) {
			kind |= noGradients
		}
		if ranks && f.rankZero(c.node) {
			kind |= oneRank
		}
		if c.last() != "" && c.last()[0] >= 'A' && c.last()[0] <= 'Z' && f.renewed(c.node) {
			kind |= anew
		}
		if kind == 0 {
			continue
		}
		name := c.name
		if on := c.receiver(); on.ok() {
			if makers := f.makersOf(f.plain(on)); len(makers) == 1 {
				name = makers[0] + "." + c.last()
			}
		}
		s.guards = append(s.guards, guard{strings.Clone(name), strings.Clone(c.last()), kind})
	}
}
