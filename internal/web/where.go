package web

import (
	"context"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/picture"
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
	held, err := holdersAt(ctx, s, "TIMESTAMP 'infinity'")
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
	slices.SortFunc(root.Children[1:], func(a, b *node) int { return int(b.Bytes - a.Bytes) })
	return picked{Of: w.Of, Root: root}, nil
}

func processNode(p picture.Process, held []holding) *node {
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

// holding is what a holder kept on the host at a census.
type holding struct {
	PID    int    `json:"pid"`
	Holder string `json:"holder"`
	Bytes  int64  `json:"bytes"`
}

// holdersAt are the largest holders of tensors on the host by the last census of each process before a moment.
func holdersAt(ctx context.Context, s api.Session, moment string) (map[int][]holding, error) {
	rows, err := api.Rows[holding](ctx, s, fmt.Sprintf(`WITH last AS (
			SELECT pid, census_id FROM (%s))
		SELECT pid, coalesce(holder, site, '?') AS holder, sum(bytes)::BIGINT AS bytes FROM python.tensors
		JOIN last USING (pid, census_id) WHERE device = 'cpu' AND bytes > 0 GROUP BY ALL ORDER BY bytes DESC LIMIT 60`,
		api.NewestCensuses("ts <= "+moment)))
	by := map[int][]holding{}
	for _, r := range rows {
		by[r.PID] = append(by[r.PID], r)
	}
	return by, err
}

// splitHeap divides the heap by holder, where a census knows them. Holders that have more than the heap has (tensors in
// shared memory, a census of another moment) leave it whole.
func splitHeap(heap *node, held []holding) {
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

// whereAtSQL takes the last reading of each process within two minutes before the moment: the sampler looks at least
// each minute.
const whereAtSQL = `WITH m AS (SELECT pid, max(ts) AS ts FROM process.memory WHERE ts <= make_timestamp(%[1]d)
		AND ts > make_timestamp(%[1]d - 120000000) GROUP BY pid)
	SELECT m.pid, coalesce(t.role, '') AS role, ` + heapInUse + ` AS heap_in_use, ` + heapFree + ` AS heap_free,
		` + otherAnon + ` AS anonymous, shmem AS shared, file
	FROM process.memory p JOIN m ON m.pid = p.pid AND m.ts = p.ts
	LEFT JOIN (SELECT pid, any_value(role) AS role, max(last_seen) AS seen FROM process.tree GROUP BY pid) t
		ON t.pid = m.pid
	WHERE t.seen IS NULL OR t.seen >= make_timestamp(%[1]d - 5000000)`

func whereAt(ctx context.Context, s api.Session, t int64) (any, error) {
	rows, err := api.Rows[struct {
		PID                     int
		Role                    string
		HeapInUse               *int64 `json:"heap_in_use"`
		HeapFree                *int64 `json:"heap_free"`
		Anonymous, Shared, File *int64
	}](ctx, s, fmt.Sprintf(whereAtSQL, t))
	if err != nil {
		return nil, err
	}
	held, err := holdersAt(ctx, s, fmt.Sprintf("make_timestamp(%d)", t))
	if err != nil {
		return nil, err
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

const devicesAtSQL = `SELECT device_id, arg_max(name, ts) AS name, arg_max(used_bytes, ts) AS used
	FROM gpu.utilization WHERE ts <= make_timestamp(%[1]d) AND ts > make_timestamp(%[1]d - 120000000)
	GROUP BY device_id ORDER BY device_id`

func devicesAt(ctx context.Context, s api.Session, t int64) (list []*node, err error) {
	rows, err := api.Rows[struct {
		ID   int `json:"device_id"`
		Name string
		Used *int64
	}](ctx, s, fmt.Sprintf(devicesAtSQL, t))
	for _, r := range rows {
		n := &node{Key: "device", Text: fmt.Sprintf("%d %s", r.ID, r.Name)}
		n.add("used", r.Used)
		list = append(list, n)
	}
	return list, err
}
