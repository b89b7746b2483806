package check

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// batchesKept finds batches of a training that a list keeps through all epochs (MG125).
func batchesKept(f *file, r *reporter) {
	for _, g := range f.growths() {
		fn := f.function(g.at)
		h, ok := f.holderOf(g.into)
		loop := f.stepLoopOf(g.at)
		if !ok || !g.at.is("call") || !loop.ok() || h.attr || !loop.is("for_statement") || f.conditional(g.at) ||
			!f.fits(loaderName, loop.field("right").text()) || !f.epochs(h, g.at) || !f.trains(loop) ||
			f.grade(g.value).graph() || !f.growsFreely(h, g, loop) || !f.ofBatch(fn, g.value, loop, 0) {
			continue
		}
		r.report(g.at, fmt.Sprintf("%s keeps the batches of all epochs", quote(h.name)),
			"keep what is read of them: a number, a few samples, the last epoch's", held(h.name))
	}
}

// ofBatch reports whether a value is a loop's batch, a part of it, or a copy on another device.
func (f *file) ofBatch(fn *function, n, loop node, depth int) bool {
	n = n.bare()
	for n.is("call", "subscript") {
		c := call{n, f.dotted(n.field("function"))}
		switch {
		case n.is("subscript") && n.field("subscript").is("integer", "string"):
			n = n.field("value").bare()
		case n.is("call") && endsIn(c.last(), "to", "cuda", "cpu", "clone", "detach", "numpy") && c.receiver().ok():
			n = c.receiver().bare()
		default:
			return false
		}
	}
	if !n.is("identifier") || depth > maxTensorDepth {
		return false
	}
	b, ok := f.latest(fn, n.text(), n)
	switch {
	case !ok:
		return false
	case b.kind == "for":
		counts := strings.HasPrefix(loop.field("right").text(), "enumerate") && len(b.path) > 0 && b.path[0] == 0
		return b.at.i == loop.i && !counts
	}
	return b.kind == "=" && b.at.inside(loop) && f.ofBatch(fn, b.value, loop, depth+1)
}

// listMetric are torchmetrics' classes that keep every prediction until reset(): their states are lists.
var listMetric = pattern.Of(`^(Binary|Multiclass|Multilabel)?(AUROC|AveragePrecision|PrecisionRecallCurve|` +
	`ROC)$|^(Cat|Retrieval\w+|MeanAveragePrecision|ROUGEScore|BERTScore|KernelInceptionDistance|InceptionScore|` +
	`SpearmanCorrCoef|KendallRankCorrCoef|CosineSimilarity|CatMetric)$`)

// metricNotReset finds metrics that go on through all epochs with every prediction in them (MG126).
func metricNotReset(f *file, r *reporter) {
	for _, c := range f.calls {
		if !strings.HasPrefix(c.name, "torchmetrics.") || !f.fits(listMetric, c.last()) ||
			c.keyword("thresholds").ok() {
			continue
		}
		name := f.boundTo(c.node)
		if k := f.classAt(c.node); name == "" || k.isLightning() || f.resets(name) {
			continue
		}
		if u := f.updatedFor(c, name); u.ok() {
			r.report(u, fmt.Sprintf("%s keeps the predictions of all epochs: nothing calls its reset()", quote(name)),
				"call "+name+".reset() when compute() has been read, or thresholds=… for a state of fixed size",
				held(name), with(c.node))
		}
	}
}

// boundTo is the name that the statement around a call gives its value to, at once or by .to(device).
func (f *file) boundTo(n node) string {
	for p := n.parent(); p.ok(); n, p = p, p.parent() {
		switch {
		case p.is("assignment") && p.field("right").i == n.i && p.field("left").is("identifier", "attribute"):
			return f.plain(p.field("left"))
		case p.is("attribute", "call"):
		default:
			return ""
		}
	}
	return ""
}

// resets reports whether something calls reset() on what may be a metric.
func (f *file) resets(name string) bool {
	for _, c := range f.byName["reset"] {
		if on := c.receiver(); on.ok() && (last(f.plain(on)) == last(name) || on.is("identifier") &&
			!strings.Contains(on.text(), "env")) {
			return true
		}
	}
	return false
}

// updatedFor is a place where a metric gets more with each epoch: it is made before a loop over epochs that has a loop
// over batches, or by __init__ for a method that is called in a loop.
func (f *file) updatedFor(made call, name string) node {
	for _, c := range append(f.byName["update"], f.byName[last(name)]...) {
		if n := f.plain(c.field("function")); n != name+".update" && n != name {
			continue
		}
		fn := f.function(c.node)
		if strings.HasPrefix(name, "self.") {
			if made.class(f) == c.class(f) && f.function(made.node).name == "__init__" && f.calledInLoop(fn) {
				return c.node
			}
			continue
		}
		steps := 0
		for _, l := range f.loops(c.node) {
			if made.inside(l) {
				break
			}
			if f.kindOf(l) == stepLoop {
				steps++
			}
		}
		if steps >= 2 && fn == f.function(made.node) {
			return c.node
		}
	}
	return node{}
}

// makesArray reports whether a function makes or reads tensors or arrays.
func (f *file) makesArray(n node) bool {
	return n.any(func(at node) bool {
		if !at.is("call") {
			return false
		}
		name := f.dotted(at.field("function"))
		return strings.HasPrefix(name, "torch.") || strings.HasPrefix(name, "numpy.") || strings.HasPrefix(name,
			"np.") ||
			strings.HasPrefix(name, "PIL.") || strings.HasPrefix(name, "cv2.")
	})
}

// cachedMethods finds caches without a bound on methods: they keep every object and every result (MG127).
func cachedMethods(f *file, r *reporter) {
	for _, fn := range f.funcs {
		if fn.class == nil || len(fn.params) == 0 || fn.params[0] != "self" {
			continue
		}
		for _, d := range fn.parent().children() {
			if !d.is("decorator") || f.tensorParam(fn).ok() {
				continue
			}
			head := d.child().bare()
			c := call{head, strings.TrimSuffix(f.dotted(head), "()")}
			endless := endsIn(c.name, "functools.cache") || endsIn(c.name, "functools.lru_cache") && head.is("call") &&
				(c.keyword("maxsize").text() == "None" || c.arg(0).text() == "None")
			cached := endless || endsIn(c.name, "functools.lru_cache")
			if !cached || !fn.class.isModule() && !(endless && len(fn.params) > 1 && f.makesArray(fn.field("body"))) {
				continue
			}
			r.report(d, fmt.Sprintf("the cache of %s() lives as long as the class: it keeps each object that it was "+
				"called on, with all results", fn.name),
				"keep the results in an attribute with a bound, or cache a function that takes no self", held(fn.name))
		}
	}
}
