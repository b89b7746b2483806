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

	index  map[Frame]*Node // of Children, where they are many
	weight int64           // see weigh
}

// Graph is a tree of stacks.
type Graph struct {
	Title   string
	Root    *Node
	Compare bool // Before counts

	Comments []string // of a pprof profile, besides the title
	Cut      int      // stacks without room for all of their frames: what they hold counts for those that have it

	room int // for so many nodes more
}

// New makes an empty graph.
func New(title string) *Graph {
	return &Graph{Title: title, Root: &Node{Frame: Frame{Name: "all"}}, room: maxNodes}
}

const (
	// maxDepth bounds a stack, outermost frames first: a picture with more rows can't be read.
	maxDepth = 512
	// maxNodes bounds a graph: a file of some hundred KiB may have stacks of so many frames that a tree of them takes
	// gigabytes. Real programs have some ten thousand.
	maxNodes = 1 << 19
	// nodeBytes is what a node takes of memory, with its place in its parent.
	nodeBytes = 256
	// few children are searched one by one: most nodes have one, for which an index would be larger than the node.
	few = 8
)

// Bound has the graph take at most so many bytes of memory, if that is less than it may take anyway.
func (g *Graph) Bound(bytes int64) { g.room = int(min(int64(g.room), bytes/nodeBytes)) }

// Add counts a block of bytes for a stack, innermost frame first. before says that it belongs to A of a comparison.
func (g *Graph) Add(stack []Frame, bytes int64, before bool) { g.AddBlocks(stack, bytes, 1, before) }

// AddBlocks is Add for a number of blocks that have so many bytes together. Who has many stacks adds the larger first,
// since the graph may have no room for those at the end.
func (g *Graph) AddBlocks(stack []Frame, bytes int64, blocks int, before bool) {
	n := g.Root
	n.count(bytes, blocks, before)
	for i := len(stack) - 1; i >= max(0, len(stack)-maxDepth); i-- {
		c := n.find(stack[i])
		if c == nil {
			if g.room == 0 {
				g.Cut++
				return
			}
			g.room--
			c = n.child(stack[i])
		}
		n = c
		n.count(bytes, blocks, before)
	}
}

func (n *Node) count(bytes int64, blocks int, before bool) {
	if before {
		n.Before += bytes
		return
	}
	n.Value += bytes
	n.Blocks += blocks
}

// find is the child for a frame, or nil.
func (n *Node) find(f Frame) *Node {
	if n.index != nil {
		return n.index[f]
	}
	for _, c := range n.Children {
		if c.Frame == f {
			return c
		}
	}
	return nil
}

// child makes the child for a frame.
func (n *Node) child(f Frame) *Node {
	c := &Node{Frame: f}
	n.Children = append(n.Children, c)
	switch {
	case n.index != nil:
		n.index[f] = c
	case len(n.Children) > few:
		n.index = map[Frame]*Node{}
		for _, c := range n.Children {
			n.index[c.Frame] = c
		}
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
