package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// node is a rectangle of the treemap. Names of classes are keys that the page translates; Text is the job's own.
type node struct {
	Key      string  `json:"key,omitempty"`
	Text     string  `json:"text,omitempty"`
	Bytes    int64   `json:"bytes"`
	Children []*node `json:"children,omitempty"`
}

func (n *node) add(key string, bytes *int64) *node {
	if bytes == nil || *bytes <= 0 {
		return nil
	}
	child := &node{Key: key, Bytes: *bytes}
	n.Children = append(n.Children, child)
	return child
}

// picked is where the bytes were at a moment.
type picked struct {
	Micros int64  `json:"t"`  // the moment that was asked for; 0: Of tells
	Of     string `json:"of"` // what was looked at
	Root   *node  `json:"root"`
}

// where is the job's memory: at the moment t (µs since the epoch), or else now, and of a finished job at its peak.
func where(ctx context.Context, s api.Session, q params) (any, error) {
	if t := q.number("t"); t > 0 {
		return whereAt(ctx, s, t)
	}
	w, err := s.Where(ctx)
	if err != nil {
		return nil, err
	}
	host := &node{Key: "host"}
	held, err := holdersAt(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	for _, p := range w.Processes {
		host.Children = append(host.Children, processNode(p, held[p.PID]))
	}
	host.add("kernel", w.Host.Classes.Kernel)
	root := &node{Key: "job", Children: []*node{host}}
	for name, d := range w.Devices {
		root.Children = append(root.Children, deviceNode(name, d))
	}
	order.By(root.Children[1:], func(a, b *node) int { return int(b.Bytes - a.Bytes) })
	return picked{Of: w.Of, Root: root}, nil
}

func processNode(p picture.Process, held []questions.HostHolding) *node {
	n := &node{Key: "process", Text: fmt.Sprintf("%s %d", p.Role, p.PID)}
	c := p.Classes
	heap := n.add("heap_in_use", c.HeapInUse)
	splitHeap(heap, held)
	n.add("heap_free", c.HeapFree)
	n.add("python_arenas", c.PythonArenas)
	n.add("anonymous", c.Anonymous)
	n.add("stacks", c.Stacks)
	n.add("file", c.File)
	n.add("shared", c.Shared)
	n.add("page_tables", c.PageTables)
	n.add("swap", c.Swap)
	return n
}

func deviceNode(name string, d picture.Device) *node {
	n := &node{Key: "device", Text: name + " " + d.Name}
	n.add("allocated", d.Live)
	n.add("cached", d.Cached)
	n.add("context", d.Context)
	n.add("outside", d.Outside)
	n.add("others", d.Others)
	n.add("driver", d.Driver)
	return n
}

// holdersAt are the largest holders of tensors on the host by the last census of each process before a time; 0: now.
// One that leaks has at least what it has gained until then.
func holdersAt(ctx context.Context, s api.Session, until int64) (map[int][]questions.HostHolding, error) {
	rows, err := api.Ask(ctx, s, questions.HostHoldings(until))
	if err != nil {
		return nil, err
	}
	leaks, err := api.Ask(ctx, s, questions.LeakedHoldings(until))
	by := map[int][]questions.HostHolding{}
	for _, r := range rows {
		by[r.PID] = append(by[r.PID], r)
	}
	for _, leak := range leaks {
		by[leak.PID] = credited(by[leak.PID], leak)
	}
	return by, err
}

// credited has a leak in the place of what a census counted of its holder and the items in it, where that is less.
func credited(held []questions.HostHolding, leak questions.HostHolding) []questions.HostHolding {
	counted, others := int64(0), []questions.HostHolding{leak}
	for _, h := range held {
		if h.Holder == leak.Holder || strings.HasPrefix(h.Holder, leak.Holder+"[") {
			counted += h.Bytes
			continue
		}
		others = append(others, h)
	}
	if counted >= leak.Bytes {
		return held
	}
	return others
}

// splitHeap divides the heap by holder, where a census knows them. Holders that have more than the heap has (tensors in
// shared memory, a census of another moment) leave it whole.
func splitHeap(heap *node, held []questions.HostHolding) {
	if heap == nil {
		return
	}
	rest, children := heap.Bytes, []*node{}
	for _, h := range held {
		if h.Bytes <= rest {
			rest -= h.Bytes
			children = append(children, &node{Key: "holder", Text: h.Holder, Bytes: h.Bytes})
		}
	}
	if len(children) > 0 {
		heap.Children = append(children, &node{Key: "rest", Bytes: rest})
	}
}

func whereAt(ctx context.Context, s api.Session, t int64) (picked, error) {
	rows, err := api.Ask(ctx, s, questions.ResidentAt(t))
	if err != nil {
		return picked{}, err
	}
	held, err := holdersAt(ctx, s, t)
	if err != nil {
		return picked{}, err
	}
	host := &node{Key: "host"}
	for _, r := range rows {
		host.Children = append(host.Children, processNode(picture.Process{PID: r.PID, Role: r.Role,
			Classes: picture.Classes{HeapInUse: r.HeapInUse, HeapFree: r.HeapFree, Anonymous: r.Anonymous,
				Shared: r.Shared, File: r.File}}, held[r.PID]))
	}
	root := &node{Key: "job", Children: []*node{host}}
	devices, err := devicesAt(ctx, s, t)
	root.Children = append(root.Children, devices...)
	return picked{Micros: t, Root: root}, err
}

func devicesAt(ctx context.Context, s api.Session, t int64) (list []*node, err error) {
	rows, err := api.Ask(ctx, s, questions.DevicesAt(t))
	for _, r := range rows {
		n := &node{Key: "device", Text: fmt.Sprintf("%d %s", r.ID, r.Name)}
		n.add("used", r.Used)
		list = append(list, n)
	}
	return list, err
}
