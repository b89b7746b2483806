package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

var (
	sizeWord  = pattern.Of(`(?i)(capacity|max|size|limit|len)`)
	cacheWord = pattern.Of(`(?i)cache`)
)

// isDataset reports whether a class is a dataset that workers copy.
func (c *class) isDataset() bool {
	return c != nil && c.methods["__getitem__"] != nil && strings.Contains(c.t.joined(c.bases), "Dataset")
}

// loaders are the calls that make a DataLoader.
func (f *file) loaders() []call { return f.byName["DataLoader"] }

// datasetOf is the class in this file of which a loader's dataset is an instance.
func (f *file) datasetOf(c call) *class {
	n := c.arg(0)
	if !n.ok() {
		n = c.keyword("dataset")
	}
	n = n.bare()
	if n.is("identifier", "attribute") {
		for _, b := range f.index.bound[f.plain(n)] {
			if b.value.bare().is("call") {
				n = b.value.bare()
			}
		}
	}
	if !n.is("call") {
		return nil
	}
	for _, k := range f.index.classes[f.dotted(n.field("function"))] {
		if f.spend(1); k.isDataset() {
			return k
		}
	}
	return nil
}

// workers is how many workers a loader has, where that is a number; -1 unknown.
func (f *file) workers(c call) int { return number(f.option(c, "num_workers")) }

func number(n node) int {
	if !n.is("integer") {
		return -1
	}
	x, err := strconv.Atoi(strings.ReplaceAll(n.text(), "_", ""))
	if err != nil {
		return -1
	}
	return x
}

// objectsInDataset finds datasets that hold many Python objects and are read by workers (MG201).
func objectsInDataset(f *file, r *reporter) {
	for _, c := range f.loaders() {
		k := f.datasetOf(c)
		if w := f.option(c, "num_workers"); k == nil || !w.ok() || f.workers(c) == 0 {
			continue
		}
		init := k.methods["__init__"]
		if init == nil {
			continue
		}
		f.rowsInInit(k, init, c, r)
		for _, name := range init.names {
			for _, b := range init.bindings[name] {
				if attr, of := strings.CutPrefix(name, "self."); of && b.kind == "=" && f.manyObjects(b.value) &&
					f.indexed(k, attr) && !f.remade(init, name, b) {
					r.report(b.at, fmt.Sprintf("%s holds Python objects: every worker's reads count references, "+
						"copies their pages", quote(name)),
						"keep the records in an array or a tensor (numpy, pyarrow), or read them from "+
							"disk", held(name), with(c.node))
				}
			}
		}
	}
}

// remade reports whether a function makes something else of a variable behind one of its values: an array of the rows.
func (f *file) remade(fn *function, name string, b binding) bool {
	return slices.ContainsFunc(fn.bindings[name], func(other binding) bool {
		return other.kind == "=" && len(other.path) == 0 && other.at.start() > b.at.start() &&
			!exclusive(other.at, b.at)
	})
}

// rowsInInit finds rows that a dataset's __init__ appends one by one: dicts, lists, tuples with such in them.
func (f *file) rowsInInit(k *class, init *function, loader call, r *reporter) {
	for _, g := range f.growthsOf(init) {
		h, ok := f.holderOf(g.into)
		attr, of := strings.CutPrefix(h.name, "self.")
		if !ok || !of || len(f.loops(g.at)) == 0 || endsIn(f.dotted(g.at.field("function")), "extend") ||
			!f.isRow(init, g.value, 0) || !f.indexed(k, attr) {
			continue
		}
		r.report(g.at, fmt.Sprintf("%s holds a Python object for each row: every worker's reads count references, "+
			"which copies their pages", quote(h.name)),
			"keep the columns in arrays or tensors (numpy, pyarrow), or read rows from disk", held(h.name),
			with(loader.node))
	}
}

