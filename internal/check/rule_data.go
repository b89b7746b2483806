package check

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	sizeWord  = regexp.MustCompile(`(?i)(capacity|max|size|limit|len)`)
	cacheWord = regexp.MustCompile(`(?i)cache`)
)

// isDataset reports whether a class is a dataset that workers copy.
func (c *class) isDataset() bool {
	return c != nil && c.methods["__getitem__"] != nil && strings.Contains(strings.Join(c.bases, " "), "Dataset")
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
func workers(c call) int { return number(c.keyword("num_workers")) }

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
		if w := c.keyword("num_workers"); k == nil || !w.ok() || workers(c) == 0 {
			continue
		}
		init := k.methods["__init__"]
		if init == nil {
			continue
		}
		for _, name := range init.names {
			for _, b := range init.bindings[name] {
				if attr, of := strings.CutPrefix(name, "self."); of && b.kind == "=" && f.manyObjects(b.value) &&
					f.indexed(k, attr) {
					r.report(b.at, fmt.Sprintf("%s holds Python objects: every worker's reads count references, which "+
						"copies their pages", quote(name)),
						"keep the records in an array or a tensor (numpy, pyarrow), or read them from "+
							"disk", held(name), with(c.node))
				}
			}
		}
	}
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
			if f.onceAKey(g, h) {
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
		p := c.keyword("persistent_workers")
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
		w, p := workers(c), number(c.keyword("prefetch_factor"))
		if c.keyword("pin_memory").text() != "True" || w <= 0 || p <= 2 || w*p < mostPinned {
			continue
		}
		r.report(c.keyword("prefetch_factor").parent(),
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
			f.fits(loaderName, name)
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

var replayName = regexp.MustCompile(`(?i)(replay|memory|buffer|experience|transition|trajector)`)

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
		if f.growsFreely(h, g, node{}) && !f.comparesCapacity(fn, h) {
			r.report(g.at, fmt.Sprintf("%s has no bound: each step adds a transition for good", quote(h.name)),
				"collections.deque(maxlen=capacity), and keep states on the CPU", held(h.name))
		}
	}
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
