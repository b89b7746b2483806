package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// perStep reports whether a place runs at every step: in a loop over steps or a hook, under no condition.
func (f *file) perStep(n node) bool {
	fn := f.function(n)
	return (f.stepLoopOf(n).ok() || fn.hook() || fn.name == "forward" && fn.class.isModule()) && !f.conditional(n)
}

// groupEachStep finds process groups that every step makes anew (MG401).
func groupEachStep(f *file, r *reporter) {
	for _, name := range []string{"new_group", "init_process_group", "new_subgroups", "init_device_mesh"} {
		for _, c := range f.byName[name] {
			if (strings.Contains(c.name, "distributed") || strings.HasPrefix(c.name, "dist.")) && f.perStep(c.node) &&
				!f.destroys(f.function(c.node)) {
				r.report(c.node, "each step makes a process group: a communicator holds some hundred MiB on every GPU "+
					"until it is destroyed",
					"make the group once before the loop, and use it again")
			}
		}
	}
}

func (f *file) destroys(fn *function) bool {
	return len(fn.calls["destroy_process_group"]) > 0
}

// ownRanks reports whether the file itself starts a job of several ranks with GPUs.
func (f *file) ownRanks() bool {
	for _, c := range f.byName["init_process_group"] {
		if strings.Contains(c.name, "distributed") || strings.HasPrefix(c.name, "dist.") {
			return !strings.Contains(c.field("arguments").text(), "gloo")
		}
	}
	return false
}

// ranks are the functions that a program starts as its ranks; none where something else starts them (torchrun).
func (f *file) ranks() map[*function]bool {
	started := map[*function]bool{}
	for _, name := range []string{"spawn", "start_processes", "Process"} {
		for _, c := range f.byName[name] {
			c.field("arguments").all(func(n node) bool { // target=init_process, args=(rank, size, run)
				if f.spend(1); n.is("identifier") {
					for _, fn := range f.fnNamed[n.text()] {
						started[fn] = true
					}
				}
				return true
			})
		}
	}
	for _, c := range f.byName["init_process_group"] {
		if f.below(f.function(c.node), started, map[*function]bool{}) {
			return started
		}
	}
	return nil
}

// below reports whether a function is one of some, stands in one, or is called by one.
func (f *file) below(fn *function, some, seen map[*function]bool) bool {
	for at := fn; at != nil; at = at.outer {
		if some[at] {
			return true
		}
	}
	if seen[fn] || len(seen) > maxChain {
		return false
	}
	seen[fn] = true
	return slices.ContainsFunc(f.callers(fn), func(c call) bool { return f.below(f.function(c.node), some, seen) })
}

// loadOnRanks finds checkpoints that every rank loads to where they were saved from: the first GPU (MG402).
func loadOnRanks(f *file, r *reporter) {
	if !f.ownRanks() {
		return
	}
	for _, c := range f.byName["load"] {
		if c.name == "torch.load" && c.keyword("map_location").ok() {
			return // who names the place once knows of it: the other call is for one process
		}
	}
	told, ranks := map[*function]bool{}, f.ranks()
	for _, c := range f.byName["load"] {
		if ranks != nil && !f.below(f.function(c.node), ranks, map[*function]bool{}) {
			continue // the process that starts the ranks
		}
		stmt := c.up("expression_statement").text()
		if c.name != "torch.load" || c.keyword("map_location").ok() || len(c.args()) > 1 || c.spread() ||
			f.rankZero(c.node) || f.fits(hostData, stmt) || f.fits(pretrained, stmt) || f.ofRank(c) ||
			!f.savesFromGPU(c) || told[f.function(c.node)] || f.ifPretrained(c.node) {
			continue
		}
		told[f.function(c.node)] = true // one mistake, however many files it loads
		r.report(c.node, "every rank loads this to the GPU that it was saved from: rank 0's fills up",
			`map_location="cpu", or the rank's own device`, suggested(Edit{c.arg(0).end(), c.arg(0).end(),
				`, map_location="cpu"`}))
	}
}

// ifPretrained reports whether a place runs only where somebody else's weights are asked for.
func (f *file) ifPretrained(n node) bool {
	return f.underIf(n, func(at node) bool { return f.fits(pretrained, at.field("condition").text()) })
}

// underIf reports whether one of the if statements around a place fits, up to the first of some kinds of nodes.
func (f *file) underIf(n node, fits func(at node) bool, ends ...string) bool {
	for up := n.parent(); up.ok() && !up.is(ends...); up = up.parent() {
		if f.spend(1); up.is("if_statement") && fits(up) {
			return true
		}
	}
	return false
}

