package check

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/memgauge/memgauge/internal/base/order"
)

// maxAlone is how many fixes are tried one by one, where they can't all be made at once: each needs a parse.
const maxAlone = 100

// mendSteps is how many times as long as a check mending may take: a round of fixes that all fit needs one more.
const mendSteps = 10

// Apply makes the edits of findings in a text; applied counts the findings that were mended. Of edits that touch each
// other the first is made. What comes out parses, as the text did before: a fix after which it would not is left out.
// Notebooks are left alone: their text is not the file's.
func Apply(data []byte, findings []Finding) (out []byte, applied int) {
	return apply(data, findings, func(text []byte, _ int) bool { return parses(text) })
}

// apply is Apply for fixes of which good says, by the text and their number, whether they are good.
func apply(data []byte, findings []Finding, good func([]byte, int) bool) (out []byte, applied int) {
	fixes := apart(findings, len(data))
	if len(fixes) == 0 || !mayMend(data) || !parses(data) {
		return data, 0
	}
	try := func(fixes [][]Edit) []byte {
		if text := edited(data, slices.Concat(fixes...)); good(text, len(fixes)) {
			return text
		}
		return nil
	}
	if text := try(fixes); text != nil {
		return text, len(fixes)
	}
	out = data
	var made [][]Edit
	for _, fix := range fixes[:min(len(fixes), maxAlone)] {
		if text := try(append(slices.Clone(made), fix)); text != nil {
			out, made = text, append(made, fix)
		}
	}
	return out, len(made)
}

// Mend makes fixes until none is left that can be made: those that touch each other one after the other. left is what
// is found afterwards; mended counts the findings that went.
func (p *Project) Mend(path string, data []byte, rules Selection) (after []byte, left []Finding, mended int,
	err error) {
	return p.mendWithin(path, data, rules, mendSteps*stepsFor(len(data)))
}

// mendWithin is Mend that ends when it has made its steps: what is not mended then is left.
func (p *Project) mendWithin(path string, data []byte, rules Selection, steps int) (after []byte,
	left []Finding, mended int, err error) {
	left, err = p.File(path, data, rules)
	if err != nil {
		return data, nil, 0, err
	}
	before := fixable(left)
	for fixable(left) > 0 && steps > 0 {
		var next []Finding
		out, n := apply(data, left, func(text []byte, n int) bool { // what was mended is not found again
			if steps <= 0 {
				return false
			}
			steps -= stepsPerByte * len(text)
			if !parses(text) {
				return false
			}
			seen, err := p.inspect(path, text, rules)
			steps -= seen.steps
			if err != nil || !seen.whole || fixable(seen.findings)+n > fixable(left) {
				return false
			}
			next = seen.findings
			return true
		})
		if n == 0 {
			break
		}
		data, left = out, next
	}
	return data, left, before - fixable(left), nil
}

// fixable is how many findings have a fix.
func fixable(list []Finding) (n int) {
	for _, f := range list {
		if f.Fixable() {
			n++
		}
	}
	return n
}

// Fixable reports whether --fix can mend it: results stay the same for sure.
func (f Finding) Fixable() bool { return f.Fix != nil && f.Cell == 0 && !f.Unsafe }

// Suggested reports whether --fix --unsafe can mend it, and --fix alone leaves it.
func (f Finding) Suggested() bool { return f.Fix != nil && f.Cell == 0 && f.Unsafe }

// apart are the fixes of findings whose edits touch no earlier one's.
func apart(findings []Finding, size int) (fixes [][]Edit) {
	var all []Edit
	for _, f := range findings {
		if !f.Fixable() || slices.ContainsFunc(f.Fix, func(e Edit) bool {
			return e.Start < 0 || e.Start > e.End || e.End > size || slices.ContainsFunc(all, func(have Edit) bool {
				return e.Start <= have.End && have.Start <= e.End
			})
		}) {
			continue
		}
		all = append(all, f.Fix...)
		fixes = append(fixes, f.Fix)
	}
	return fixes
}

