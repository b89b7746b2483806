package check

import (
	"slices"
	"strings"
)

// figure is a call that makes a figure, and the name that it gets.
type figure struct {
	call
	name   string // "" for the current one
	stmt   node
	pyplot string // the name under which the file knows pyplot
}

// figures are the calls of pyplot that make one.
func (f *file) figures() (list []figure) {
	for _, name := range []string{"figure", "subplots"} {
		for _, c := range f.byName[name] {
			if !strings.HasPrefix(c.name, "matplotlib.pyplot.") && !strings.HasPrefix(c.name, "plt.") {
				continue
			}
			fig := figure{c, "", c.node, c.receiver().text()}
			if p := c.parent(); p.is("assignment") {
				left := p.field("left")
				if left.is("pattern_list", "tuple_pattern") {
					left = left.child()
				}
				fig.name, fig.stmt = f.plain(left), p
			}
			if c.keyword("num").ok() || name == "figure" && c.arg(0).ok() {
				continue // one figure by its number or name: made once
			}
			list = append(list, fig)
			if fig.name != "" {
				list = append(list, f.figuresOf(fig)...)
			}
		}
	}
	return list
}

// figuresOf are the calls of a helper that returns a figure of its own making.
func (f *file) figuresOf(fig figure) (list []figure) {
	fn := f.function(fig.node)
	if !slices.ContainsFunc(fn.returns, func(r node) bool { return r.bare().text() == fig.name }) {
		return nil
	}
	for _, c := range f.callers(fn) {
		if p := c.parent(); p.is("assignment") && p.field("left").is("identifier") {
			list = append(list, figure{c, f.plain(p.field("left")), p, fig.pyplot})
		}
	}
	return list
}

// closes reports whether a function closes figures, or gives them to somebody who may.
func (f *file) closes(fn *function, fig figure) bool {
	for _, name := range []string{"close", "show", "add_figure", "clf", "close_figure", "closefig", "ioff_close",
		"clear"} {
		for _, c := range fn.calls[name] {
			if strings.HasPrefix(c.name, "matplotlib.pyplot.") ||
				strings.HasPrefix(c.name, "plt.") ||
				name == "add_figure" || name == "close_figure" || fig.name != "" && f.plain(c.receiver()) == fig.name {
				return true
			}
		}
	}
	return fig.name != "" && f.handedOn(fn, fig.name)
}

// handedOn reports whether a variable is returned, yielded, stored, or passed to a function that isn't known to draw.
func (f *file) handedOn(fn *function, name string) bool {
	return slices.ContainsFunc(f.usesIn(name, fn.node), func(n node) bool {
		p := n.parent()
		switch {
		case p.is("return_statement", "yield", "expression_list", "list", "tuple", "dictionary", "pair"):
			return true
		case p.is("assignment"):
			return p.field("right").i == n.i
		case p.is("argument_list", "keyword_argument"):
			c := p.up("call")
			name := f.dotted(c.field("function"))
			return !endsIn(name, "wandb.Image", "Image", "savefig", "colorbar")
		}
		return false
	})
}

// figureOpen finds figures that a loop or a hook makes and nobody closes: pyplot keeps them all (MG301).
func figureOpen(f *file, r *reporter) {
	for _, fig := range f.figures() {
		fn := f.function(fig.node)
		loops := f.loops(fig.node)
		again := len(loops) > 0 || fn.hook() || fn.epochEnd() || f.calledInLoop(fn)
		if !again || f.fewRounds(fig.node) ||
			f.closes(fn, fig) || f.noPyplotState(fn) || f.leavesAtOnce(loops) || f.firstOnly(fig.node) ||
			!f.saves(fn, fig) {
			continue
		}
		what := fig.name
		if what == "" {
			what = "the figure"
		} else {
			what = quote(what)
		}
		o := []option{held(fig.name)}
		if e := f.closeFix(fn, fig); e != nil {
			o = append(o, fixed(e...))
		}
		r.report(fig.call.node, what+" is never closed: pyplot keeps every figure until plt.close()",
			"call "+fig.pyplot+".close("+fig.name+") when it is saved", o...)
	}
}

// saves reports whether a figure is written to a file: others are for a notebook's or a gallery's eyes.
func (f *file) saves(fn *function, fig figure) bool {
	return len(fn.calls["savefig"]) > 0 || fn.hook() || fn.epochEnd() || f.stepLoopOf(fig.node).ok() && fn.hasBack
}

// firstOnly reports whether a place runs in one round of its loop: under if step == 0.
func (f *file) firstOnly(n node) bool {
	for at := n.parent(); at.ok() && !at.is("for_statement", "while_statement",
		"function_definition"); at = at.parent() {
		cond := at.field("condition")
		if at.is("if_statement") && cond.is("comparison_operator") && cond.child().is("identifier") &&
			strings.Contains(cond.text(), "==") && cond.lastChild().is("integer") {
			return true
		}
	}
	return false
}