// pretrained are weights that somebody else has saved, mostly from the CPU.
var pretrained = pattern.Of(`(?i)(pretrain|imagenet|restore_from|backbone|init_(model|weights|checkpoint)|` +
	`teacher|vgg|resnet)`)

// ofRank reports whether a path has the rank in it: each loads a file of its own.
func (f *file) ofRank(c call) bool {
	path := c.arg(0)
	if b, ok := f.latest(f.function(c.node), f.plain(path), c.node); ok && b.value.ok() {
		path = b.value
	}
	return f.fits(rankWord, path.text())
}

// savesFromGPU reports whether this file, or one that it imports, saves what is loaded here, from wherever it lies.
func (f *file) savesFromGPU(c call) bool {
	stmt := c.up("expression_statement").text()
	if !strings.Contains(stmt, "load_state_dict") && !f.fits(checkpointName, stmt) {
		return false
	}
	for _, s := range f.byName["save"] {
		if text := s.text(); s.name == "torch.save" && !strings.Contains(text, "cpu") {
			return true
		}
	}
	return len(f.byName["save_checkpoint"]) > 0
}

var checkpointName = pattern.Of(`(?i)(checkpoint|ckpt|resume|state_dict|snapshot|latest|last)`)

// hostData is what people save that lies in the CPU's memory: features, schedulers, vocabularies.
var hostData = pattern.Of(`(?i)(feature|cache|sched|dataset|vocab|config|meta|label|split|example|token|` +
	`buffer|stats)`)

var rankWord = pattern.Of(`(?i)(rank|is_main|is_master|master_only|main_process)`)

// rankZero reports whether a place runs on one rank only.
func (f *file) rankZero(n node) bool {
	if f.guardedElsewhere(f.function(n), oneRank) {
		return true
	}
	for at := n.parent(); at.ok(); at = at.parent() {
		if at.is("if_statement") && f.fits(rankWord, at.field("condition").text()) {
			return true
		}
	}
	return false
}

// firstGPU finds ranks that all compute on the first GPU (MG403).
func firstGPU(f *file, r *reporter) {
	if !f.ownRanks() || len(f.byName["set_device"]) > 0 ||
		len(f.byName["device_count"]) > 0 ||
		f.mentions("CUDA_VISIBLE_DEVICES") {
		return
	}
	trains := len(f.byName["backward"])+len(f.byName["DistributedDataParallel"]) > 0
	ranks := f.ranks()
	for _, name := range []string{"cuda", "to", "device"} {
		for _, c := range f.byName[name] {
			if !trains && !f.fits(modelCall, last(f.plain(c.receiver()))) || f.oneProcess(c.node) ||
				ranks != nil && !f.below(f.function(c.node), ranks, map[*function]bool{}) {
				continue // who trains may have set the device
			}
			arg := strings.Trim(c.arg(0).text(), `"'`)
			if name == "cuda" && c.receiver().ok() && len(c.args()) == 0 && c.name != "torch.cuda" ||
				name != "cuda" && len(c.args()) == 1 && len(c.values()) == 0 && (arg == "cuda" || arg == "cuda:0") {
				r.report(c.node, "without torch.cuda.set_device every rank puts this on the first GPU",
					"torch.cuda.set_device(local_rank) before anything uses CUDA")
				return
			}
		}
	}
}

// oneProcess reports whether a place runs only where there are no ranks: if not args.distributed.
func (f *file) oneProcess(n node) bool {
	return f.underIf(n, func(at node) bool {
		return n.inside(at.field("consequence")) && f.fits(notDistributed, at.field("condition").text())
	})
}

var notDistributed = pattern.Of(`(?i)^not [\w.]*(distributed|ddp|multi_?gpu)$`)

// settingTooLate finds settings of the allocator that come after CUDA has read them (MG404).
func settingTooLate(f *file, r *reporter) {
	for _, fn := range f.funcs {
		for _, name := range fn.names {
			for _, b := range fn.bindings[name] {
				if !b.target.is("subscript") || f.dotted(b.target.field("value")) != "os.environ" {
					continue
				}
				key := strings.Trim(b.target.field("subscript").text(), `"'`)
				if key != "PYTORCH_CUDA_ALLOC_CONF" && key != "PYTORCH_ALLOC_CONF" {
					continue
				}
				if used := f.cudaBefore(fn, b.at); used.ok() {
					r.report(b.at, fmt.Sprintf("CUDA is in use since line %d: the allocator does not read this any "+
						"more",
						f.src.line(used.start())), "set it before the program starts, or before torch is "+
						"imported", with(used))
				}
			}
		}
	}
}

