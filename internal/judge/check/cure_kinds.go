package check

import (
	"fmt"
	"slices"
	"strings"
)

// Changes for what keeps memory in its own way: caches, iterators, hooks, queues, streams, blocks of C.

// endCycle replaces itertools.cycle, which keeps every item that it gave.
func (c *curing) endCycle() {
	for _, k := range c.byName["cycle"] {
		if k.name != "itertools.cycle" || len(k.args()) != 1 || !c.onLine(k.node) && !c.holds(c.boundTo(k.node)) {
			continue
		}
		of := k.arg(0).bare()
		anew := of.text()
		switch {
		case of.is("call"): // made anew for each round
		case of.is("identifier", "attribute") && c.again(of):
		default:
			continue // an iterator that has ended gives nothing in its second round
		}
		name, edits := c.importing("itertools")
		edits = append(edits, Edit{k.start(), k.end(),
			fmt.Sprintf("%s.chain.from_iterable(%s for _ in %s.count())", name, anew, name)})
		c.propose(k.node, "begin "+anew+" anew at its end, in place of itertools.cycle, which keeps every item",
			"whether its second round may give other items than its first: cycle gave the same", edits...)
	}
}

// boundTo is the name that gets an expression's value.
func (c *curing) boundTo(n node) string {
	if p := n.parent(); p.is("assignment") {
		return c.plain(p.field("left"))
	}
	return "?"
}

// again reports whether a name is bound to what can be gone through more than once: a list, a data loader, a data set.
func (c *curing) again(n node) bool {
	made := c.index.bound[c.plain(n)]
	return len(made) > 0 && !slices.ContainsFunc(made, func(b binding) bool {
		v := b.value.bare()
		maker := last(c.dotted(v.field("function")))
		return !v.is("list", "list_comprehension", "tuple") && !(v.is("call") && (strings.HasSuffix(maker, "Loader") ||
			strings.HasSuffix(maker, "Dataset") || maker == "list" || maker == "range"))
	})
}

// usualCache is functools.lru_cache's own size.
const usualCache = 128

// sizeCache gives an lru_cache a size.
func (c *curing) sizeCache() {
	if !strings.HasPrefix(c.leak.Held, "lru_cache") && !strings.HasPrefix(c.leak.Held, "cache") {
		return
	}
	size := min(usualCache, c.tenth())
	for _, fn := range c.funcs {
		if !c.holds(fn.name) || !fn.parent().is("decorated_definition") {
			continue
		}
		for _, d := range fn.parent().children() {
			if d.is("decorator") {
				c.sizeDecorator(d.child(), size)
			}
		}
	}
}

func (c *curing) sizeDecorator(d node, size int64) {
	k := call{d, strings.TrimSuffix(c.dotted(d), "()")}
	var edits []Edit
	switch {
	case k.last() == "lru_cache" && d.is("call"):
		limit := k.keyword("maxsize")
		if !limit.ok() {
			limit = k.arg(0)
		}
		if !limit.ok() {
			return // it has its usual size
		}
		edits = []Edit{{limit.start(), limit.end(), fmt.Sprint(size)}}
	case k.name == "functools.cache" && !d.is("call"):
		name, more := c.importing("functools")
		edits = append(more, Edit{d.start(), d.end(), fmt.Sprintf("%s.lru_cache(maxsize=%d)", name, size)})
	}
	c.propose(d, fmt.Sprintf("keep the %d results that were used last", size),
		"whether it gives the same result when it is called again with the same arguments", edits...)
}

// removeHook calls remove() of the handle that registering a hook in a loop gave.
func (c *curing) removeHook() {
	if !strings.HasSuffix(c.leak.Holder, "_hooks") && !strings.Contains(c.leak.Holder, "_hooks.") &&
		!strings.Contains(c.leak.Holder, "_hooks[") {
		return
	}
	for _, k := range c.calls {
		if !c.registers(k, 0) {
			continue
		}
		loop := c.stepLoopOf(k.node)
		if !loop.ok() {
			if list := c.loops(k.node); len(list) > 0 {
				loop = list[0]
			} else {
				continue
			}
		}
		c.removeIn(loop, k)
	}
}