// fewFigures is up to how many figures pyplot itself keeps without a warning.
const fewFigures = 20

// fewRounds reports whether all loops around a place, which no function is called from again, go over a few items that
// are written out: for name in ["mnist", "cifar"].
func (f *file) fewRounds(n node) bool {
	loops, rounds := f.loops(n), 1
	if len(loops) == 0 || f.function(n) != f.module && f.calledInLoop(f.function(n)) {
		return false
	}
	for _, l := range loops {
		over := l.field("right").bare()
		if b, ok := f.latest(f.function(over), over.text(), over); over.is("identifier") && ok && b.kind == "=" &&
			len(b.path) == 0 {
			over = b.value.bare()
		}
		if !over.is("list", "tuple", "set") {
			return false
		}
		if rounds *= max(len(over.children()), 1); rounds > fewFigures {
			return false
		}
	}
	return true
}

// leavesAtOnce reports whether the innermost loop ends with its first round.
func (f *file) leavesAtOnce(loops []node) bool {
	return len(loops) > 0 && loops[0].field("body").lastChild().is("break_statement", "return_statement")
}

// noPyplotState reports whether figures of a function are made in a context that closes them.
func (f *file) noPyplotState(fn *function) bool {
	return f.src.notebook || f.mentions("\n# In[") || strings.Contains(f.joined(fn.decorators), "render")
}

// closeFix closes the figure behind its last use, if that is a call of savefig in the block that makes it.
func (f *file) closeFix(fn *function, fig figure) []Edit {
	block := fig.stmt.up("block")
	var final node
	for _, c := range fn.calls["savefig"] {
		if c.parent().is("expression_statement") && c.parent().parent().i == block.i {
			final = c.parent()
		}
	}
	if !final.ok() || fig.stmt.parent().parent().i != block.i {
		return nil
	}
	if !block.ok() {
		block = f.root()
	}
	if fig.name != "" {
		if uses := f.usesIn(fig.name, block); len(uses) > 0 && uses[len(uses)-1].start() >= final.end() {
			return nil
		}
	} else if strings.Contains(f.span(final.end(), block.end()), fig.pyplot+".") {
		return nil
	}
	return f.lineAfter(final, fig.pyplot+".close("+fig.name+")")
}

// plotsEveryEpoch finds hooks that draw after each epoch (MG302).
func plotsEveryEpoch(f *file, r *reporter) {
	for _, fig := range f.figures() {
		fn := f.function(fig.node)
		if !fn.epochEnd() || len(fn.calls["clear_output"]) > 0 || f.conditional(fig.node) || f.returnsEarly(fn,
			fig.node) {
			continue
		}
		r.report(fig.call.node, fn.name+"() draws after every epoch: time, memory and files that nobody looks at",
			"keep the numbers and draw once, in on_fit_end, or every N epochs")
	}
}

// returnsEarly reports whether an if before a place may leave the function: not in every epoch.
func (f *file) returnsEarly(fn *function, n node) bool {
	return fn.any(func(at node) bool {
		return at.is("return_statement") && at.end() < n.start() && f.conditional(at) && f.function(at) == fn
	})
}

// profilerSchedule finds profilers that record a whole training (MG303).
func profilerSchedule(f *file, r *reporter) {
	for _, c := range f.byName["profile"] {
		if !strings.HasPrefix(c.name, "torch.profiler.") && !strings.HasPrefix(c.name, "torch.autograd.profiler") ||
			c.keyword("schedule").ok() || c.spread() || len(c.args()) > 1 {
			continue
		}
		w := c.up("with_statement")
		if !w.ok() || !c.inside(w.child()) {
			continue
		}
		body := w.field("body")
		trains := body.any(func(n node) bool {
			return n.is("for_statement", "while_statement") && f.trains(n) && f.kindOf(n) == stepLoop && !f.leaves(n)
		})
		if trains {
			r.report(c.node, "a profiler without a schedule keeps every event of the loop until it ends",
				"schedule=torch.profiler.schedule(wait=…, warmup=…, active=…) and prof.step() in the loop")
		}
	}
}

// leaves reports whether a loop is left early or made short: a profile of some steps.
func (f *file) leaves(loop node) bool {
	return loop.any(func(n node) bool { return n.is("break_statement") }) ||
		strings.Contains(loop.field("right").text(), "islice") || smallRange(loop.field("right"))
}

// fewSteps is how many steps a profile may have without a schedule.
const fewSteps = 100

func smallRange(n node) bool {
	if !n.is("call") || n.field("function").text() != "range" {
		return false
	}
	x := number(call{n, "range"}.arg(0))
	return x >= 0 && x <= fewSteps
}