// cudaBefore is a place before n, in the same function and in no branch, that uses the GPU's memory.
func (f *file) cudaBefore(fn *function, n node) node {
	for _, c := range f.cudaCalls(fn) {
		if f.spend(1); c.start() >= n.start() {
			break
		}
		if !n.inside(c.node) {
			return c.node
		}
	}
	return node{}
}

// cudaCalls are the calls of a function, in no branch, that use the GPU's memory.
func (f *file) cudaCalls(fn *function) []call {
	list, known := f.index.cuda[fn]
	if known {
		return list
	}
	for _, c := range f.callsIn(fn.node) {
		if f.function(c.node) != fn || f.conditional(c.node) || c.up("try_statement").ok() {
			continue
		}
		arg := strings.Trim(c.arg(0).text(), `"'`)
		if c.last() == "cuda" && c.receiver().ok() && c.receiver().text() != "torch" || c.last() == "to" &&
			strings.HasPrefix(arg, "cuda") ||
			strings.HasPrefix(c.name, "torch.") && strings.HasPrefix(strings.Trim(c.keyword("device").text(), `"'`),
				"cuda") {
			list = append(list, c)
		}
	}
	f.index.cuda[fn] = list
	return list
}

// emptyCacheEachStep finds caches that are thrown away at every step (MG405).
func emptyCacheEachStep(f *file, r *reporter) {
	for _, c := range f.byName["empty_cache"] {
		if !strings.HasPrefix(c.name, "torch.") || !f.perStep(c.node) {
			continue
		}
		fn := f.function(c.node)
		loops := f.loops(c.node)
		if fn.hook() || len(loops) > 0 && (f.trains(loops[0]) ||
			f.fits(loaderName, loops[0].field("right").text())) &&
			!f.epochLoopOnly(loops[0]) {
			r.report(c.node, "empty_cache() at every step: the allocator asks the driver for all of it again, and a "+
				"leak is hidden, not mended",
				"leave it out, or call it every some hundred steps where the cache fragments; better: "+
					"PYTORCH_ALLOC_CONF=expandable_segments:True")
		}
	}
}

// epochLoopOnly reports whether a loop goes over epochs and has one over batches in it: its own statements are rare.
func (f *file) epochLoopOnly(loop node) bool {
	return loop.field("body").any(func(n node) bool {
		return n.is("for_statement", "while_statement") && f.kindOf(n) == stepLoop
	})
}

// varyingShapes finds trainings whose batches have a size drawn at random, which fragments the cache (MG406).
func varyingShapes(f *file, r *reporter) {
	if len(f.byName["empty_cache"]) > 0 || f.mentions("expandable_segments") {
		return
	}
	for _, c := range f.byName["interpolate"] {
		fn := f.function(c.node)
		loop := f.stepLoopOf(c.node)
		if !(loop.ok() && f.trains(loop)) && fn.name != "training_step" {
			continue
		}
		size := c.keyword("size")
		if !size.ok() {
			size = c.keyword("scale_factor")
		}
		for _, name := range f.carried(size) {
			if b, ok := f.latest(fn, name, c.node); ok && strings.Contains(b.value.text(), "random.") {
				r.report(c.node, "every batch has another size: PyTorch's cache keeps blocks of each and fragments",
					"PYTORCH_ALLOC_CONF=expandable_segments:True, a few fixed sizes, or torch.cuda.empty_cache() "+
						"every 50 batches",
					with(b.at))
				break
			}
		}
	}
}

// gcOff finds programs that switch the collector off and never collect (MG407).
func gcOff(f *file, r *reporter) {
	collects := false
	for _, name := range []string{"collect", "enable", "freeze", "callbacks"} {
		for _, c := range f.byName[name] {
			collects = collects || strings.HasPrefix(c.name, "gc.")
		}
	}
	for _, c := range f.byName["disable"] {
		if c.name == "gc.disable" && !collects {
			r.report(c.node, "the garbage collector is off for good: circles with tensors in them are never freed",
				"call gc.collect() every some hundred steps, or gc.freeze() and leave it on")
		}
	}
}

// compileInLoop finds modules that every step compiles anew (MG408).
func compileInLoop(f *file, r *reporter) {
	for _, c := range f.byName["compile"] {
		if c.name == "torch.compile" && f.perStep(c.node) && f.function(c.node).name != "forward" {
			r.report(c.node, "each round compiles again: every compiled version and its buffers stay cached",
				"compile once before the loop")
		}
	}
}

