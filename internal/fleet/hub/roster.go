package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/quota"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

const (
	missedAfter = 16 * time.Second    // three hellos and a little
	forgetAfter = 14 * 24 * time.Hour // a node that is gone for so long gives its name back
	saveEvery   = 10 * time.Second    // what is lost with the hub is told by the next hello
	namesPerKey = 8                   // a node makes a key for each of its names; copies of its home share one
	maxNodes    = 20_000              // beyond what one bus carries; whoever has the token could name more
)

// roster knows the nodes. What a name's key is must survive the hub: it is saved before the node is let in. All names
// that come while the file is written are saved by the next one, and nothing else waits for it: who has the join token
// may make names as fast as they can.
type roster struct {
	dir   *rootdir.Dir
	mu    sync.Mutex
	nodes map[string]*known
	dirty bool
	from  sources      // of new names
	said  *quota.Quota // bytes of hellos
	left  int          // entries of the file that were none
	gone  atomic.Int64 // processes that have said goodbye

	turn   uint64   // counts the names that must be on the disk
	unkept []string // names that may not be there yet

	write   sync.Mutex // held by who writes the files; it is taken before mu
	settled uint64     // the turn that is on the disk
	saves   int        // times that something was written
	logged  int        // bytes of the journal
	cut     bool       // its last line may be
	next    time.Time  // when names may be written again
}

// known is a node.
type known struct {
	Key    string      `json:"key"` // that the name belongs to
	Node   fanout.Node `json:"node"`
	Since  time.Time   `json:"since,omitzero"` // when it was new; not known of those that an older hub has named
	hellos map[string]helloed
	turn   uint64 // that has its key
	origin string // the network that it comes from; "" where nobody knows
}

// helloed is one process of a node.
type helloed struct {
	at time.Time
	node.Hello
}

// maxRoster bounds the roster's file, in bytes: maxNodes with all that is kept of each.
const maxRoster = 160 << 20

// badRoster is behind the name of a roster that could not be read.
const badRoster = ".bad"

// newRoster is one of no nodes.
func newRoster(dir *rootdir.Dir) *roster {
	return &roster{dir: dir, nodes: map[string]*known{}, said: quota.New(mostSaid, maxNodes)}
}

// openRoster reads the roster. A hub is there whatever it holds: entries that are none are left out and counted; a file
// that is damaged or too large is kept under another name, and what can be read of it counts.
func openRoster(dir *rootdir.Dir, log *slog.Logger) (*roster, error) {
	r := newRoster(dir)
	if err := r.readFile(log); err != nil {
		return nil, err
	}
	if err := r.readJournal(); err != nil {
		return nil, err
	}
	if r.left > 0 {
		log.Warn("entries of the roster were left out", "files", nodeFile+", "+journalFile, "entries", r.left)
	}
	r.forgetLocked(time.Now())
	return r, nil
}

// readFile reads the file of all nodes.
func (r *roster) readFile(log *slog.Logger) error {
	f, err := r.dir.Open(nodeFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the roster: %w", err)
	}
	defer f.Close()
	if damage := r.read(f); damage != nil {
		if err := r.dir.Move(nodeFile, r.dir, nodeFile+badRoster); err != nil {
			return fmt.Errorf("set the roster aside: %w", err)
		}
		log.Warn("the roster is damaged: names of nodes that are not in it are free", "file", nodeFile, "kept as",
			nodeFile+badRoster, "why", damage, "nodes", len(r.nodes))
		r.dirty = true
	}
	return nil
}

// read takes entries one after the other, until the file ends or is none.
func (r *roster) read(from io.Reader) error {
	in := json.NewDecoder(io.LimitReader(from, maxRoster))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return fmt.Errorf("it does not begin as one: %v", err)
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return err
		}
		var text json.RawMessage
		if err := in.Decode(&text); err != nil {
			return err
		}
		n := &known{}
		if text[0] != '{' || json.Unmarshal(text, n) != nil || !n.sane(fmt.Sprint(name)) || len(r.nodes) >= maxNodes {
			r.left++
			continue
		}
		r.nodes[fmt.Sprint(name)] = n
	}
	_, err := in.Token()
	return err
}

