package check

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Project is what the files that are checked together tell each other. Each file is read once, and what it says of its
// functions and classes is noted in a few hundred bytes, since all trees would not fit into memory. A file that
// uses what another tells is then read once more, with that knowledge. So the work is that of two readings at most.
type Project struct {
	mu      sync.Mutex
	modules map[string]*summary // by path, without .py and /__init__
	linked  bool
}

// NewProject makes an empty one.
func NewProject() *Project { return &Project{modules: map[string]*summary{}} }

// summary is what a file tells others.
type summary struct {
	path    string
	dir     string
	funcs   map[string]*fact // "f", "Class.method"
	classes map[string]*classFact
	names   map[string]string // what it has imported: "Meter" from "utils.meters.Meter"
	stars   []string          // modules of which it takes all names
	guards  []guard
	guarded map[string]guardKind // its own functions, by what stands around their calls elsewhere; made by link
	cares   bool                 // it has something that other files can tell more about
	found   bool
}

// fact is what others need to know of a function.
type fact struct {
	params  []string
	method  bool // its first parameter is given by the call's receiver
	returns grade
	parts   []grade          // of a returned tuple
	keys    map[string]grade // of a returned dict
	carries []string         // parameters that are returned with their graphs
	keeps   []string         // parameters that its object keeps, and the graph with them
	grows   []grownParam
}

// grownParam is a parameter that gets another one appended.
type grownParam struct{ into, value string }

// classFact is what others need to know of a class.
type classFact struct {
	module bool
	bases  []string
}

// guardKind says what stands around a call.
type guardKind uint8

const (
	noGradients guardKind = 1 << iota
	oneRank
	anew // a class's objects are made in a loop: what one holds goes with it
)

// guard is a call of something that may be another file's.
type guard struct {
	name string // the function's, or "maker.method" where it is known what the receiver was made by
	last string
	kind guardKind
}

// maxUp is in how many directories above a file its imports are looked for.
const maxUp = 8

// maxLinks is how many files a name is followed through that hand it on.
const maxLinks = 4

// moduleKey is how a file is found: its path without what imports leave out.
func moduleKey(path string) string {
	path = strings.TrimSuffix(filepath.ToSlash(filepath.Clean(path)), ".py")
	return strings.TrimSuffix(path, "/__init__")
}

// add notes what a file tells.
func (p *Project) add(s *summary) {
	if p == nil || s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modules[moduleKey(s.path)] = s
}

// Link joins what the files have told. What is read afterwards knows of it.
func (p *Project) Link() {
	p.linked = true
	for _, key := range slices.Sorted(maps.Keys(p.modules)) {
		s := p.modules[key]
		for _, g := range s.guards {
			p.mark(s, g)
		}
	}
}

// mark notes at a function that it is called under a guard.
func (p *Project) mark(s *summary, g guard) {
	note := func(of *summary, name string) {
		if of != nil && of != s && (of.funcs[name] != nil || g.kind == anew && of.classes[name] != nil) {
			if of.guarded == nil {
				of.guarded = map[string]guardKind{}
			}
			of.guarded[name] |= g.kind
		}
	}
	if of, name := p.lookup(s, g.name, 0); of != nil {
		note(of, name)
		return
	}
	for _, from := range s.names { // trainer.test(): of a class that the file has imported
		if of, name := p.lookup(s, from, 0); of != nil {
			note(of, name+"."+g.last)
		}
	}
}

// Again reports whether a file is to be read once more: others tell something about what it uses.
func (p *Project) Again(path string) bool {
	s := p.modules[moduleKey(path)]
	if s == nil {
		return false
	}
	if len(s.guarded) > 0 && s.found {
		return true
	}
	if !s.cares {
		return false
	}
	for _, from := range s.names {
		if p.telling(s, from) {
			return true
		}
	}
	return slices.ContainsFunc(s.stars, func(module string) bool {
		of := p.module(s, module)
		return of != nil && len(of.funcs)+len(of.classes) > 0
	})
}