// compileVarying finds compiled models whose batches are padded to their own longest (MG409).
func compileVarying(f *file, r *reporter) {
	if f.mentions("mark_dynamic") || f.mentions("pad_to_multiple_of") {
		return
	}
	pads := node{}
	for _, c := range f.byName["pad_sequence"] {
		pads = c.node
	}
	for _, c := range f.calls {
		p := strings.Trim(c.keyword("padding").text(), `"'`)
		if (p == "True" || p == "longest") && strings.Contains(strings.ToLower(c.last()), "token") {
			pads = c.node
		}
	}
	if !pads.ok() {
		return
	}
	for _, c := range f.byName["compile"] {
		if c.name == "torch.compile" && !c.keyword("dynamic").ok() && !c.spread() &&
			f.fits(modelCall, last(f.plain(c.arg(0)))) {
			r.report(c.node, fmt.Sprintf("batches are padded to their own longest (line %d): a graph is compiled and "+
				"kept for shapes that vary",
				f.src.line(pads.start())), "dynamic=True, torch._dynamo.mark_dynamic(), or pad to a few "+
				"lengths", with(pads))
		}
	}
}

// optimizerInLoop finds optimizers that are made anew for a model that lives on (MG410).
func optimizerInLoop(f *file, r *reporter) {
	for _, c := range f.calls {
		params := c.arg(0)
		if !(strings.HasPrefix(c.name, "torch.optim.") || strings.HasPrefix(c.name, "optim.")) ||
			strings.Contains(c.name, "lr_scheduler") ||
			!params.is("call") || last(f.dotted(params.field("function"))) != "parameters" {
			continue
		}
		loop := f.stepLoopOf(c.node)
		fn := f.function(c.node)
		if !loop.ok() || f.conditional(c.node) || f.madeIn(fn, params.field("function").field("object"), loop) ||
			!f.trains(loop) || strings.Contains(c.text(), "LBFGS") ||
			last(c.name) == "SGD" && !c.keyword("momentum").ok() { // no state
			continue
		}
		r.report(c.node, "the optimizer and its state are made again in every round; the old one lives until then: "+
			"twice the memory",
			"make it once before the loop; to begin anew, optimizer.state.clear()")
	}
}

// zeroedNotFreed finds gradients that are filled with zeros between steps (MG411).
func zeroedNotFreed(f *file, r *reporter) {
	for _, c := range f.byName["zero_grad"] {
		if c.keyword("set_to_none").text() == "False" && (f.stepLoopOf(c.node).ok() || f.function(c.node).hook()) {
			r.report(c.node, "gradients are zeroed, not freed: they take the weights' size through the forward pass "+
				"as well",
				"zero_grad() alone frees them; check first that nothing reads p.grad between steps",
				suggested(withoutArgument(c, "set_to_none")...))
		}
	}
}

// autocastLoop finds one autocast around a whole training: its cache of cast weights goes stale and stays (MG412).
func autocastLoop(f *file, r *reporter) {
	for _, c := range f.byName["autocast"] {
		w := c.up("with_statement")
		if !w.ok() || !c.inside(w.child()) || c.keyword("cache_enabled").text() == "False" ||
			c.keyword("enabled").text() == "False" {
			continue
		}
		updates := w.field("body").any(func(n node) bool {
			if !n.is("for_statement", "while_statement") || f.kindOf(n) != stepLoop {
				return false
			}
			return f.trains(n) || f.reloads(n)
		})
		if updates {
			r.report(c.node, "one autocast around the loop: the cast copies of all weights stay cached until it ends, "+
				"and go stale",
				"put autocast around the forward pass of each step, or cache_enabled=False")
		}
	}
}

// reloads reports whether a loop gives a model other weights.
func (f *file) reloads(loop node) bool {
	return len(between(f.byName["load_state_dict"], loop, func(c call) node { return c.node })) > 0
}

// graphPool finds CUDA graphs that are captured again and again, each with a memory pool of its own (MG413).
func graphPool(f *file, r *reporter) {
	for _, c := range f.byName["graph"] {
		if c.name != "torch.cuda.graph" || c.keyword("pool").ok() || len(c.args()) > 1 || c.spread() ||
			len(f.loops(c.node)) == 0 {
			continue
		}
		r.report(c.node, "each capture gets a private memory pool that no other graph can use",
			"share one: pool = torch.cuda.graph_pool_handle() before the loop, torch.cuda.graph(g, pool=pool)")
	}
}