// isRow reports whether a value is a dict, a list, or a tuple with one of them in it.
func (f *file) isRow(fn *function, n node, depth int) bool {
	n = n.bare()
	switch n.kind() {
	case "dictionary", "list", "list_comprehension", "dictionary_comprehension":
		return true
	case "tuple":
		return slices.ContainsFunc(n.children(), func(c node) bool { return f.isRow(fn, c, depth+1) })
	case "call":
		return endsIn(f.dotted(n.field("function")), "dict", "json.loads")
	case "identifier":
		b, ok := f.latest(fn, n.text(), n)
		return ok && b.kind == "=" && len(b.path) == 0 && depth < maxTensorDepth && f.isRow(fn, b.value, depth+1)
	}
	return false
}

// option is what a call is given by a keyword, also in a dict that it spreads: DataLoader(data, **options).
func (f *file) option(c call, name string) node {
	if n := c.keyword(name); n.ok() {
		return n
	}
	for _, s := range c.field("arguments").children() {
		if s.is("dictionary_splat") {
			if n := f.inDict(f.function(c.node), s.child(), name); n.ok() {
				return n
			}
		}
	}
	return node{}
}

// inDict is a dict's value by its key, where the dict is written in this function or one around.
func (f *file) inDict(fn *function, n node, key string) (value node) {
	n = n.bare()
	if n.is("identifier", "attribute") {
		name := f.plain(n)
		for ; fn != nil && len(fn.bindings[name]) == 0; fn = fn.outer {
			f.spend(1)
		}
		if fn == nil {
			return node{}
		}
		for _, b := range fn.bindings[name+"[]"] {
			if b.kind == "=" && unquoted(b.target.field("subscript")) == key {
				return b.value
			}
		}
		n = fn.bindings[name][len(fn.bindings[name])-1].value.bare()
	}
	switch n.kind() {
	case "dictionary":
		for _, p := range n.children() {
			if unquoted(p.field("key")) == key {
				value = p.field("value")
			}
		}
	case "call":
		if c := (call{n, f.dotted(n.field("function"))}); c.name == "dict" {
			value = c.keyword(key)
		}
	}
	return value
}

// manyObjects reports whether a value is a list of dicts, or what a file of JSON or pickles holds.
func (f *file) manyObjects(n node) bool {
	n = n.bare()
	if n.is("list_comprehension") {
		b := n.field("body").bare()
		return b.is("dictionary") || b.is("call") && endsIn(f.dotted(b.field("function")), "json.loads", "dict")
	}
	return n.is("call") && (endsIn(f.dotted(n.field("function")), "json.load", "pickle.load") ||
		strings.Contains(n.text(), `to_dict("records")`) || strings.Contains(n.text(), "to_dict('records')"))
}

// indexed reports whether a dataset's items are read out of an attribute.
func (f *file) indexed(k *class, attr string) bool {
	return k.methods["__getitem__"].any(func(n node) bool {
		return n.is("subscript") && f.plain(n.field("value")) == "self."+attr
	})
}

// growsInWorker are the places where a dataset's __getitem__ adds to what the dataset keeps.
func (f *file) growsInWorker(k *class) []growth {
	list, known := f.index.workers[k]
	if known {
		return list
	}
	for _, get := range k.order {
		if get.name != "__getitem__" && !f.calledFrom(k, get) {
			continue
		}
		for _, g := range f.growthsOf(get) {
			h, ok := f.holderOf(g.into)
			if ok && h.attr && !f.isEmptied(h, node{}, node{}) && !f.optional(g.at, h) && f.plainDict(h) {
				list = append(list, g)
			}
		}
	}
	f.index.workers[k] = list
	return list
}

// calledFrom reports whether a method is called by the class's __getitem__.
func (f *file) calledFrom(k *class, m *function) bool {
	get := k.methods["__getitem__"]
	if get == nil {
		return false
	}
	for _, c := range get.calls[m.name] {
		if c.receiver().text() == "self" {
			return true
		}
	}
	return false
}