// registers reports whether a call registers a hook and gives its handle, itself or by a function of the text.
func (f *file) registers(k call, depth int) bool {
	if name := k.last(); strings.HasPrefix(name, "register_") && strings.Contains(name, "hook") {
		return true
	}
	const chain = 3 // of functions that hand the handle on
	if depth >= chain {
		return false
	}
	return slices.ContainsFunc(f.fnNamed[k.last()], func(fn *function) bool {
		return slices.ContainsFunc(fn.returns, func(n node) bool {
			n = n.bare()
			return n.is("call") && f.registers(call{n, f.dotted(n.field("function"))}, depth+1)
		})
	})
}

// removeIn removes a handle in the loop that makes it: at the end of each round where each makes its own, else before
// the next is made.
func (c *curing) removeIn(loop node, k call) {
	s := c.statement(k.node)
	const look = "whether the hook is still needed where it is removed"
	if s.is("expression_statement") && k.parent().i == s.i { // nobody keeps the handle
		body := loop.field("body")
		if s.parent().i != body.i {
			return
		}
		edits := append([]Edit{{s.start(), s.start(), "handle = "}}, c.behind(body.lastChild(), "handle.remove()")...)
		if len(edits) == 2 {
			c.propose(k.node, "remove the hook at the end of each round", look, edits...)
		}
		return
	}
	at := k.up("assignment")
	if !at.ok() || !at.inside(loop) || !at.field("left").is("identifier", "attribute") {
		return
	}
	name := at.field("left").text()
	perhaps := at.field("right").is("conditional_expression")
	if s.parent().i == loop.field("body").i {
		lines := []string{name + ".remove()"}
		if perhaps {
			lines = []string{"if " + name + " is not None:", "\t" + name + ".remove()"}
		}
		final := loop.field("body").lastChild()
		edits := c.behind(final, lines...)
		if edits == nil && final.is("if_statement", "with_statement", "for_statement") {
			edits = c.endOf(final, lines...)
		}
		c.propose(k.node, "remove the hook at the end of each round", look, edits...)
		return
	}
	fn := c.function(k.node)
	if !slices.ContainsFunc(fn.bindings[name], func(b binding) bool { return b.at.start() < loop.start() }) {
		return // it may have no value yet
	}
	c.propose(k.node, "remove the hook before the next one is registered", look,
		c.before(s, "if "+name+" is not None:", "\t"+name+".remove()")...)
}

// endOf is an edit that puts lines behind a compound statement, indented like it.
func (f *file) endOf(s node, lines ...string) []Edit {
	indent := f.src.indent(s.start())
	if f.src.starts[f.src.line(s.start())-1]+len(indent) != s.start() {
		return nil
	}
	end := s.end()
	for end > s.start() && strings.ContainsRune(" \t\r\n", rune(f.src.text[end-1])) {
		end--
	}
	line := f.src.line(end - 1)
	at := f.src.starts[line-1] + len(f.src.lineAt(line))
	return []Edit{{at, at, "\n" + indent + strings.Join(f.indented(s, lines), "\n"+indent)}}
}

// looseFinalizer takes out a weakref.finalize whose callback is a method of the object itself and does nothing but let
// go of the object's own attributes: the object's end does that.
func (c *curing) looseFinalizer() {
	for _, k := range c.byName["finalize"] {
		of, with := k.arg(0).bare(), k.arg(1).bare()
		if k.name != "weakref.finalize" || !with.is("attribute") || with.field("object").text() != of.text() ||
			!c.onLine(k.node) && !strings.Contains(c.leak.Holder, "finalize") {
			continue
		}
		class := c.classAt(k.node)
		if class == nil || of.text() != "self" {
			continue
		}
		m := class.methods[with.field("attribute").text()]
		if m == nil || !onlyLetsGo(m) {
			continue
		}
		c.propose(k.node, "no finalizer: "+with.text()+" refers to the object, which therefore never goes",
			"whether anything calls what weakref.finalize gave", Edit{k.start(), k.end(), "None"})
	}
}

// onlyLetsGo reports whether a method does nothing but set attributes of its object to None.
func onlyLetsGo(m *function) bool {
	for _, s := range m.field("body").children() {
		a := s.child()
		if !s.is("pass_statement") && !(a.is("assignment") && a.field("right").is("none") &&
			strings.HasPrefix(a.field("left").text(), "self.")) {
			return false
		}
	}
	return true
}

// streams are the streams that keep all that is written to them.
var streams = set("StringIO", "BytesIO")