// telling reports whether there is something to know about an imported name.
func (p *Project) telling(s *summary, from string) bool {
	of, name := p.lookup(s, from, 0)
	switch {
	case of == nil || of == s:
		return false
	case name == "": // a module: any of its functions may be called
		return len(of.funcs) > 0
	case of.classes[name] != nil:
		return true
	}
	return of.funcs[name].tells()
}

func (t *fact) tells() bool {
	return t != nil && (t.returns != unknown || len(t.parts)+len(t.keys)+len(t.carries)+len(t.keeps)+len(t.grows) > 0)
}

// module is the file that an import of a file means: beside it, or below a directory above it.
func (p *Project) module(s *summary, dotted string) *summary {
	rest := strings.ReplaceAll(dotted, ".", "/")
	for dir, up := s.dir, 0; up < maxUp; up++ {
		if of := p.modules[filepath.ToSlash(filepath.Join(dir, rest))]; of != nil {
			return of
		}
		next := filepath.Dir(dir)
		if next == dir {
			break
		}
		dir = next
	}
	return nil
}

// lookup finds the file in which a dotted name is defined, and the name in it; "" is the whole module.
func (p *Project) lookup(s *summary, dotted string, depth int) (of *summary, name string) {
	if depth > maxLinks || dotted == "" {
		return nil, ""
	}
	first, rest, _ := strings.Cut(dotted, ".")
	if s.funcs[first] != nil || s.classes[first] != nil {
		return s, dotted
	}
	if from := s.names[first]; from != "" && depth > 0 && from != dotted { // handed on
		return p.lookup(s, join2(from, rest), depth+1)
	}
	for head, tail := dotted, ""; head != ""; {
		if m := p.module(s, head); m != nil && m != s {
			if tail == "" {
				return m, ""
			}
			return p.within(m, tail, depth+1)
		}
		i := strings.LastIndexByte(head, '.')
		if i < 0 {
			break
		}
		head, tail = head[:i], join2(head[i+1:], tail)
	}
	for _, star := range s.stars {
		if m := p.module(s, star); m != nil && m != s {
			if of, name := p.within(m, dotted, depth+1); of != nil {
				return of, name
			}
		}
	}
	return nil, ""
}

// within finds a name that a module has, or hands on.
func (p *Project) within(m *summary, name string, depth int) (*summary, string) {
	first, rest, _ := strings.Cut(name, ".")
	if m.funcs[first] != nil || m.classes[first] != nil {
		return m, name
	}
	if from := m.names[first]; from != "" {
		return p.lookup(m, join2(from, rest), depth+1)
	}
	for _, star := range m.stars {
		if of := p.module(m, star); of != nil && of != m && depth < maxLinks {
			if found, name := p.within(of, name, depth+1); found != nil {
				return found, name
			}
		}
	}
	return nil, ""
}

func join2(front, rest string) string {
	if rest == "" {
		return front
	}
	return front + "." + rest
}

// isModule reports whether a class is one of PyTorch's modules, also by its bases in other files.
func (p *Project) isModule(of *summary, name string, depth int) bool {
	k := of.classes[name]
	if k == nil || depth > maxLinks {
		return false
	}
	if k.module {
		return true
	}
	return slices.ContainsFunc(k.bases, func(base string) bool {
		m, name := p.lookup(of, base, 0)
		return m != nil && name != "" && p.isModule(m, name, depth+1)
	})
}

// method is what is known of a class's method, or of that of a base in another file.
func (p *Project) method(of *summary, class, method string, depth int) *fact {
	if t := of.funcs[class+"."+method]; t != nil || of.classes[class] == nil || depth > maxLinks {
		return t
	}
	for _, base := range of.classes[class].bases {
		if m, name := p.lookup(of, base, 0); m != nil && name != "" {
			if t := p.method(m, name, method, depth+1); t != nil {
				return t
			}
		}
	}
	return nil
}