// known gives a name to the first key that claims it, or says why not.
func (r *roster) known(name, key string, from netip.Addr) error {
	turn, err := r.claim(name, key, from, time.Now())
	if err == nil && turn > 0 && r.settle(turn) != nil {
		err = errUnkept // remember tells why
	}
	return err
}

// claim gives a name to a key, and which turn of the roster must be on the disk for it; 0 for one that is.
func (r *roster) claim(name, key string, from netip.Addr, now time.Time) (turn uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	switch {
	case n != nil && n.Key == key:
		n.origin = originOf(from)
		return n.turn, nil
	case n != nil && now.Sub(n.Node.Seen) < forgetAfter:
		return 0, errOther
	case !r.from.take(from, now):
		return 0, errHasty
	case n == nil:
		if err := r.roomLocked(key, now); err != nil {
			return 0, err
		}
	}
	r.turn++
	r.dropLocked(name)
	r.nodes[name] = &known{Key: key, origin: originOf(from),
		Node: fanout.Node{Name: name, Seen: now.UTC(), Jobs: []string{}}, Since: now.UTC(), turn: r.turn}
	r.unkept = append(r.unkept, name)
	return r.turn, nil
}

// settle returns when a turn is on the disk. At most half of the time is spent on names, and a second at most is waited
// for that.
func (r *roster) settle(turn uint64) error {
	r.write.Lock()
	defer r.write.Unlock()
	if r.settled >= turn {
		return nil
	}
	time.Sleep(time.Until(r.next))
	began := time.Now()
	err := r.journal()
	r.keptAll()
	r.next = time.Now().Add(min(time.Since(began), time.Second))
	return err
}

// roomLocked makes room for another name of a key. Where there are too many names, the newest goes of those that are
// silent and of which no row was ever kept: a flood of names puts out itself, and neither locks others out nor makes
// the names free that were there before.
func (r *roster) roomLocked(key string, now time.Time) error {
	if key != "" {
		names, ended := 0, "" // the one that ended first
		for name, n := range r.nodes {
			if n.Key != key {
				continue
			}
			names++
			if n.Node.Ended && (ended == "" || n.Node.Seen.Before(r.nodes[ended].Node.Seen)) {
				ended = name
			}
		}
		if names >= namesPerKey && ended == "" {
			return errKey
		}
		if names >= namesPerKey {
			r.dropLocked(ended)
		}
	}
	if len(r.nodes) < maxNodes {
		return nil
	}
	r.forgetLocked(now)
	if len(r.nodes) < maxNodes {
		return nil
	}
	newest := ""
	for name, n := range r.nodes {
		if n.Node.Kept == 0 && now.Sub(n.Node.Seen) > missedAfter &&
			(newest == "" || n.Since.After(r.nodes[newest].Since)) {
			newest = name
		}
	}
	if newest == "" {
		return errFull
	}
	r.dropLocked(newest)
	return nil
}

// forgetLocked forgets nodes that have been gone for long.
func (r *roster) forgetLocked(now time.Time) {
	for name, n := range r.nodes {
		if now.Sub(n.Node.Seen) >= forgetAfter {
			r.dropLocked(name)
			r.dirty = true
		}
	}
}

// dropLocked forgets a name, if there is one.
func (r *roster) dropLocked(name string) {
	delete(r.nodes, name)
	r.said.Set(name, "", 0)
}

// countLocked counts what the processes of a node have said. Where all nodes have said too much, it forgets what those
// have that said most; they are not there until they say hello again.
func (r *roster) countLocked(name string, n *known) error {
	bytes := int64(0)
	for _, h := range n.hellos {
		bytes += h.bytes()
	}
	r.said.Set(name, n.origin, bytes)
	var err error
	for _, most := range r.said.Yield() {
		r.nodes[most].hellos = nil
		if most == name {
			err = errSaid
		}
	}
	return err
}

// forget gives a node's name back.
func (r *roster) forget(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	switch {
	case n == nil:
		return errNoNode
	case n.now(time.Now()).Up:
		return errHere
	}
	r.dropLocked(name)
	r.dirty = true
	return nil
}

