package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// Bounds of what a node says of itself. All of it is kept for each of maxNodes, written to the disk every 10 s, and
// told to whoever asks.
const (
	maxHello     = 16 << 10 // bytes: 64 jobs of 100, the words of why rows wait, and as much again
	maxWord      = 128      // bytes of a host's name, a version or an instance; a host's name has 64 (hostname(7))
	maxJobs      = node.MaxJobs
	maxReasons   = 16       // reasons for lost rows; nodes know two
	maxCount     = 1 << 40  // sessions, questions, rows and seconds: sums over all nodes stay within 63 bits
	maxInstances = 64       // processes that answer for one node: the node itself and runs with --hub
	mostSaid     = 64 << 20 // bytes of what all nodes say: 3 KiB for each of maxNodes, where one needs 1
	keptTrouble  = 256      // bytes of why rows wait that are kept: the rest is in the node's own log
	keptJobs     = 1 << 10  // bytes of jobs' names that are kept of a node which is gone
)

// reasonForm is the form of the reasons that nodes have for lost rows, such as "row too large".
var reasonForm = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9 ,.:-]{0,63}$`)

var errHello = errors.New("a word that no node says of itself")

// readHello reads what a node says of itself, and refuses what is out of bounds. Texts that are only for people are cut
// instead.
func readHello(text []byte) (h node.Hello, err error) {
	if len(text) > maxHello {
		return h, fmt.Errorf("%w: %d bytes, at most %d", errHello, len(text), maxHello)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("%w: %w", errHello, err)
	}
	if err := checkWords(h); err != nil {
		return h, fmt.Errorf("%w: %w", errHello, err)
	}
	h.Trouble = cut(h.Trouble, keptTrouble)
	return h, nil
}

func checkWords(h node.Hello) error {
	for _, word := range []string{h.Host, h.Version, h.Instance} {
		if len(word) > maxWord {
			return fmt.Errorf("a word of %d bytes, at most %d", len(word), maxWord)
		}
	}
	if h.Instance == "" {
		return errors.New("no instance")
	}
	if len(h.Jobs) > maxJobs || len(h.Lost) > maxReasons {
		return fmt.Errorf("%d jobs and %d reasons, at most %d and %d", len(h.Jobs), len(h.Lost), maxJobs, maxReasons)
	}
	for _, job := range h.Jobs {
		if err := frame.CheckName("job", job); err != nil {
			return err
		}
	}
	numbers := []float64{float64(h.Sessions), float64(h.Refused), float64(h.Waits), h.Behind}
	for why, n := range h.Lost {
		if !reasonForm().MatchString(why) {
			return fmt.Errorf("a reason %.70q", why)
		}
		numbers = append(numbers, float64(n))
	}
	for _, n := range numbers {
		if !(n >= 0 && n <= maxCount) {
			return fmt.Errorf("a count of %g", n)
		}
	}
	return nil
}

// bytes is about the memory that it takes.
func (h *helloed) bytes() int64 {
	n := 512 + len(h.Host) + len(h.Version) + len(h.Instance) + len(h.Trouble)
	for _, job := range h.Jobs {
		n += 24 + len(job)
	}
	for why := range h.Lost {
		n += 64 + len(why)
	}
	return int64(n)
}

// cut keeps the beginning of a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// helloShare is how often a node may say what it has: each of its processes does every 5 s. Those of all nodes wait in
// one line, and reading the largest takes 0.2 ms: without a bound a single node could fill it.
var helloShare = rate{burst: 4 * maxInstances, each: maxInstances}

var errOften = errors.New("it says hello too often")

// hellos are what nodes have left of their share. They are for one goroutine.
type hellos map[string]*bucket

func (s hellos) take(node string, now time.Time) bool {
	one := remembered(s, node, func() {
		maps.DeleteFunc(s, func(_ string, b *bucket) bool { return b.full(helloShare, now) })
	})
	return one.take(helloShare, 1, now) == 0
}

// hello notes a node, and tells it whether rows are wanted, or why it is not known. One that says it too often gets no
// answer.
func (h *Hub) hello(m bus.Msg) {
	name := bus.NodeOf(m.Subject)
	if !h.hellos.take(name, time.Now()) {
		h.refuse("a hello", name, whyOften, errOften)
		return
	}
	word, err := readHello(m.Data)
	if err == nil {
		err = h.roster.hello(name, word, time.Now())
	}
	if err != nil {
		h.refuse("a hello", name, whyHello, err)
		h.reply(m, node.Welcome{Refused: cut(err.Error(), keptTrouble)})
		return
	}
	w := node.Welcome{Keeps: h.o.Keep != nil, Frames: frame.Version, Schema: table.Latest(), // it is known now
		Pace: bus.Pace / max(1, h.roster.processes(name))}
	if h.o.Keep != nil {
		w.Lake = h.o.Keep.ID()
	}
	h.reply(m, w)
}

// errFormer is told to nodes whose frames have an older form: they keep the rows, and send them when they are upgraded.
var errFormer = errors.New("this hub takes rows in a newer form: upgrade memgauge on the node, where they wait")

// former declines a frame of an older memgauge.
func (h *Hub) former(m bus.Msg) {
	from := bus.NodeOf(m.Subject)
	h.refuse("a frame", from, whyFormer, errFormer)
	if err := h.conn.Decline(m, errFormer.Error()); err != nil {
		h.refuse("to answer", from, whyReply, err)
	}
}

// sane bounds what a file says of a node: what is out of bounds is forgotten, but for whose the name is.
func (n *known) sane(name string) bool {
	if n == nil || frame.CheckName("node", name) != nil || len(n.Key) > maxWord {
		return false
	}
	said := node.Hello{Instance: "x", Host: n.Node.Host, Version: n.Node.Version, Jobs: n.Node.Jobs,
		Sessions: n.Node.Sessions, Refused: n.Node.Refused, Shipping: n.Node.Shipping}
	if checkWords(said) != nil {
		n.Node = fanout.Node{Seen: n.Node.Seen, Kept: n.Node.Kept, KeptAt: n.Node.KeptAt}
	}
	n.Node.Name, n.Node.Instances = name, nil
	n.Node.Trouble, n.Node.Jobs = cut(n.Node.Trouble, keptTrouble), fewer(n.Node.Jobs, keptJobs)
	for _, at := range []*time.Time{&n.Node.Seen, &n.Since} {
		if y := at.Year(); y < 1 || y > 9999 { // JSON has no other years
			*at = time.Time{}
		}
	}
	return true
}

// fewer keeps as many names as have so many bytes.
func fewer(names []string, most int) []string {
	for i, name := range names {
		if most -= len(name) + len(`"",`); most < 0 {
			return names[:i]
		}
	}
	return names
}

// page is the nodes behind a name, until they take pageBytes; rest is how many are left.
func page(list []fanout.Node, after string) (nodes []fanout.Node, rest int) {
	nodes = []fanout.Node{}
	bytes := 0
	for i, n := range list {
		if after != "" && strings.Compare(n.Name, after) <= 0 {
			continue
		}
		text, err := json.Marshal(n)
		if err != nil {
			continue
		}
		if nodes, bytes = append(nodes, n), bytes+len(text)+1; bytes >= fanout.NodesPage {
			return nodes, len(list) - i - 1
		}
	}
	return nodes, 0
}
