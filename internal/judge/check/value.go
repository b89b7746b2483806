package check

import (
	"sort"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// grade is what is known about a value.
type grade int

const (
	unknown  grade = iota
	scalar         // a Python number, text, shape: no memory to speak of
	detached       // a tensor or an array without a graph
	weak           // a tensor that carries a graph if gradients are on: from a function of losses, a likely model
	strong         // one that certainly does: its backward() is called, or a model that is trained here made it
	used           // one whose function has called its backward() and returned it: nothing wants the graph any more
)

// graph reports whether the value carries an autograd graph.
func (g grade) graph() bool { return g >= weak }

var (
	toScalar = set("item", "tolist", "size", "dim", "numel", "data_ptr", "nelement", "format", "join", "keys", "split",
		"strip", "lower", "upper", "perf_counter", "time", "get_device", "element_size", "is_floating_point")
	builtinScalar = set("float", "int", "len", "str", "bool", "repr", "type", "id", "isinstance", "round", "range",
		"hash",
		"ord", "print", "format", "abs_path", "getattr_none", "zip", "enumerate")
	toDetached = set("detach", "detach_", "numpy", "argmax", "argmin", "argsort", "eq", "ne", "lt", "gt", "le", "ge",
		"long", "int", "bool", "nonzero", "multinomial", "asnumpy", "sign", "round", "floor", "ceil", "topk_indices",
		"decode", "batch_decode", "to_np", "tensor2np", "to_numpy", "generate", "requires_grad_", "logical_and")
	sameTensor = set("cpu", "cuda", "to", "clone", "mean", "sum", "view", "reshape", "squeeze", "unsqueeze", "flatten",
		"half", "double", "float", "bfloat16", "pow", "sqrt", "abs", "exp", "log", "softmax", "log_softmax", "sigmoid",
		"tanh", "relu", "permute", "transpose", "t", "contiguous", "max", "min", "norm", "mul", "add", "div", "sub",
		"gather", "index_select", "expand", "repeat", "masked_fill", "clamp", "type", "type_as", "view_as", "split",
		"chunk", "unbind", "matmul", "mm", "bmm", "std", "var", "prod", "square", "neg", "narrow", "select",
		"pin_memory",
		"log_prob", "entropy", "mul_", "add_", "div_", "sub_", "values", "items", "copy", "get", "pop", "backward_hook")
	makers = set("zeros", "ones", "empty", "full", "randn", "rand", "randint", "arange", "linspace", "tensor", "eye",
		"as_tensor", "from_numpy", "zeros_like", "ones_like", "rand_like", "randn_like", "empty_like", "full_like",
		"randperm", "load", "bernoulli", "one_hot", "argmax", "argsort", "eq", "device", "Generator", "normal", "isnan",
		"isfinite", "isinf", "bincount", "unique", "multinomial", "manual_seed", "FloatTensor", "LongTensor", "Tensor")
	lossCall = pattern.Of(`(?i)^(criterion|crit|loss_fn|loss_func|loss_function|compute_loss|calc_loss|` +
		`calculate_loss|get_loss|criterion_\w+|\w+_criterion|\w+_loss|loss_\w+|loss|cross_entropy|` +
		`binary_cross_entropy\w*|kl_div|l1_loss|ctc_loss|\w+_loss_fn)$`)
	modelCall = pattern.Of(`(?i)(^|_)(model|net|network|module|generator|discriminator|critic|actor|backbone|` +
		`classifier|unet|vae|autoencoder|encoder|decoder|resnet|student|teacher|lstm|rnn|gru|transformer|netg|netd)$`)
	fakeModel = pattern.Of(`(?i)(load|get|create|build|make|save|init|prepare|unwrap|compile|wrap|_to_|` +
		`freeze|convert|export|print|log|set|register|find|num|is|has|parse|eval|test|validate|train|plot|update|` +
		`count|summary|del|free|select)_`)
	graphPart = set("loss", "logits", "last_hidden_state", "hidden_states", "pooler_output", "sample",
		"prediction_logits")
	flatPart = set("shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "name", "nbytes", "itemsize")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// grades are the values' grades that are known, by node.
type grades struct {
	known map[int32]grade
	busy  map[int32]int // how deep a node is in the chain that is being followed
	// What depends on a node that is still busy holds while that is so: a value that depends on itself. Without these
	// a ring of names that each use two others would be followed along each of its exponentially many ways.
	guessed map[int32]guess
	order   []int32 // of the guesses, in the order in which they were made
	lowest  int     // the least deep busy node that what is being graded has met
	parts   map[partKey]grade
	deep    int // of the chain of parts
}

// guess is a grade that holds as long as the chain has that length.
type guess struct {
	grade  grade
	lowest int
}

// maxChain is how long a chain of values, or of callers, is followed: longer than people make, and short on the stack.
const maxChain = 500

func newGrades() grades {
	return grades{known: map[int32]grade{}, busy: map[int32]int{}, guessed: map[int32]guess{}, lowest: maxChain,
		parts: map[partKey]grade{}}
}

// grade returns what is known about an expression's value.
func (f *file) grade(n node) grade {
	n = n.bare()
	if !n.ok() {
		return unknown
	}
	f.spend(1)
	s := &f.grades
	if g, known := s.known[n.i]; known {
		return g
	}
	if depth, busy := s.busy[n.i]; busy { // it depends on itself
		s.lowest = min(s.lowest, depth)
		return unknown
	}
	if g, guessed := s.guessed[n.i]; guessed {
		s.lowest = min(s.lowest, g.lowest)
		return g.grade
	}
	depth := len(s.busy)
	if depth >= maxChain {
		s.known[n.i] = unknown
		return unknown
	}
	outer, first := s.lowest, len(s.order)
	s.busy[n.i], s.lowest = depth, maxChain
	g := f.findGrade(n)
	delete(s.busy, n.i)
	if s.lowest < depth {
		s.guessed[n.i] = guess{g, s.lowest}
		s.order = append(s.order, n.i)
	} else {
		s.known[n.i] = g
		for _, i := range s.order[first:] { // they took n's grade for unknown
			delete(s.guessed, i)
		}
		s.order, s.lowest = s.order[:first], maxChain
	}
	s.lowest = min(s.lowest, outer)
	return g
}

func (f *file) findGrade(n node) grade {
	switch n.kind() {
	case "identifier":
		return f.gradeName(n)
	case "attribute":
		return f.gradeAttribute(n)
	case "call":
		return f.gradeCall(call{n, f.dotted(n.field("function"))})
	case "subscript":
		return f.gradeSubscript(n)
	case "integer", "float", "string", "true", "false", "none", "concatenated_string", "comparison_operator",
		"not_operator",
		"lambda":
		return scalar
	case "binary_operator":
		return max(f.grade(n.field("left")), f.grade(n.field("right")))
	case "unary_operator":
		return f.grade(n.field("argument"))
	case "list", "tuple", "set", "expression_list", "conditional_expression", "boolean_operator", "dictionary", "pair",
		"list_splat", "dictionary_splat":
		return f.gradeAll(n.children())
	case "list_comprehension", "generator_expression", "dictionary_comprehension", "set_comprehension":
		return f.grade(n.field("body"))
	case "named_expression", "keyword_argument":
		return f.grade(n.field("value"))
	}
	return unknown
}

func (f *file) gradeAll(list []node) (most grade) {
	sure := true
	for _, n := range list {
		if n.is("pair") {
			n = n.field("value")
		}
		g := f.grade(n)
		sure = sure && g != unknown
		most = max(most, g)
	}
	if most == scalar && !sure {
		return unknown
	}
	return most
}

// gradeName follows a variable to where it got its value last.
func (f *file) gradeName(n node) grade {
	name := f.plain(n)
	for fn := f.function(n); fn != nil; fn = fn.outer {
		b, ok := f.latest(fn, name, n)
		if !ok {
			continue
		}
		g := f.gradeBinding(b)
		if g == unknown && b.at.start() > fn.backedAt[name] && len(fn.bindings[name]) > 1 {
			return g // [loss] = reduced([loss]) behind its backward()
		}
		if g == detached && b.at.start() < fn.backedAt[name] {
			g = unknown // who asks its gradients knows better
		}
		if fn.backed[name] && g != scalar && g != detached && f.function(n) == fn && !f.cleaned(fn, name) {
			return f.backedGrade(fn, n)
		}
		return g
	}
	fn := f.function(n)
	if fn.backed[name] {
		return f.backedGrade(fn, n)
	}
	if fn.isParam[name] && len(fn.bindings[name])+len(fn.bindings[name+"[]"]) == 0 { // else its items are others
		return f.gradeParam(fn, name)
	}
	return unknown
}

// cleaned reports whether a function detaches what it keeps of a dict: output["loss"] = output["loss"].detach().
func (f *file) cleaned(fn *function, name string) bool {
	for _, b := range fn.bindings[name+"[]"] {
		if f.spend(1); b.kind == "=" && f.cutValue(b.value) {
			return true
		}
	}
	return false
}

// backedGrade is the grade of what a function asks the gradients of: where it returns that, the graph has been used.
func (f *file) backedGrade(fn *function, n node) grade {
	up := n.parent()
	for up.is("tuple", "expression_list", "list", "dictionary", "pair", "parenthesized_expression", "binary_operator",
		"conditional_expression") {
		f.spend(1)
		up = up.parent()
	}
	if up.is("return_statement") && f.freed(fn) {
		return used
	}
	return strong
}

// gradeSubscript is the grade of an item by its key or number.
func (f *file) gradeSubscript(n node) (g grade) {
	switch key := n.field("subscript"); {
	case unquoted(key) != "":
		g = f.gradeKey(n.field("value"), unquoted(key))
	case key.is("integer") && number(key) >= 0:
		g = f.gradePart(n.field("value"), []int{number(key)})
	default:
		g = f.grade(n.field("value"))
	}
	if g == scalar && unquoted(n.field("subscript")) == "" &&
		!(n.field("value").is("attribute") && flatPart[n.field("value").field("attribute").text()]) {
		return unknown
	}
	return g
}

// gradeBinding is the grade of what a statement gives a name.
func (f *file) gradeBinding(b binding) grade {
	switch {
	case b.kind == "for":
		g := f.gradeItem(b.value, b.path)
		if g != scalar && b.at.is("for_statement") && f.kindOf(b.at) == stepLoop {
			return unknown // a batch
		}
		return g
	case b.kind == "=":
		return f.gradePart(b.value, b.path)
	}
	return f.grade(b.value)
}

// latest is the binding that gives a name its value at a place: the last one before it, or in a loop the last of all.
func (f *file) latest(fn *function, name string, at node) (best binding, ok bool) {
	if !at.ok() {
		return best, false
	}
	list, until := fn.bindings[name], at.start()
	if in := f.places[at.i].generator; in >= 0 {
		until = f.at(in).end() // what a comprehension yields stands before the names that it binds
	}
	for i := sort.Search(len(list), func(i int) bool { return list[i].at.start() >= until }) - 1; i >= 0; i-- {
		b := list[i]
		f.spend(1)
		if (b.at.end() <= at.start() || b.kind == "for" && at.inside(b.at) || b.at.is("for_in_clause") &&
			at.inside(b.at.parent())) && !exclusive(b.at, at) {
			return b, true
		}
	}
	return best, false
}

// exclusive reports whether two places stand in different branches of one if.
func exclusive(a, b node) bool {
	for up := a; up.ok(); up = up.parent() {
		p := up.parent()
		if b.inside(p) && !p.is("if_statement") {
			return false // both stand in it, and so in whatever is around it
		}
		if p.is("if_statement") && b.inside(p) && !b.inside(up) && !b.inside(p.field("condition")) {
			return true
		}
	}
	return false
}

func (f *file) gradeAttribute(n node) grade {
	name := n.field("attribute").text()
	switch {
	case flatPart[name]:
		return scalar
	case name == "data", name == "grad":
		return detached
	}
	if fn := f.function(n); fn.backed[f.plain(n)] {
		return strong
	}
	if b, ok := f.latest(f.function(n), f.plain(n), n); ok {
		return f.gradeBinding(b)
	}
	g := f.grade(n.field("object"))
	if g.graph() && !graphPart[name] && name != "T" && name != "mT" {
		return unknown // any part of what a model returned
	}
	return g
}

func (f *file) gradeCall(c call) grade {
	name, on := c.last(), c.receiver()
	switch {
	case !on.ok() && builtinScalar[name], on.ok() && toScalar[name]:
		return scalar
	case name == "map" && !on.ok() && builtinScalar[c.arg(0).text()]: // map(float, losses)
		return scalar
	case on.ok() && toDetached[name]:
		return detached
	case pureNumber[name] && !on.ok(), name == "list", name == "tuple", name == "dict":
		return f.gradeAll(append(c.args(), c.values()...))
	}
	if strings.HasPrefix(c.name, "torch.") || strings.HasPrefix(c.name, "F.") || strings.HasPrefix(c.name,
		"nn.functional.") {
		return f.gradeTorch(c)
	}
	if key := unquoted(c.arg(0)); on.ok() && key != "" && (name == "get" || name == "pop") {
		return f.gradeKey(on, key)
	}
	if on.ok() && sameTensor[name] {
		return f.grade(on)
	}
	if strings.HasPrefix(c.name, "sklearn.metrics.") && !endsIn(c.name, manyNumbers...) {
		return scalar
	}
	if strings.HasPrefix(c.name, "numpy.") || strings.HasPrefix(c.name, "np.") || strings.HasPrefix(c.name, "math.") {
		return detached
	}
	if f.gradOff(c.node) {
		return unknown
	}
	if g := f.gradeOwn(c); g != unknown {
		return g
	}
	if f.fits(lossCall, name) && len(c.args()) > 0 {
		if g := f.gradeAll(c.args()); g.graph() {
			return g
		}
		return unknown
	}
	if f.isModel(c) {
		if f.trained(c) {
			return strong
		}
		return weak
	}
	return unknown
}

// manyNumbers are those of sklearn.metrics' functions that return more than a number.
var manyNumbers = []string{"roc_curve", "precision_recall_curve", "det_curve", "confusion_matrix",
	"multilabel_confusion_matrix", "pairwise_distances", "euclidean_distances", "cosine_similarity"}

// pureNumber are Python's functions that return what they are given, or a number made of it.
var pureNumber = set("sum", "abs", "max", "min", "pow", "sorted", "reversed")

func (c call) values() (list []node) {
	for _, n := range c.field("arguments").children() {
		if n.is("keyword_argument") {
			list = append(list, n.field("value"))
		}
	}
	return list
}

// gradeTorch is the grade of what one of PyTorch's functions returns.
func (f *file) gradeTorch(c call) grade {
	name := c.last()
	switch {
	case makers[name]:
		return detached
	case strings.HasPrefix(c.name, "torch.nn.") && name != "" && name[0] >= 'A' && name[0] <= 'Z',
		strings.HasPrefix(c.name, "torch.optim."), strings.HasPrefix(c.name, "torch.utils."),
		strings.HasPrefix(c.name, "torch.cuda."), strings.HasPrefix(c.name, "torch.distributed."):
		return unknown
	}
	if g := f.gradeAll(c.args()); g.graph() && !f.gradOff(c.node) {
		return g
	}
	return detached
}

// gradeOwn follows a call of the project's own function to what it returns.
func (f *file) gradeOwn(c call) (g grade) {
	for _, fn := range f.resolve(c) {
		for _, r := range fn.returns {
			g = max(g, fn.file.grade(r))
		}
	}
	if g == unknown && len(f.resolve(c)) == 0 {
		return f.foreignGrade(c, nil, "")
	}
	return g
}

// isModel reports whether a call looks like a model's forward.
func (f *file) isModel(c call) bool {
	if len(c.args())+len(c.values()) == 0 {
		return false
	}
	if c.name == "self" || endsIn(c.name, "self.forward", "model.forward", "net.forward") {
		return c.class(f) == nil || c.class(f).isModule()
	}
	fn := c.field("function")
	name := c.last()
	if fn.is("identifier", "attribute") && f.madeModule(fn, 0) {
		return true
	}
	if !fn.is("identifier", "attribute") || f.fits(fakeModel, name) || !f.fits(modelCall, name) {
		return false
	}
	if _, imported := f.imports[fn.text()]; imported {
		return false
	}
	if len(f.fnNamed[name]) > 0 {
		return false // a function of that name
	}
	if on := c.receiver(); on.ok() && on.text() != "self" && !strings.HasPrefix(on.text(), "self.") {
		return on.is("identifier") // trainer.model(x)
	}
	return true
}

// madeModule reports whether a name is given one of PyTorch's modules, or of the file's own, here or by who makes the
// object that it is an attribute of.
func (f *file) madeModule(n node, depth int) bool {
	name := f.plain(n)
	made, known := f.index.modules[name]
	if known || depth > maxTensorDepth {
		return made
	}
	f.index.modules[name] = false // a ring proves nothing
	for _, b := range f.index.bound[name] {
		f.spend(1)
		v := b.value.bare()
		if b.kind != "=" || !v.is("call", "identifier") {
			continue
		}
		if made = f.isModule(v, depth) || f.givenModule(b, v, depth); made {
			break
		}
	}
	f.index.modules[name] = made
	return made
}

// isModule reports whether an expression is a module.
func (f *file) isModule(v node, depth int) bool {
	for v.is("call") && (endsIn(f.plain(v.field("function")), "cuda", "to", "eval", "train", "cpu") && v.ok()) {
		v = call{v, ""}.receiver()
	}
	if v.is("identifier") {
		return f.madeModule(v, depth+1)
	}
	if !v.is("call") {
		return false
	}
	maker := f.dotted(v.field("function"))
	name := last(maker)
	if strings.HasPrefix(maker, "torch.nn.") && !strings.Contains(maker, "functional") && name != "" &&
		name[0] >= 'A' && name[0] <= 'Z' {
		return !f.fits(noForward, name)
	}
	for _, c := range f.index.classes[maker] {
		if f.spend(1); c.isModule() {
			return true
		}
	}
	return f.foreignModule(maker)
}

// noForward are those of torch.nn's classes that return no tensor of a size that matters, or are never called.
var noForward = pattern.Of(`(List|Dict|Loss)$|^Parameter`)

// givenModule reports whether an attribute is set to a parameter of __init__ that is given a module.
func (f *file) givenModule(b binding, v node, depth int) bool {
	fn := f.function(b.at)
	if !v.is("identifier") || fn.name != "__init__" || fn.class == nil {
		return false
	}
	for i, p := range fn.params {
		if p != v.text() {
			continue
		}
		for _, c := range f.byName[fn.class.name] {
			f.spend(1)
			if f.isModule(c.arg(i-1).bare(), depth+1) || f.isModule(c.keyword(p).bare(), depth+1) {
				return true
			}
		}
	}
	return false
}

func (c call) class(f *file) *class { return f.classAt(c.node) }

var moduleBase = pattern.Of(`(Module|Model|Net)\b`)

// isModule reports whether a class is an nn.Module or what is called like one.
func (c *class) isModule() bool {
	return c != nil && c.t.fits(moduleBase, c.t.joined(c.bases))
}

// trained reports whether the model that is called is trained in this file: its parameters go to an optimizer, or a
// backward() stands beside the call.
func (f *file) trained(c call) bool {
	if fn := f.function(c.node); fn.hasBack || fn.name == "training_step" && fn.class.isLightning() {
		return true
	}
	return f.index.trained[last(f.plain(c.field("function")))]
}
