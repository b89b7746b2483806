package check

import "strings"

// What other files tell about the names that this one has imported.

// foreign is what is known of the function of another file that a call means; nil where that can't be seen.
func (f *file) foreign(c call) *fact {
	if f.project == nil || !f.project.linked || f.told == nil {
		return nil
	}
	if t, known := f.index.foreign[c.i]; known {
		return t
	}
	t := f.findForeign(c)
	f.index.foreign[c.i] = t
	return t
}

func (f *file) findForeign(c call) *fact {
	f.spend(stepsALookup)
	fn := c.field("function")
	if fn.is("identifier", "attribute") && !strings.ContainsAny(c.name, "()[]?") {
		if of, name := f.elsewhere(c.name); of != nil && name != "" {
			if class, method, is := strings.Cut(name, "."); is {
				return f.project.method(of, class, method, 0)
			}
			return of.funcs[name]
		}
	}
	if fn.is("identifier") {
		return nil
	}
	on := c.receiver()
	if on.text() == "self" { // a method of a base in another file
		if k := f.classAt(c.node); k != nil {
			for _, base := range k.bases {
				if of, name := f.elsewhere(base); of != nil {
					if t := f.project.method(of, name, c.last(), 0); t != nil {
						return t
					}
				}
			}
		}
		return nil
	}
	for _, maker := range f.makersOf(f.plain(on)) {
		if of, name := f.elsewhere(maker); of != nil && of.classes[name] != nil {
			return f.project.method(of, name, c.last(), 0)
		}
	}
	return nil
}

// stepsALookup is what it costs to find a name in other files: some joined paths.
const stepsALookup = 100

// elsewhere is the other file in which a dotted name is defined.
func (f *file) elsewhere(dotted string) (*summary, string) {
	if f.project == nil || f.told == nil || !f.project.linked {
		return nil, ""
	}
	first, _, _ := strings.Cut(dotted, ".")
	if len(f.fnNamed[first]) > 0 || len(f.index.classes[first]) > 0 {
		return nil, ""
	}
	of, name := f.project.lookup(f.told, dotted, 0)
	if of == f.told {
		return nil, ""
	}
	return of, name
}

// foreignModule reports whether a maker is a module's class in another file.
func (f *file) foreignModule(maker string) bool {
	of, name := f.elsewhere(maker)
	return of != nil && name != "" && f.project.isModule(of, name, 0)
}

// guardedElsewhere reports whether other files call a function only under such a guard, as far as that is seen.
func (f *file) guardedElsewhere(fn *function, kind guardKind) bool {
	return f.told != nil && f.told.guarded[fn.tellName()]&kind != 0
}

// foreignGrade is the grade of what a function of another file returns: way is nil for all of it.
func (f *file) foreignGrade(c call, path []int, key string) grade {
	t := f.foreign(c)
	if t == nil {
		return unknown
	}
	g := t.returns
	switch {
	case key != "" && t.keys != nil:
		return t.keys[key]
	case len(path) > 0 && t.parts != nil:
		if len(path) > 1 || path[0] >= len(t.parts) {
			return unknown
		}
		return t.parts[path[0]]
	case key != "" || len(path) > 0:
		if g == scalar || g == detached {
			return g
		}
		return unknown // which part has the graph isn't known
	}
	if g == unknown {
		for _, p := range t.carries {
			if arg := t.given(c, p); arg.ok() {
				g = max(g, f.grade(arg))
			}
		}
		if g < weak {
			return unknown
		}
	}
	return g
}

// given is what a call gives to a parameter; none where that can't be seen.
func (t *fact) given(c call, param string) node {
	return c.given(&function{params: t.params, class: t.classOr(), name: ""}, param)
}

// classOr is a class where the first parameter is the receiver.
func (t *fact) classOr() *class {
	if t.method {
		return &class{}
	}
	return nil
}