// emptyStream begins a stream anew when it has come to a tenth of what it came to.
func (c *curing) emptyStream() {
	if !streams[c.held()] {
		return
	}
	empty := func(at node, x string) {
		c.propose(at, "begin "+x+" anew when it has grown", "whether something reads later what was written to it",
			c.before(at, fmt.Sprintf("if %s.tell() > %d:", x, roundDown(c.leak.Grown/10)), "\t"+x+".seek(0)",
				"\t"+x+".truncate()")...)
	}
	if stream, calls := c.logged(); len(calls) > 0 {
		empty(calls[0].node, stream.text())
	}
	for _, u := range c.streamUses() {
		empty(u, u.text())
	}
}

// streamUses are the places in loops or functions that hand the leak's stream to what writes to it: the one on the
// leak's line first. Where only a handler writes to it, that is the statement of the loop that logs.
func (c *curing) streamUses() (list []node) {
	for _, k := range c.calls {
		for _, n := range append(k.args(), k.receiver()) {
			if n.is("identifier", "attribute") && c.holds(c.plain(n)) && plainName(n) &&
				(c.classAt(n) != nil && c.function(n).name != "__init__" || len(c.loops(n)) > 0) {
				list = append(list, n)
			}
		}
	}
	if len(list) > 0 {
		return list[:1]
	}
	return nil
}

// logged are the calls in loops that write to the leak's stream through a handler of the same function's logger.
func (c *curing) logged() (stream node, calls []call) {
	for _, add := range c.byName["addHandler"] {
		add.node.all(func(n node) bool {
			if n.is("identifier", "attribute") && n.parent().is("argument_list") && c.holds(c.plain(n)) {
				stream = n
			}
			return true
		})
		if !stream.ok() {
			continue
		}
		for _, k := range c.callsIn(c.function(add.node).node) {
			switch k.last() {
			case "debug", "info", "warning", "error", "exception", "critical", "log":
				if k.receiver().text() == add.receiver().text() && len(c.loops(k.node)) > 0 {
					calls = append(calls, k)
				}
			}
		}
		return stream, calls
	}
	return stream, nil
}

// sizeQueue gives a queue a size; where nothing in the text takes from it, the oldest item makes room.
func (c *curing) sizeQueue() {
	for _, name := range c.boundNames() {
		made := c.index.bound[name]
		if !c.holds(name) && !(len(c.names) > 1 && c.names[len(c.names)-1] == "queue" &&
			last(name) == c.names[len(c.names)-2]) {
			continue
		}
		for _, b := range made {
			k := call{b.value.bare(), c.dotted(b.value.bare().field("function"))}
			if !k.is("call") || !endsIn(k.name, "queue.Queue", "queue.LifoQueue", "queue.PriorityQueue") ||
				len(k.args()) > 0 || k.keyword("maxsize").ok() {
				continue
			}
			size := fmt.Sprint(c.tenth())
			end := k.field("arguments").end() - 1
			edits := []Edit{{end, end, "maxsize=" + size}}
			look := "whether put() may wait when it is full"
			if taken := c.taken(name); !taken {
				look = "whether the oldest item may go: nothing in this file takes from the queue"
				for _, put := range append(c.byName["put"], c.byName["put_nowait"]...) {
					if x := put.receiver(); c.plain(x) == name && plainName(x) {
						edits = append(edits, c.before(put.node, "if "+x.text()+".full():",
							"\t"+x.text()+".get_nowait()")...)
					}
				}
			}
			c.propose(b.at, "give the queue a size", look, edits...)
		}
	}
}

// taken reports whether something in the text takes items from a queue.
func (c *curing) taken(name string) bool {
	return slices.ContainsFunc(append(slices.Clone(c.byName["get"]), c.byName["get_nowait"]...), func(k call) bool {
		return last(c.plain(k.receiver())) == last(name)
	})
}

// collect has the collector run again, where the text keeps it from its work.
func (c *curing) collect() {
	if c.leak.Class != "gc_cycles" {
		return
	}
	for _, k := range c.byName["freeze"] {
		if k.name == "gc.freeze" && len(c.loops(k.node)) > 0 && k.parent().is("expression_statement") {
			c.propose(k.node, "no gc.freeze() in the loop: what it freezes is never collected",
				"whether it may be called once, before the loop", Edit{k.start(), k.end(), "pass"})
		}
	}
	for _, k := range c.byName["disable"] {
		if k.name == "gc.disable" && k.parent().is("expression_statement") {
			c.propose(k.node, "leave the garbage collector on",
				"whether the pauses for which it was switched off matter: gc.collect() now and then also does",
				Edit{k.field("function").start(), k.field("function").end(),
					strings.TrimSuffix(k.field("function").text(), "disable") + "enable"})
		}
	}
}