// mayMend reports whether edits are safe in a text: its bytes are characters, and its lines end as ours do.
func mayMend(data []byte) bool {
	return utf8.Valid(data) && bytes.Count(data, []byte("\r")) == bytes.Count(data, []byte("\r\n"))
}

// parses reports whether neither parser has anything to say against a text.
func parses(data []byte) bool {
	if faultIn(string(data)) != nil {
		return false
	}
	t, err := parse(data)
	return err == nil && !t.broken
}

// edited is a text with its edits made; their lines end as the text's do.
func edited(data []byte, edits []Edit) []byte {
	order.Stable(edits, func(a, b Edit) int { return cmp.Compare(a.Start, b.Start) })
	end := []byte("\n")
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		end = []byte("\r\n")
	}
	var b bytes.Buffer
	at := 0
	for _, e := range edits {
		b.Write(data[at:e.Start])
		b.Write(bytes.ReplaceAll([]byte(e.New), []byte("\n"), end))
		at = e.End
	}
	b.Write(data[at:])
	return b.Bytes()
}

// Diff is what a fix changes, in the unified form.
func Diff(path string, before, after []byte) string {
	return string(diff.Diff(path, before, path, after))
}

// Headless is a diff without the line by which diff says how it was called.
func Headless(diff string) string {
	if strings.HasPrefix(diff, "diff ") {
		_, diff, _ = strings.Cut(diff, "\n")
	}
	return diff
}

// lineAfter is an edit that puts a line behind a statement, indented like it. It is none where the statement shares its
// lines with others.
func (f *file) lineAfter(n node, text string) []Edit {
	from := f.src.starts[f.src.line(n.start())-1]
	if indent := f.src.indent(n.start()); from+len(indent) == n.start() {
		end := f.src.starts[f.src.line(n.end())-1] + len(f.src.lineText(n.end()))
		rest := bytes.TrimSpace(f.src.text[min(n.end(), end):end])
		if len(rest) == 0 || rest[0] == '#' {
			return []Edit{{end, end, "\n" + indent + text}}
		}
	}
	return nil
}

// detachFix puts .detach() behind an expression that is certainly a tensor.
func (f *file) detachFix(n node) []Edit {
	if f.isTensor(n, 0) {
		return []Edit{{n.end(), n.end(), ".detach()"}}
	}
	return nil
}

// withoutArgument takes a keyword argument out of a call.
func withoutArgument(c call, name string) []Edit {
	list := c.field("arguments").children()
	for i, n := range list {
		switch {
		case !n.is("keyword_argument") || n.field("name").text() != name:
		case i > 0:
			return []Edit{{list[i-1].end(), n.end(), ""}}
		case len(list) > 1:
			return []Edit{{n.start(), list[1].start(), ""}}
		default:
			return []Edit{{n.start(), n.end(), ""}}
		}
	}
	return nil
}

// detached is the fix that puts .detach() behind an expression: sure where it is certainly a tensor, else a suggestion,
// if nothing says that it is several values.
func (f *file) detached(n node) option {
	if e := f.detachFix(n); e != nil {
		return fixed(e...)
	}
	v := n.bare()
	if b, ok := f.latest(f.function(v), f.plain(v), v); ok && b.value.bare().is("tuple", "expression_list",
		"dictionary", "list", "list_comprehension", "dictionary_comprehension", "set") {
		return func(*reporter, *Finding) {}
	}
	if !v.is("identifier", "attribute", "call", "subscript") || f.grade(v) < strong ||
		n.is("parenthesized_expression") || last(f.dotted(v.field("function"))) == "tuple" {
		return func(*reporter, *Finding) {}
	}
	return suggested(Edit{n.end(), n.end(), ".detach()"})
}