// optional reports whether an if around a place asks a setting: a cache that somebody has chosen.
func (f *file) optional(n node, h holder) bool {
	for at := n.parent(); at.ok() && !at.is("function_definition"); at = at.parent() {
		if !at.is("if_statement") {
			continue
		}
		cond := at.field("condition")
		setting := cond.any(func(x node) bool {
			return x.is("attribute") && f.plain(x) != h.name && strings.HasPrefix(f.plain(x), "self.")
		})
		if setting && !cond.is("comparison_operator") || f.fits(cacheWord, cond.text()) &&
			!cond.is("comparison_operator") {
			return true
		}
	}
	return false
}

// datasetGrows finds datasets that keep more with each item they give (MG202).
func datasetGrows(f *file, r *reporter) {
	for _, k := range f.classes {
		if !k.isDataset() {
			continue
		}
		for _, g := range f.growsInWorker(k) {
			h, _ := f.holderOf(g.into)
			if f.onceAKey(g, h) || endsIn(f.dotted(g.at.field("function")), "add") && f.grade(g.value) == scalar {
				continue // a cache that ends with the epoch: MG203 says where it doesn't
			}
			r.report(g.at, fmt.Sprintf("%s grows with each item: every worker has a copy of its own", quote(h.name)),
				"don't keep it, bound it (lru_cache(maxsize=…)), or fill it once before the workers "+
					"start", held(h.name))
		}
	}
}

// onceAKey reports whether an item is kept once for each key: under "if key not in self.cache".
func (f *file) onceAKey(g growth, h holder) bool {
	for at := g.at.parent(); at.ok() && !at.is("function_definition"); at = at.parent() {
		if at.is("if_statement") && at.field("condition").any(func(n node) bool { return f.means(h, n) }) {
			return true
		}
	}
	return g.at.is("assignment") && f.function(g.at).any(func(n node) bool {
		return n.is("if_statement") && n.end() < g.at.start() &&
			n.field("condition").any(func(x node) bool { return f.means(h, x) })
	})
}

// persistentWorkers finds loaders whose workers live on with a dataset that grows (MG203).
func persistentWorkers(f *file, r *reporter) {
	for _, c := range f.loaders() {
		p := f.option(c, "persistent_workers")
		if !p.ok() || p.text() == "False" {
			continue
		}
		if k := f.datasetOf(c); k != nil {
			if gs := f.growsInWorker(k); len(gs) > 0 {
				h, _ := f.holderOf(gs[0].into)
				r.report(p.parent(), fmt.Sprintf("persistent workers never give back what %s of %s has grown to",
					quote(h.name), k.name),
					"persistent_workers=False frees it after each epoch; better: bound "+
						""+h.name, held(h.name), with(gs[0].at))
			}
		}
	}
}

// mostPinned is how many batches may lie pinned in a queue: PyTorch's own default, two a worker, with 32 workers.
const mostPinned = 64

// pinnedQueue finds loaders that pin very many batches (MG204).
func pinnedQueue(f *file, r *reporter) {
	for _, c := range f.loaders() {
		prefetch, pins := f.option(c, "prefetch_factor"), f.option(c, "pin_memory")
		w, p := f.workers(c), number(prefetch)
		if !pins.ok() || pins.is("false", "none") || w <= 0 || p <= 2 || w*p < mostPinned {
			continue
		}
		r.report(prefetch.parent(),
			fmt.Sprintf("up to %d batches wait in pinned memory, which no other process can have", w*p),
			"prefetch_factor=2 is enough unless reading time varies much")
	}
}