// tables are functions that make a longer table of a table and what is added.
var tables = set("concatenate", "concat", "vstack", "hstack", "append", "cat", "stack")

// cutTable keeps the end of a table that each step makes longer.
func (c *curing) cutTable() {
	for _, name := range c.boundNames() {
		if !c.holds(name) {
			continue
		}
		for _, b := range c.index.bound[name] {
			k := call{b.value.bare(), c.dotted(b.value.bare().field("function"))}
			if b.kind != "=" || !k.is("call") || !tables[k.last()] || len(c.olds(b)) == 0 ||
				!endsIn(k.name, "numpy."+k.last(), "torch."+k.last(), "pandas."+k.last()) {
				continue
			}
			keep := fmt.Sprint(roundDown(c.leak.Steps / 10))
			c.propose(b.at, "keep the last "+keep+" rows of "+name, "how many rows are needed, and whether they are "+
				"joined along the first axis", Edit{k.end(), k.end(), "[-" + keep + ":]"})
		}
	}
}

// copies are calls whose result refers to no memory of C's that they were given.
var copies = set("clone", "copy", "tolist", "item", "tobytes", "string_at", "bytes", "bytearray", "list", "tuple",
	"max",
	"min", "sum", "len", "int", "float", "str", "array", "tensor")

// freeBlock frees a block of C's at the end of the function that takes it, where nothing of it leaves the function.
func (c *curing) freeBlock() {
	if c.leak.Class != "native_heap" {
		return
	}
	for _, name := range []string{"malloc", "calloc"} {
		for _, k := range c.byName[name] {
			fn := c.function(k.node)
			at := k.up("assignment")
			if !at.ok() || at.field("right").i != k.i || !at.field("left").is("identifier") || !k.receiver().ok() ||
				fn.is("module") || !c.onLine(k.node) && !c.holds(fn.name) {
				continue
			}
			c.freeIn(fn, at, k.receiver().text())
		}
	}
}

func (c *curing) freeIn(fn *function, at node, libc string) {
	block := at.field("left").text()
	refers := map[string]bool{block: true}
	for _, name := range fn.names { // in the order of the text
		for _, b := range fn.bindings[name] {
			if b.target.is("identifier") && b.at.start() > at.start() && b.value.ok() && c.refersTo(b.value.bare(),
				refers) {
				refers[name] = true
			}
		}
	}
	final := fn.field("body").lastChild()
	for _, n := range fn.returns {
		if c.refersTo(n.bare(), refers) || !n.inside(final) {
			return
		}
	}
	if c.setsOutside(fn, refers) {
		return
	}
	module, edits := c.importing("ctypes")
	line := fmt.Sprintf("%s.free(%s.c_void_p(%s))", libc, module, block)
	if final.is("return_statement") {
		edits = append(edits, c.before(final, line)...)
	} else if e := c.behind(final, line); e != nil {
		edits = append(edits, e...)
	} else {
		edits = append(edits, c.endOf(final, line)...)
	}
	c.propose(at, "free the block that "+fn.name+"() takes", "whether what "+libc+" was given still uses the block",
		edits...)
}

// refersTo reports whether a value may refer to a block by one of the names: it names one, and is no copy.
func (c *curing) refersTo(v node, names map[string]bool) bool {
	if v.is("call") {
		name := last(c.dotted(v.field("function")))
		if copies[name] {
			return false
		}
		if f := v.field("function"); f.is("attribute") && f.field("object").is("call") {
			return c.refersTo(f.field("object"), names) // view.clone().uniform_()
		}
	}
	return v.any(func(n node) bool { return n.is("identifier") && names[n.text()] && !c.isKeyword(n) })
}

// setsOutside reports whether a function puts what refers to a block where others see it.
func (c *curing) setsOutside(fn *function, refers map[string]bool) bool {
	for _, name := range fn.names {
		for _, b := range fn.bindings[name] {
			if !b.target.is("identifier") && !refers[c.plain(root(b.target))] && b.value.ok() &&
				c.refersTo(b.value.bare(), refers) {
				return true
			}
		}
	}
	return slices.ContainsFunc(c.growthsOf(fn), func(g growth) bool {
		return g.value.ok() && g.at.is("call") && c.refersTo(g.value.bare(), refers)
	})
}