var tensorMethods = set("mean", "sum", "clone", "float", "half", "double", "view", "reshape", "squeeze", "unsqueeze",
	"flatten", "pow", "sqrt", "abs", "exp", "log", "softmax", "log_softmax", "sigmoid", "tanh", "relu", "permute",
	"transpose", "contiguous", "expand", "clamp", "matmul", "mul", "add", "div", "sub", "square", "neg", "norm")

// isTensor reports whether an expression is a tensor: what asks for its gradients says so, or what makes it. A model's
// output may be anything.
func (f *file) isTensor(n node, depth int) bool {
	if depth > maxTensorDepth || !n.ok() {
		return false
	}
	f.spend(1)
	switch n.kind() {
	case "parenthesized_expression":
		return f.isTensor(n.child(), depth+1)
	case "binary_operator":
		return f.isTensor(n.field("left"), depth+1) || f.isTensor(n.field("right"), depth+1)
	case "attribute":
		if name := n.field("attribute").text(); name == "loss" || name == "logits" {
			return f.grade(n).graph()
		}
	case "call":
		return f.makesOne(call{n, f.dotted(n.field("function"))}, depth+1)
	case "identifier":
	default:
		return false
	}
	name, fn := f.plain(n), f.function(n)
	if f.asked(fn)[name] {
		return true
	}
	b, ok := f.latest(fn, name, n)
	return ok && b.kind == "=" && b.target.is("identifier", "attribute") && b.at.field("left").i == b.target.i &&
		f.isTensor(b.value, depth+1)
}

// maxTensorDepth is how far an expression is followed.
const maxTensorDepth = 8

// makesOne reports whether a call returns one tensor.
func (f *file) makesOne(c call, depth int) bool {
	on, name := c.receiver(), c.last()
	if endsIn(c.name, "functional."+name) || strings.HasPrefix(c.name, "F.") {
		return f.fits(lossCall, name)
	}
	if on.ok() && tensorMethods[name] && f.grade(on).graph() && !strings.HasPrefix(c.name, "torch.") {
		return true
	}
	if on.ok() && (name == "to" || name == "cpu" || name == "cuda") {
		return f.isTensor(on, depth)
	}
	for _, b := range f.index.bound[f.plain(c.field("function"))] {
		v := b.value.bare()
		if maker := f.dotted(v.field("function")); v.is("call") && strings.HasPrefix(maker, "torch.nn.") &&
			strings.HasSuffix(maker, "Loss") {
			return true
		}
	}
	return false
}

// asked are the names in a function of what must be one tensor: its gradients are asked for, as those of loss in
// loss.backward(), scaler.scale(loss).backward(), accelerator.backward(loss / 4), or a function of PyTorch takes it.
func (f *file) asked(fn *function) map[string]bool {
	if names := f.index.asked[fn]; names != nil {
		return names
	}
	names := map[string]bool{}
	for _, name := range []string{"backward", "manual_backward", "backward_pass"} {
		for _, c := range fn.calls[name] {
			of, _ := f.backwardOf(c)
			for _, n := range of {
				f.ask(n, names, 0)
			}
		}
	}
	for _, c := range f.callsIn(fn.node) {
		if n := c.arg(0); n.is("identifier") && (strings.HasPrefix(c.name, "torch.nn.functional.") ||
			strings.HasPrefix(c.name, "F.")) {
			names[n.text()] = true
		}
	}
	f.index.asked[fn] = names
	return names
}

func (f *file) ask(n node, names map[string]bool, depth int) {
	n = n.bare()
	switch c := (call{n, ""}); {
	case depth > maxTensorDepth:
	case n.is("identifier", "attribute"):
		names[f.plain(n)] = true
	case n.is("binary_operator") && n.field("right").is("integer", "float"):
		f.ask(n.field("left"), names, depth+1)
	case n.is("call") && last(f.dotted(n.field("function"))) == "scale" && len(c.args()) == 1:
		f.ask(c.arg(0), names, depth+1)
	case n.is("call") && c.receiver().ok() && tensorMethods[last(f.dotted(n.field("function")))]:
		f.ask(c.receiver(), names, depth+1)
	}
}
