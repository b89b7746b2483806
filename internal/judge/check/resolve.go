package check

// resolve are the functions of the project that a call may mean; none where that can't be seen.
func (f *file) resolve(c call) []*function {
	f.spend(1)
	if own, known := f.index.resolved[c.i]; known {
		return own
	}
	own := f.findOwn(c)
	f.index.resolved[c.i] = own
	return own
}

func (f *file) findOwn(c call) (own []*function) {
	fn, name := c.field("function"), c.last()
	if fn.is("identifier") {
		for _, other := range f.fnNamed[fn.text()] {
			if f.spend(1); other.class == nil {
				own = append(own, other)
			}
		}
		if k := f.moduleCalled(c); len(own) == 0 && k != nil {
			return f.methodOf(k, "forward", 0)
		}
		return own
	}
	on := c.receiver()
	if !on.ok() {
		return nil
	}
	if on.text() == "self" {
		return f.methodOf(f.classAt(c.node), name, 0)
	}
	if k := f.moduleCalled(c); k != nil {
		return f.methodOf(k, "forward", 0)
	}
	for _, maker := range f.makersOf(f.plain(on)) {
		for _, k := range f.index.classes[maker] {
			own = append(own, f.methodOf(k, name, 0)...)
		}
	}
	return own
}

// moduleCalled is the class of the file's own whose object is called: self.network(x), after self.network = Network(…).
func (f *file) moduleCalled(c call) *class {
	for _, maker := range f.makersOf(f.plain(c.field("function"))) {
		for _, k := range f.index.classes[maker] {
			if f.spend(1); k.isModule() && k.methods["forward"] != nil {
				return k
			}
		}
	}
	return nil
}

// methodOf is a class's method, or that of a class of the file that it is made of.
func (f *file) methodOf(k *class, name string, depth int) []*function {
	if k == nil || depth > maxTensorDepth {
		return nil
	}
	f.spend(1)
	if m := k.methods[name]; m != nil {
		return []*function{m}
	}
	for _, base := range k.bases {
		for _, b := range f.index.classes[base] {
			if m := f.methodOf(b, name, depth+1); m != nil {
				return m
			}
		}
	}
	return nil
}

// callers are the calls of the file that mean a function.
func (f *file) callers(fn *function) (list []call) {
	for _, c := range f.byName[fn.name] {
		f.spend(1)
		for _, own := range f.resolve(c) {
			if own == fn {
				list = append(list, c)
			}
		}
	}
	return list
}

// given is what a call gives to a function's parameter; none where that can't be seen.
func (c call) given(fn *function, param string) node {
	if n := c.keyword(param); n.ok() {
		return n
	}
	for i, p := range fn.params {
		if p != param {
			continue
		}
		if fn.class != nil && !fn.static() {
			i--
		}
		args := c.args()
		if i < 0 || i >= len(args) {
			return node{}
		}
		for _, a := range args[:i+1] {
			if a.is("list_splat", "dictionary_splat") {
				return node{}
			}
		}
		return args[i]
	}
	return node{}
}

func (fn *function) static() bool {
	for _, d := range fn.decorators {
		if d == "staticmethod" {
			return true
		}
	}
	return false
}

// gradeParam is the grade of what the file's own calls give to a parameter.
func (f *file) gradeParam(fn *function, param string) grade {
	return f.once(partKey{fn.i, "(" + param}, func() (g grade) {
		for _, c := range f.callers(fn) {
			if arg := c.given(fn, param); arg.ok() && !c.inside(fn.node) && !f.gradOff(c.node) {
				g = max(g, f.grade(arg))
			}
		}
		return g
	})
}