// cycleLoader finds itertools.cycle over a loader: it keeps every batch (MG205).
func cycleLoader(f *file, r *reporter) {
	for _, c := range f.byName["cycle"] {
		if c.name != "itertools.cycle" {
			continue
		}
		over := c.arg(0)
		name := f.plain(over)
		isLoader := over.is("call") && endsIn(f.dotted(over.field("function")), "DataLoader") ||
			strings.Contains(strings.ToLower(last(name)), "loader")
		for _, b := range f.index.bound[name] {
			if v := b.value.bare(); v.is("call") {
				isLoader = isLoader || endsIn(f.dotted(v.field("function")), "DataLoader")
			}
		}
		if isLoader {
			r.report(c.node, "itertools.cycle() keeps every batch of the first round for ever, and repeats that order",
				"def cycle(loader):\n    while True:\n        yield from loader", held(name))
		}
	}
}

var replayName = pattern.Of(`(?i)(replay|memory|buffer|experience|transition|trajector)`)

// replayBuffer finds buffers of past steps without a bound (MG206).
func replayBuffer(f *file, r *reporter) {
	for _, g := range f.growths() {
		h, ok := f.holderOf(g.into)
		fn := f.function(g.at)
		if !ok || !h.attr || !f.fits(replayName, h.name) || fn.class == nil || fn.class.isModule() ||
			!g.at.is("call") ||
			!f.fits(replayName, fn.class.name) && !strings.Contains(strings.ToLower(fn.class.name), "agent") {
			continue
		}
		switch fn.name {
		case "push", "add", "store", "remember", "append", "store_transition", "cache", "observe", "insert":
		default:
			continue
		}
		if f.growsFreely(h, g, node{}) && !f.comparesCapacity(fn, h) && !f.madeAnew(fn.class) {
			r.report(g.at, fmt.Sprintf("%s has no bound: each step adds a transition for good", quote(h.name)),
				"collections.deque(maxlen=capacity), and keep states on the CPU", held(h.name))
		}
	}
}

// madeAnew reports whether a class's objects are made in a loop, here or by another file: each holds one round's items.
func (f *file) madeAnew(k *class) bool {
	if f.told != nil && f.told.guarded[k.name]&anew != 0 {
		return true
	}
	return slices.ContainsFunc(f.byName[k.name], func(c call) bool { return f.renewed(c.node) })
}

// renewed reports whether an object is made in a loop and given to the same name each time.
func (f *file) renewed(n node) bool {
	stmt := n.up("assignment")
	return stmt.ok() && stmt.field("left").is("identifier", "attribute") && len(f.loops(stmt)) > 0
}

// comparesCapacity reports whether a method compares something with a capacity.
func (f *file) comparesCapacity(fn *function, h holder) bool {
	compares, known := f.index.limits[fn.class]
	if !known {
		compares = fn.class.any(func(n node) bool {
			if !n.is("comparison_operator") && !(n.is("binary_operator") && strings.Contains(n.text(), "%")) {
				return false
			}
			return f.fits(sizeWord, n.text())
		})
		f.index.limits[fn.class] = compares
	}
	return compares
}

// queueNeverRead finds queues between processes that every step fills and nothing here reads (MG207).
func queueNeverRead(f *file, r *reporter) {
	for _, c := range f.byName["put"] {
		if !f.stepLoopOf(c.node).ok() || f.grade(c.arg(0)) < detached {
			continue
		}
		name := f.plain(c.receiver())
		made, read := false, false
		for _, b := range f.index.bound[name] {
			v := b.value.bare()
			made = made || v.is("call") && endsIn(f.dotted(v.field("function")), "Queue", "SimpleQueue") &&
				len(v.field("arguments").children()) == 0
		}
		for _, get := range append(append([]call{}, f.byName["get"]...), f.byName["get_nowait"]...) {
			read = read || len(get.args()) == 0
		}
		if !made {
			continue
		}
		for _, other := range f.calls { // another process or thread gets it
			read = read || other.name != c.name && f.passes(other, name) || strings.Contains(other.text(), "args=") &&
				strings.Contains(other.field("arguments").text(), name)
		}
		if !read {
			r.report(c.node, fmt.Sprintf("tensors go into %s and nothing takes them out", quote(name)),
				"give the queue a maxsize, and read it", held(name))
		}
	}
}

