// Package flame owns flame graphs: bytes by stack, folded into a tree, and written as SVG, as an HTML page with zoom,
// and as files for other viewers (folded stacks, speedscope, pprof). It does not know where stacks come from or what
// they allocated.
package flame

import (
	"cmp"
	"slices"
)

// Frame is a line of a stack.
type Frame struct {
	File string
	Line int
	Name string
}

// Node is a frame with what it and its callees hold. Sizes are in bytes.
type Node struct {
	Frame
	Value    int64   // in the whole subtree; of B in a comparison
	Before   int64   // of A, in a comparison
	Blocks   int     // allocations
	Children []*Node // larger first

	index  map[Frame]*Node
	weight int64 // see weigh
}

// Graph is a tree of stacks.
type Graph struct {
	Title   string
	Root    *Node
	Compare bool // Before counts

	Comments []string // of a pprof profile, besides the title
}

// New makes an empty graph.
func New(title string) *Graph { return &Graph{Title: title, Root: &Node{Frame: Frame{Name: "all"}}} }

// maxDepth bounds a stack, outermost frames first: a picture with more rows can't be read.
const maxDepth = 512

// Add counts bytes for a stack, innermost frame first. before says that they belong to A of a comparison.
func (g *Graph) Add(stack []Frame, bytes int64, before bool) {
	n := g.Root
	n.count(bytes, before)
	for i := len(stack) - 1; i >= max(0, len(stack)-maxDepth); i-- {
		n = n.child(stack[i])
		n.count(bytes, before)
	}
}

func (n *Node) count(bytes int64, before bool) {
	if before {
		n.Before += bytes
		return
	}
	n.Value += bytes
	n.Blocks++
}

func (n *Node) child(f Frame) *Node {
	c := n.index[f]
	if c == nil {
		c = &Node{Frame: f}
		if n.index == nil {
			n.index = map[Frame]*Node{}
		}
		n.index[f] = c
		n.Children = append(n.Children, c)
	}
	return c
}

// weigh sets what the widths of a subtree represent: the larger of before and after, frame by frame, so that children
// fit into their parent.
func (n *Node) weigh() int64 {
	value, before := n.Value, n.Before
	n.weight = 0
	for _, c := range n.Children {
		value, before = value-c.Value, before-c.Before
		n.weight += c.weigh()
	}
	n.weight += max(value, before)
	return n.weight
}

// own is what the node's own frame holds, without its children.
func (n *Node) own() int64 {
	v := n.Value
	for _, c := range n.Children {
		v -= c.Value
	}
	return v
}

// each calls f for every node with its stack, outermost first, larger children first.
func (g *Graph) each(f func(stack []*Node)) {
	g.Root.weigh()
	g.Root.walk(nil, f)
}

func (n *Node) walk(stack []*Node, f func(stack []*Node)) {
	stack = append(stack, n)
	f(stack)
	slices.SortStableFunc(n.Children, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line))
	})
	for _, c := range n.Children {
		c.walk(stack, f)
	}
}
