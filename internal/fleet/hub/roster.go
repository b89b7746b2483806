package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/rootdir"
)

const (
	missedAfter = 16 * time.Second    // three hellos and a little
	forgetAfter = 14 * 24 * time.Hour // a node that is gone for so long gives its name back
	saveEvery   = 10 * time.Second    // what is lost with the hub is told by the next hello
	maxNodes    = 20_000              // beyond what one bus carries; whoever has the token could name more
)

// roster knows the nodes. What a name's key is must survive the hub: it is saved before the node is let in.
type roster struct {
	dir   *rootdir.Dir
	mu    sync.Mutex
	nodes map[string]*known
	dirty bool
}

// known is a node.
type known struct {
	Key    string      `json:"key"` // that the name belongs to
	Node   fanout.Node `json:"node"`
	hellos map[string]helloed
}

// helloed is one process of a node.
type helloed struct {
	at time.Time
	node.Hello
}

// maxRoster bounds nodes.json, in bytes: a hundred times what a thousand nodes take.
const maxRoster = 64 << 20

func openRoster(dir *rootdir.Dir) (*roster, error) {
	r := &roster{dir: dir, nodes: map[string]*known{}}
	text, err := dir.ReadFile(nodeFile, maxRoster)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r.nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the roster %s: %w", nodeFile, err)
	}
	for name, n := range r.nodes {
		if n == nil {
			delete(r.nodes, name)
		}
	}
	return r, nil
}

// known gives a name to the first key that claims it.
func (r *roster) known(name, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	if n != nil && n.Key != key && time.Since(n.Node.Seen) < forgetAfter {
		return false
	}
	if n != nil && n.Key == key {
		return true
	}
	if len(r.nodes) >= maxNodes {
		return false
	}
	r.nodes[name] = &known{Key: key, Node: fanout.Node{Name: name, Seen: time.Now().UTC(), Jobs: []string{}}}
	return r.saveLocked() == nil
}

// hello notes that a node is there.
func (r *roster) hello(name string, h node.Hello, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	if n == nil { // a NATS of the user's checks names itself
		n = &known{Node: fanout.Node{Name: name}}
		r.nodes[name] = n
	}
	if n.hellos == nil {
		n.hellos = map[string]helloed{}
	}
	n.Node.Seen, n.Node.Host, n.Node.Version, r.dirty = now.UTC(), h.Host, h.Version, true
	if h.Bye {
		delete(n.hellos, h.Instance)
		return
	}
	n.hellos[h.Instance] = helloed{now, h}
}

// list is the nodes by name, as they are now.
func (r *roster) list(now time.Time) []fanout.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]fanout.Node, 0, len(r.nodes))
	for _, n := range r.nodes {
		list = append(list, n.now(now))
	}
	slices.SortFunc(list, func(a, b fanout.Node) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// now sums its processes up.
func (n *known) now(now time.Time) fanout.Node {
	out := n.Node
	out.Instances, out.Sessions, out.Refused = []string{}, 0, 0
	shipping := fanout.Shipping{}
	jobs := []string{}
	for id, h := range n.hellos {
		if now.Sub(h.at) > missedAfter {
			continue
		}
		out.Instances = append(out.Instances, id)
		out.Sessions, out.Refused = out.Sessions+h.Sessions, out.Refused+h.Refused
		shipping.Add(h.Shipping)
		jobs = append(jobs, h.Jobs...)
	}
	out.Up = len(out.Instances) > 0
	if out.Up { // of a node that is gone the jobs stay that it had
		slices.Sort(jobs)
		out.Jobs = slices.Compact(jobs)
		out.Shipping = shipping
		n.Node.Jobs, n.Node.Shipping = out.Jobs, shipping
	}
	return out
}

// kept counts rows of a node that were handed over.
func (r *roster) kept(name string, rows uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.nodes[name]; n != nil {
		n.Node.Kept += rows
		n.Node.KeptAt = now.UTC()
		r.dirty = true
	}
}

func (r *roster) save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dirty {
		return nil
	}
	return r.saveLocked()
}

func (r *roster) saveLocked() error {
	text, err := json.Marshal(r.nodes)
	if err != nil {
		return fmt.Errorf("write the roster: %w", err)
	}
	r.dirty = false
	if err := r.dir.ReplaceText(nodeFile, text); err != nil {
		return fmt.Errorf("write the roster: %w", err)
	}
	return nil
}
