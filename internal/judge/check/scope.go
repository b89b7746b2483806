package check

import (
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// file is what the rules know of one text.
type file struct {
	*tree
	src      *source
	places   []place // by node
	imports  imports
	dots     map[int32]string  // names of what is called, by node
	calls    []call            // in the order of the text
	byName   map[string][]call // by the last part of the name
	funcs    []*function
	fnNamed  map[string][]*function
	ofNode   map[int32]*function // by the node of the definition
	classes  []*class
	ofClass  map[int32]*class // by the node of the definition
	module   *function        // the file's own statements
	comments []node
	grades   grades
	index    index
	off      map[int32]bool // functions whose callers switch gradients off
	depth    int            // of calls of offFunction
	withs    map[int32]bool // with statements that switch gradients off
	kinds    map[int32]loopKind
	stars    []string // modules of which all names are imported
	project  *Project // nil: the file stands alone
	told     *summary // what the file itself has told the project
}

// class is a class and what it is made of.
type class struct {
	node
	name    string
	bases   []string
	methods map[string]*function
	order   []*function // of the methods
}

// function is a function, a method, or the module itself.
type function struct {
	node
	file       *file
	name       string
	class      *class // nil outside
	outer      *function
	decorators []string
	params     []string
	isParam    map[string]bool
	keywords   string               // the parameter **kwargs
	within     *class               // the class around, also of a function in a method
	calls      map[string][]call    // by the last part of the name, those that stand in it and in no function in it
	bindings   map[string][]binding // by dotted name: "x", "self.x"; in the order of the text
	names      []string             // of the bindings, in the order of the first
	backed     map[string]bool      // names whose backward() is called
	backedAt   map[string]int       // where that is done last, in bytes
	flows      map[string]bool      // those, and what they are made of
	hasBack    bool                 // some backward() is called here
	returns    []node
}

// binding is a place where a name gets a value.
type binding struct {
	at     node // the statement
	target node
	value  node // none where it can't be seen: a parameter
	kind   string
	path   []int // where in the value: a, (b, c) = value gives c [1 1]
}

func newFile(src *source) (*file, error) {
	t, err := parse(src.text)
	if err != nil {
		return nil, err
	}
	return &file{tree: t, src: src, dots: map[int32]string{}, byName: map[string][]call{},
		ofNode:  map[int32]*function{},
		ofClass: map[int32]*class{}, fnNamed: map[string][]*function{}, off: map[int32]bool{}, withs: map[int32]bool{},
		kinds: map[int32]loopKind{}, grades: newGrades()}, nil
}

// read notes what every node is to the rules. They ask nothing before.
func (f *file) read() {
	if len(f.cells) == 0 {
		return
	}
	f.findPlaces()
	f.imports, f.stars = findImports(f.root())
	f.module = f.addFunction(f.root(), nil)
	f.root().all(func(n node) bool {
		f.take(n)
		return true
	})
	f.makeIndex()
	for _, fn := range f.funcs {
		f.flow(fn)
	}
}

// take notes what a node is to the rules.
func (f *file) take(n node) {
	switch n.kind() {
	case "call":
		c := call{n, f.dotted(n.field("function"))}
		f.calls = append(f.calls, c)
		f.byName[c.last()] = append(f.byName[c.last()], c)
		fn := f.function(n)
		fn.calls[c.last()] = append(fn.calls[c.last()], c)
		if _, of := f.backwardOf(c); of {
			fn.hasBack = true
		}
	case "comment":
		f.comments = append(f.comments, n)
	case "class_definition":
		c := &class{node: n, name: n.field("name").text(), methods: map[string]*function{}}
		for _, b := range n.field("superclasses").children() {
			c.bases = append(c.bases, f.dotted(b))
		}
		f.classes = append(f.classes, c)
		f.ofClass[n.i] = c
	case "function_definition":
		f.addFunction(n, f.function(n.parent()))
	case "assignment":
		f.bind(n, n.field("left"), n.field("right"), "=", nil)
	case "augmented_assignment":
		f.bind(n, n.field("left"), n.field("right"), "+=", nil)
	case "named_expression":
		f.bind(n, n.field("name"), n.field("value"), "=", nil)
	case "for_statement", "for_in_clause":
		f.bind(n, n.field("left"), n.field("right"), "for", nil)
	case "as_pattern":
		f.bind(n, n.lastChild().child(), n.child(), "as", nil)
	case "return_statement":
		if fn := f.function(n); n.child().ok() {
			fn.returns = append(fn.returns, n.child())
		}
	}
}

func (f *file) addFunction(n node, outer *function) *function {
	fn := &function{node: n, file: f, outer: outer, name: n.field("name").text(), bindings: map[string][]binding{},
		isParam: map[string]bool{}, calls: map[string][]call{},
		backed: map[string]bool{}, backedAt: map[string]int{}, flows: map[string]bool{}}
	if up := n.parent(); up.is("decorated_definition") {
		for _, d := range up.children() {
			if d.is("decorator") {
				fn.decorators = append(fn.decorators, strings.TrimSuffix(f.dotted(d.child()), "()"))
			}
		}
	}
	for _, p := range n.field("parameters").children() {
		name := p
		if !p.is("identifier") {
			name = p.child()
		}
		if nf := p.field("name"); nf.ok() {
			name = nf
		}
		if p.is("dictionary_splat_pattern") {
			fn.keywords = name.text()
		}
		fn.params = append(fn.params, name.text())
		fn.isParam[name.text()] = true
	}
	if c := f.classOf(n); c != nil {
		fn.class, c.methods[fn.name] = c, fn
		c.order = append(c.order, fn)
	}
	if fn.within = fn.class; fn.class == nil && outer != nil {
		fn.within = outer.within
	}
	f.funcs = append(f.funcs, fn)
	if !n.is("module") {
		f.fnNamed[fn.name] = append(f.fnNamed[fn.name], fn)
	}
	f.ofNode[n.i] = fn
	return fn
}

// classOf is the class whose own method a definition is.
func (f *file) classOf(n node) *class {
	if !n.is("function_definition") {
		return nil
	}
	above := n.parent().up("class_definition", "function_definition", "module")
	if !above.is("class_definition") {
		return nil
	}
	return f.ofClass[above.i]
}

// function is the one whose body a node stands in; the module, if no other.
func (f *file) function(n node) *function {
	f.spend(1)
	if n.ok() {
		if fn := f.ofNode[f.places[n.i].function]; fn != nil {
			return fn
		}
	}
	return f.module
}

// classAt is the class around a node.
func (f *file) classAt(n node) *class {
	if fn := f.function(n); fn != nil {
		return fn.within
	}
	return nil
}

func (f *file) bind(at, target, value node, kind string, path []int) {
	fn := f.function(at)
	switch target.kind() {
	case "identifier", "attribute", "subscript":
		name := f.plain(target)
		if fn.bindings[name] == nil {
			fn.names = append(fn.names, name)
		}
		fn.bindings[name] = append(fn.bindings[name], binding{at, target, value, kind, path})
	case "pattern_list", "tuple_pattern", "list_pattern", "expression_list", "tuple":
		parts, values := target.children(), []node(nil)
		if v := value.bare(); kind == "=" && v.is("expression_list", "tuple") {
			values = v.children()
		}
		for i, t := range parts {
			if len(values) == len(parts) {
				f.bind(at, t, values[i], kind, nil)
			} else {
				f.bind(at, t, value, kind, append(slices.Clone(path), i))
			}
		}
	}
}

// plain is a name as it is written, without imports: what rules compare variables by.
func (f *file) plain(n node) string {
	switch n.kind() {
	case "identifier":
		return n.text()
	case "attribute":
		return f.join(f.plain(n.field("object")), ".", n.field("attribute").text())
	case "subscript":
		return f.join(f.plain(n.field("value")), "[]", "")
	case "call":
		return f.join(f.plain(n.field("function")), "()", "")
	}
	return "?"
}

// loops are the loops around a node within its function, the innermost first.
func (f *file) loops(n node) (list []node) {
	if !n.ok() {
		return nil
	}
	for i := f.places[n.i].loop; i >= 0; i = f.places[i].loop {
		f.spend(1)
		list = append(list, f.at(i))
	}
	return list
}

var (
	stepName = pattern.Of(`(?i)^(epochs?|_epoch|ep|step|global_step|steps|iteration|iter|itr|i_iter|n_iter|` +
		`it|episode|i_episode|batch_idx|update|i_update|t_step|e)$`)
	loaderName = pattern.Of(`(?i)(loader|dataloader|data_iter|train_iter|val_iter|test_iter|minibatches)|(^|` +
		`[._])(batches|train_dl|valid_dl|val_dl|test_dl|dl)\b`)
	stepLimit = pattern.Of(`(?i)(epoch|num_steps|max_steps|n_steps|total_steps|iters\b|n_iter|num_iter|` +
		`iterations|episodes|max_iter|updates)`)
)

// loopKind returns what a loop iterates over.
type loopKind int

const (
	otherLoop loopKind = iota
	stepLoop           // batches, steps or epochs
)

// kindOf tells a loop over batches, steps or epochs from one over layers, files or time.
func (f *file) kindOf(loop node) loopKind {
	kind, known := f.kinds[loop.i]
	if !known {
		kind = f.findKind(loop)
		f.kinds[loop.i] = kind
	}
	f.spend(1)
	return kind
}

func (f *file) findKind(loop node) loopKind {
	if loop.is("while_statement") {
		if f.fits(stepLimit, loop.field("condition").text()) || f.trains(loop) {
			return stepLoop
		}
		return otherLoop
	}
	over, target := loop.field("right").text(), loop.field("left").text()
	if loop.field("right").is("list", "tuple") { // for device in ["cpu", "cuda"]
		return otherLoop
	}
	if f.fits(loaderName, over) {
		return stepLoop
	}
	words := strings.FieldsFunc(target, func(r rune) bool { return strings.ContainsRune(" ,()[]*\n\t", r) })
	for _, w := range words {
		if f.fits(stepName, w) && (strings.Contains(over, "range(") || strings.Contains(over, "count(")) {
			if w != "e" && w != "it" && w != "update" || f.fits(stepLimit, over) {
				return stepLoop
			}
		}
	}
	if strings.Contains(over, "range(") && f.fits(stepLimit, over) {
		return stepLoop
	}
	if f.trains(loop) && !f.fits(parts, over) {
		return stepLoop
	}
	return otherLoop
}

// parts are what a loop may go over that trains each of them once: critics and their optimizers.
var parts = pattern.Of(`(?i)(critics|optim|models\b|agents\b|networks\b|nets\b|ensemble|heads\b|` +
	`discriminators|losses|learners|players|modules|members)`)

// trains reports whether the loop's own body updates weights.
func (f *file) trains(loop node) bool {
	return loop.ok() && f.index.trains[loop.i]
}

func (f *file) sameFunction(a, b node) bool { return f.function(a) == f.function(b) }

// stepLoopOf is the innermost loop over batches, steps or epochs around a node.
func (f *file) stepLoopOf(n node) node {
	for _, l := range f.loops(n) {
		if f.kindOf(l) == stepLoop {
			return l
		}
	}
	return node{}
}

var (
	stepHook = pattern.Of(`^((training|validation|test|predict|train|val|eval|evaluation)_step|on_(train|` +
		`training|validation|test|predict)_(batch|step)_end|on_step_end|on_substep_end|on_prediction_step|` +
		`training_step_end|validation_step_end|test_step_end)$`)
	epochHook = pattern.Of(`^(on_(train|training|validation|test|predict)_epoch_end|on_epoch_end|(training|` +
		`validation|test)_epoch_end|on_evaluate|on_validation_end)$`)
	noGradFor = pattern.Of(`^((validation|test|predict)_step|on_(validation|test|predict)_\w+|(validation|` +
		`test)_epoch_end|prediction_step|evaluation_loop)$`)
	lightning = pattern.Of(`(LightningModule|Callback|LightningDataModule|pl\.)`)
)

// isLightning reports whether a class is one that a framework calls.
func (c *class) isLightning() bool {
	return c != nil && c.t.fits(lightning, c.t.joined(c.bases))
}

// hook reports whether a function is one that a framework calls for each batch.
func (fn *function) hook() bool {
	return fn.class != nil && !strings.Contains(fn.t.joined(fn.class.bases), "keras") &&
		(fn.t.fits(stepHook, fn.name) || fn.name == "compute_loss" &&
			strings.Contains(fn.t.joined(fn.class.bases), "Trainer"))
}

// epochEnd reports whether a function is called after each epoch.
func (fn *function) epochEnd() bool { return fn.class != nil && fn.t.fits(epochHook, fn.name) }

var noGrad = []string{"no_grad", "inference_mode", "no_grad_if_needed", "torch_no_grad", "eval_mode", "no_sync_grad"}

// gradOff reports whether gradients are switched off at a node.
func (f *file) gradOff(n node) bool {
	for at := n; at.ok(); at = at.parent() {
		f.spend(1)
		if at.is("with_statement") && f.offWith(at) {
			return true
		}
		if fn := f.ofNode[at.i]; fn != nil && at.is("function_definition") {
			if f.offFunction(fn) {
				return true
			}
		}
	}
	return f.offBefore(f.function(n), n)
}

func (f *file) offWith(w node) bool {
	off, known := f.withs[w.i]
	if !known {
		off = f.findOffWith(w)
		f.withs[w.i] = off
	}
	return off
}

func (f *file) findOffWith(w node) bool {
	head := w.child()
	return head.is("with_clause") && head.any(func(n node) bool {
		if !n.is("call", "identifier", "attribute") {
			return false
		}
		name := strings.TrimSuffix(f.dotted(n), "()")
		switch {
		case endsIn(name, noGrad...), endsIn(name, "inference_mode", "inference_context"):
			return !strings.Contains(n.text(), "(False)")
		case endsIn(name, "set_grad_enabled") && n.is("call"):
			return call{n, name}.arg(0).text() != "True"
		}
		return strings.Contains(strings.ToLower(last(name)), "no_grad")
	})
}

// offFunction reports whether a function runs without gradients: by a decorator, by the framework, by its callers.
func (f *file) offFunction(fn *function) bool {
	for _, d := range fn.decorators {
		if endsIn(d, noGrad...) || strings.Contains(d, "no_grad") || endsIn(d, "jit", "set_grad_enabled") {
			return true
		}
	}
	if fn.class != nil && f.fits(noGradFor, fn.name) {
		return true
	}
	if known, ok := f.off[fn.i]; ok {
		return known
	}
	if f.guardedElsewhere(fn, noGradients) {
		f.off[fn.i] = true
		return true
	}
	f.off[fn.i] = false // a circle of calls proves nothing, nor does a chain longer than people make
	calls := f.byName[fn.name]
	off := len(calls) > 0 && !strings.HasPrefix(fn.name, "__") && f.depth < maxChain
	f.depth++
	for _, c := range calls {
		off = off && !c.inside(fn.node) && f.gradOff(c.node)
	}
	f.depth--
	f.off[fn.i] = off
	return off
}

// offBefore reports whether a statement before n, of the same function or the module, switches gradients off for good.
func (f *file) offBefore(fn *function, n node) bool {
	for _, in := range []*function{fn, f.module} {
		if from, off := f.index.offFrom[in]; off && from < n.start() {
			return true
		}
	}
	return !fn.hasBack && f.index.frozen[fn]
}