// hello notes that a node is there.
func (r *roster) hello(name string, h node.Hello, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	if n == nil { // a NATS of the user's checks names itself
		if err := frame.CheckName("node", name); err != nil {
			return err
		}
		if r.from.all.take(namesOfAll, 1, now) > 0 {
			return errHasty
		}
		if err := r.roomLocked("", now); err != nil {
			return err
		}
		n = &known{Node: fanout.Node{Name: name}, Since: now.UTC()}
		r.nodes[name] = n
	}
	if n.hellos == nil {
		n.hellos = map[string]helloed{}
	}
	if _, here := n.hellos[h.Instance]; !here && !h.Bye && len(n.hellos) >= maxInstances {
		n.forgetSilent(now)
		if len(n.hellos) >= maxInstances {
			return errProcesses
		}
	}
	n.Node.Seen, n.Node.Host, n.Node.Version, r.dirty = now.UTC(), h.Host, h.Version, true
	n.Node.Ended = false
	if h.Bye {
		if _, here := n.hellos[h.Instance]; here {
			r.gone.Add(1)
		}
		delete(n.hellos, h.Instance)
		n.Node.Ended = h.Once && len(n.hellos) == 0
		return r.countLocked(name, n)
	}
	n.hellos[h.Instance] = helloed{now, h}
	return r.countLocked(name, n)
}

// origin is the network that a node comes from, "" where nobody knows, and whether there is one of that name.
func (r *roster) origin(name string) (origin string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	if n == nil {
		return "", false
	}
	return n.origin, true
}

// processes is how many have said that they answer for a node.
func (r *roster) processes(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.nodes[name]; n != nil {
		return len(n.hellos)
	}
	return 0
}

// list is the nodes by name, as they are now.
func (r *roster) list(now time.Time) []fanout.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]fanout.Node, 0, len(r.nodes))
	for _, n := range r.nodes {
		list = append(list, n.now(now))
	}
	order.By(list, func(a, b fanout.Node) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// forgetSilent forgets what processes have said that are gone.
func (n *known) forgetSilent(now time.Time) {
	maps.DeleteFunc(n.hellos, func(_ string, one helloed) bool { return now.Sub(one.at) > missedAfter })
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
		out.Jobs = out.Jobs[:min(len(out.Jobs), maxJobs)]
		shipping.Lost = few(shipping.Lost, maxReasons)
		out.Shipping = shipping
		n.Node.Jobs, n.Node.Shipping = fewer(out.Jobs, keptJobs), shipping
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
	r.write.Lock()
	defer r.write.Unlock()
	defer r.keptAll()
	return r.put()
}

// put writes the file for who holds write.
func (r *roster) put() error {
	text, turn, err := r.text()
	if err != nil || text == nil {
		return err
	}
	r.saves++
	if err := r.dir.ReplaceText(nodeFile, text); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dirty = true
		return fmt.Errorf("write the roster: %w", err)
	}
	r.settled = turn
	r.endJournal()
	return nil
}

// text is what the file shall be, and up to which turn; nil where it is that already.
func (r *roster) text() (text []byte, turn uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.forgetLocked(now)
	for name, n := range r.nodes {
		if silent := len(n.hellos); silent > 0 {
			if n.forgetSilent(now); len(n.hellos) < silent {
				_ = r.countLocked(name, n) // it is less than before
			}
		}
	}
	if !r.dirty && r.settled >= r.turn {
		return nil, 0, nil
	}
	if text, err = json.Marshal(r.nodes); err != nil {
		return nil, 0, fmt.Errorf("write the roster: %w", err)
	}
	r.dirty = false
	return text, r.turn, nil
}

// few keeps reasons within a number; the others are counted as one.
func few(m map[string]int64, most int) map[string]int64 {
	if len(m) <= most {
		return m
	}
	out := map[string]int64{}
	for i, why := range slices.Sorted(maps.Keys(m)) {
		as := why
		if i >= most-1 {
			as = "other reasons"
		}
		out[as] += m[why]
	}
	return out
}