// queueUnbounded finds threads and processes that put tensors or samples into a queue without a bound, as fast as they
// can be read (MG209).
func queueUnbounded(f *file, r *reporter) {
	for _, c := range f.byName["put"] {
		fn := f.function(c.node)
		loop := f.producerLoop(c)
		if !loop.ok() || c.arg(0).is("none", "string", "integer", "float", "true", "false") ||
			f.grade(c.arg(0)) == scalar {
			continue
		}
		if starts := f.startOf(fn); starts.ok() {
			if made := f.endlessQueue(c.receiver(), fn, starts); made.ok() {
				r.report(made, fmt.Sprintf("%s has no bound, and its producer waits for nobody: samples pile up in it",
					quote(f.plain(c.receiver()))), "give it a maxsize: put() then waits", held(f.plain(c.receiver())),
					with(c.node))
			}
		}
	}
}

// producerLoop is a loop around a put() that goes over data, or never ends, and takes nothing from another queue.
func (f *file) producerLoop(c call) node {
	loops := f.loops(c.node)
	for _, l := range loops {
		for _, get := range between(f.byName["get"], l, func(c call) node { return c.node }) {
			if len(get.args()) == 0 || get.keyword("timeout").ok() {
				return node{}
			}
		}
	}
	for _, l := range loops {
		if data := l.field("right").text(); f.fits(loaderName, data) || f.fits(dataName, data) {
			return l
		}
	}
	return node{}
}

var dataName = pattern.Of(`(?i)(dataset|sampler|\bdata\b|_data\b)`)

// startOf is the call that starts a function in a thread or a process: Thread(target=fn).
func (f *file) startOf(fn *function) node {
	for _, name := range []string{"Thread", "Process"} {
		for _, c := range f.byName[name] {
			if t := c.keyword("target"); t.ok() && last(f.plain(t)) == fn.name {
				return c.node
			}
		}
	}
	return node{}
}

// endlessQueue is the call that makes a queue without a size.
func (f *file) endlessQueue(n node, fn *function, starts node) node {
	name := f.plain(n)
	list := fn.bindings[name]
	if strings.HasPrefix(name, "self.") && fn.within != nil {
		list = f.attrsOf(fn.within, name)
	} else if i := slices.Index(fn.params, name); i >= 0 {
		args := call{starts, ""}.keyword("args").children()
		if fn.class != nil {
			i--
		}
		if i < 0 || i >= len(args) {
			return node{}
		}
		list = f.index.bound[f.plain(args[i])]
	}
	for _, b := range list {
		v := b.value.bare()
		if v.is("call") && endsIn(f.dotted(v.field("function")), "Queue", "SimpleQueue", "LifoQueue",
			"JoinableQueue") &&
			len(v.field("arguments").children()) == 0 {
			return v
		}
	}
	return node{}
}

// dataframeGrows finds tables that get a row a step by copying them (MG208).
func dataframeGrows(f *file, r *reporter) {
	for _, fn := range f.funcs {
		for _, name := range fn.names {
			for _, b := range fn.bindings[name] {
				v := b.value.bare()
				loop := f.stepLoopOf(b.at)
				if b.kind != "=" || !v.is("call") || !loop.ok() || !f.trains(loop) && !fn.hasBack {
					continue
				}
				c := call{v, f.dotted(v.field("function"))}
				grows := endsIn(c.name, "pandas.concat", "pd.concat") && strings.HasPrefix(c.arg(0).text(), "["+name) ||
					endsIn(c.name, name+".append", name+"._append")
				if grows && f.madeBefore(fn, name, loop) {
					r.report(b.at, fmt.Sprintf("%s is copied whole at every step; the heap is left full of holes",
						quote(name)),
						"collect plain rows in a list and make the DataFrame once, or write the rows to a "+
							"file", held(name))
				}
			}
		}
	}
}
