package check

import (
	"path/filepath"
	"strings"
)

// imports maps a file's names to what they were imported from: "dist" to "torch.distributed".
type imports map[string]string

func findImports(root node) (names imports, stars []string) {
	names = imports{}
	root.all(func(n node) bool {
		switch n.kind() {
		case "import_statement":
			for _, c := range n.children() {
				names.add("", c)
			}
		case "import_from_statement":
			module := n.field("module_name")
			prefix := strings.TrimLeft(module.text(), ".") + "."
			for c := module.next(); c.ok(); c = c.next() {
				if names.add(prefix, c); c.is("wildcard_import") && len(stars) < maxStars {
					stars = append(stars, strings.Clone(strings.TrimSuffix(prefix, ".")))
				}
			}
		default:
			return true
		}
		return false
	})
	return names, stars
}

// maxStars is how many modules' names a file may take all of: few that people write take more than three.
const maxStars = 50

func (m imports) add(prefix string, n node) {
	switch n.kind() {
	case "aliased_import":
		m[n.field("alias").text()] = prefix + n.field("name").text()
	case "dotted_name":
		name := n.text()
		if prefix != "" {
			m[name] = prefix + name
		} else if first, _, _ := strings.Cut(name, "."); m[first] == "" {
			m[first] = first
		}
	}
}

// dotted is an expression's name as it would be without import aliases: "torch.cuda.empty_cache",
// "self.outputs.append", "scaler.scale().backward", "batches[].cuda". What has no name is "?".
func (f *file) dotted(n node) string {
	if !n.ok() {
		return "?"
	}
	if name, known := f.dots[n.i]; known {
		return name
	}
	name := f.makeDotted(n)
	if n.parent().is("call") { // what is asked again and again, and enough for a chain of calls to be short
		f.dots[n.i] = name
	}
	return name
}

// longest is how long the front part of a name may be, in bytes: no chain that people write comes near. Names of all
// parts of a chain together take the square of its length.
const longest = 250

// join makes a name longer.
func (f *file) join(front, sign, part string) string {
	if len(front) > longest {
		front = "?"
	}
	f.spend(1 + (len(front)+len(part))/bytesAStep)
	return front + sign + part
}

func (f *file) makeDotted(n node) string {
	switch n.kind() {
	case "identifier":
		name := n.text()
		if full, ok := f.imports[name]; ok {
			return full
		}
		return name
	case "attribute":
		return f.join(f.dotted(n.field("object")), ".", n.field("attribute").text())
	case "call":
		return f.join(f.dotted(n.field("function")), "()", "")
	case "subscript":
		return f.join(f.dotted(n.field("value")), "[]", "")
	case "parenthesized_expression", "await":
		return f.dotted(n.child())
	case "dotted_name":
		return n.text()
	}
	return "?"
}

// last is a dotted name's last part.
func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// call is a call in the text.
type call struct {
	node
	name string // dotted
}

func (c call) last() string { return last(c.name) }

// receiver is what the method is called on.
func (c call) receiver() node {
	if fn := c.field("function"); fn.is("attribute") {
		return fn.field("object")
	}
	return node{}
}

// args are the arguments by position.
func (c call) args() (list []node) {
	a := c.field("arguments")
	if a.is("generator_expression") {
		return []node{a}
	}
	for _, n := range a.children() {
		if !n.is("keyword_argument") {
			list = append(list, n)
		}
	}
	return list
}

// arg is the argument at a position, or none.
func (c call) arg(i int) node {
	if list := c.args(); i < len(list) {
		return list[i]
	}
	return node{}
}

// keyword is the value of an argument by name, or none.
func (c call) keyword(name string) node {
	for _, n := range c.field("arguments").children() {
		if n.is("keyword_argument") && n.field("name").text() == name {
			return n.field("value")
		}
	}
	return node{}
}

// spread reports whether the call has *args or **kwargs, which may carry any keyword.
func (c call) spread() bool {
	for _, n := range c.field("arguments").children() {
		if n.is("dictionary_splat", "list_splat") {
			return true
		}
	}
	return false
}

// endsIn reports whether a dotted name is one of these or ends in ".name".
func endsIn(name string, list ...string) bool {
	for _, want := range list {
		if name == want || strings.HasSuffix(name, "."+want) {
			return true
		}
	}
	return false
}

// unitTest reports whether a file is a test of pytest's or unittest's: it ends soon, and records calls on purpose.
func (f *file) unitTest() bool {
	for _, full := range f.imports {
		if first, _, _ := strings.Cut(full, "."); first == "pytest" || first == "unittest" {
			return true
		}
	}
	name := strings.TrimSuffix(filepath.Base(f.src.path), ".py")
	return name == "conftest" || endsIn(name, "test_helpers", "test_utils", "testing_utils", "test_util")
}

// otherFramework reports whether a file imports another framework and nothing of PyTorch's: its tensors have no
// graphs of ours. Figures are open there as well.
func (f *file) otherFramework() bool {
	other := false
	for _, full := range f.imports {
		switch first, _, _ := strings.Cut(full, "."); first {
		case "torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "torchvision", "fastai":
			return false
		case "tensorflow", "jax", "flax", "keras", "paddle", "mxnet", "mindspore", "tinygrad", "mlx":
			other = true
		}
	}
	return other
}
