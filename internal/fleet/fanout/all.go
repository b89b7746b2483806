package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/api"
)

// Answer is the whole answer of one session to a question that went to many in one message.
type Answer struct {
	Session Session
	Data    []byte
	Err     error // it could not be answered
}

// Request is a question to every session of a selection: one of package api's, whose answer is a document.
type Request struct {
	Method, Path string
	Body         any
}

// maxWhole bounds the whole answer of one session: leak's report of 4,096 processes is 4 MiB.
const maxWhole = 8 << 20

var errWhole = errors.New("its answer is larger than 8 MiB")

// Bounds of all answers together, so that no node keeps whoever asks waiting, or takes its memory.
const (
	// wholeTimes is how often Patience a whole answer may take: the verdict on a day of steps takes a fifth of a second
	// of an idle machine, and a minute is enough of one that has 300 times as much to do.
	wholeTimes  = 30
	nodeBytes   = 64 << 20 // of a node's answers; those of 16 sessions with 4,096 processes
	maxSessions = 1 << 10  // of a node
	// fleetBytes is of all nodes: 1,000 of them with a megabyte each. Beyond it those that have sent most are left out.
	fleetBytes = 1 << 30
)

// All asks every session that a selection fits with one message, and waits for their whole answers. Nodes have Patience
// to say that they are there; one that works at its answer may take wholeTimes that, as long as it gives signs of life.
// Waits is told of those that do.
func (a *Asker) All(ctx context.Context, s Select, r Request) (list []Answer, missing []Missing, err error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the nodes: %w", err)
	}
	nodes, err := a.Nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	q := Question{Select: s, Method: r.Method, Path: r.Path, Body: body}
	as, parts, stop, err := a.ask(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	g := &gathering{a: a, asked: as, most: wholeTimes * a.Patience, wanted: map[string]bool{},
		failed: map[string]string{}, open: map[string]*Answer{}, shares: map[string]*share{}}
	for _, n := range nodes {
		if n.Up && (s.Node == "" || s.Node == n.Name) {
			for _, i := range n.Instances {
				g.wanted[n.Name+"/"+i] = false
			}
		}
	}
	silent := g.run(ctx, parts)
	return g.list, missingOf(nodes, s, silent, g.failed), nil
}

// gathering is the state of a question to many.
type gathering struct {
	a      *Asker
	asked  asked
	most   time.Duration      // for all of it
	wanted map[string]bool    // instances that have not ended their answer, and whether they have begun it
	failed map[string]string  // nodes that refused
	open   map[string]*Answer // by node, instance and session: answers that are coming in
	shares map[string]*share  // by node
	list   []Answer
	bytes  int // in list and open
}

// share is what a node has sent.
type share struct{ bytes, sessions int }

// fits counts more, and says whether a node may have so much.
func (s *share) fits(bytes, sessions int) bool {
	s.bytes, s.sessions = s.bytes+bytes, s.sessions+sessions
	return s.bytes <= nodeBytes && s.sessions <= maxSessions
}

func shareOf(all map[string]*share, node string) *share {
	if all[node] == nil {
		all[node] = &share{}
	}
	return all[node]
}

// add counts what a node sends; false where that is too much, and the node is not listened to any more.
func (g *gathering) add(node string, bytes, sessions int) bool {
	if !shareOf(g.shares, node).fits(bytes, sessions) {
		g.leaveOut(node, "it sends more than a node has to say")
		return false
	}
	for g.bytes += bytes; g.bytes > fleetBytes; {
		most := node
		for name, s := range g.shares {
			if s.bytes > g.shares[most].bytes {
				most = name
			}
		}
		g.leaveOut(most, "it sends most of more than all nodes may have to say")
		g.list = slices.DeleteFunc(g.list, func(a Answer) bool { return a.Session.Node == most })
		g.bytes -= g.shares[most].bytes
		delete(g.shares, most)
	}
	return g.shares[node] != nil
}

// leaveOut listens to a node no more.
func (g *gathering) leaveOut(node, why string) {
	g.failed[node] = why
	for key, one := range g.open {
		if one.Session.Node == node {
			g.say(one, Flow{Cancel: true})
			delete(g.open, key)
		}
	}
	for who := range g.wanted {
		if strings.HasPrefix(who, node+"/") {
			delete(g.wanted, who)
		}
	}
}

// run takes parts until every instance has ended its answer or fell silent, and names those that did.
func (g *gathering) run(ctx context.Context, parts <-chan Part) (late map[string]bool) {
	late = map[string]bool{}
	first := time.NewTimer(g.a.Patience)
	defer first.Stop()
	quiet := time.NewTimer(g.a.Patience + silence)
	defer quiet.Stop()
	last := time.NewTimer(g.most)
	defer last.Stop()
	for len(g.wanted) > 0 {
		select {
		case p := <-parts:
			g.take(p)
			quiet.Reset(silence)
		case <-first.C:
			for who, began := range g.wanted {
				if !began {
					late[who] = true
					delete(g.wanted, who)
				}
			}
			g.waits()
		case <-quiet.C:
			return g.giveUp(late)
		case <-last.C:
			return g.giveUp(late)
		case <-ctx.Done():
			return g.giveUp(late)
		}
	}
	return late
}

// waits tells of the nodes that have begun their answer, and are waited for.
func (g *gathering) waits() {
	var nodes []string
	for who := range g.wanted {
		node, _, _ := strings.Cut(who, "/")
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) > 0 && g.a.Waits != nil {
		g.a.Waits(nodes, g.most-g.a.Patience)
	}
}

// giveUp calls the open answers off.
func (g *gathering) giveUp(late map[string]bool) map[string]bool {
	for who, began := range g.wanted {
		if late[who] = true; began {
			node, _, _ := strings.Cut(who, "/")
			g.failed[node] = whyWorks
		}
	}
	for _, one := range g.open {
		g.say(one, Flow{Cancel: true})
	}
	return late
}

func (g *gathering) take(p Part) {
	who := p.Node + "/" + p.Instance
	if _, asked := g.wanted[who]; !asked {
		return // it is late, or nobody knows it
	}
	g.wanted[who] = true
	key := who + "/" + p.ID
	one := g.open[key]
	switch {
	case p.Kind == Done:
		delete(g.wanted, who)
		if p.Error != nil {
			g.failed[p.Node] = p.Error.Message
		}
	case p.Kind == Head && p.Session != nil:
		p.Session.Node = p.Node // who speaks is for the bus to say
		p.Session.bound()
		if g.add(p.Node, p.Size, 1) {
			g.open[key] = &Answer{Session: *p.Session}
		}
	case one == nil:
	case p.Kind == Head:
		if p.Status != http.StatusOK {
			one.Err = errStatus
		}
	case p.Kind == Body:
		g.body(one, p.Data)
	case p.Kind == Tail:
		delete(g.open, key)
		if one.Err == nil {
			one.Err = api.Broken(p.Header)
		}
		g.list = append(g.list, finished(*one))
	}
}

// errStatus marks an answer whose bytes are an error.
var errStatus = errors.New("it failed")

func (g *gathering) body(one *Answer, data []byte) {
	if len(data) == 0 { // a sign of life
		g.say(one, Flow{})
		return
	}
	if errors.Is(one.Err, errWhole) || !g.add(one.Session.Node, len(data), 0) {
		return
	}
	if len(one.Data)+len(data) > maxWhole {
		one.Data, one.Err = nil, errWhole
		g.say(one, Flow{Cancel: true})
		return
	}
	if before := len(one.Data) / (Window / 2 * Chunk); (len(one.Data)+len(data))/(Window/2*Chunk) > before {
		g.say(one, Flow{Taken: Window / 2})
	}
	one.Data = append(one.Data, data...)
}

func (g *gathering) say(one *Answer, f Flow) {
	f.Session, f.Secret = one.Session.About.ID, g.asked.secret
	// #nosec G117 -- for the node that has the question
	if text, err := json.Marshal(f); err == nil {
		g.a.say(one.Session.Node, g.asked.id, text)
	}
}

// finished turns the bytes of an error into one.
func finished(one Answer) Answer {
	if !errors.Is(one.Err, errStatus) {
		return one
	}
	var e api.Error
	if json.Unmarshal(one.Data, &e) == nil && e.Message != "" {
		one.Err = e.Unpack()
	}
	one.Data = nil
	return one
}

// Sort orders answers by job, node and start.
func Sort(list []Answer) {
	order.By(list, func(a, b Answer) int { return compare(a.Session, b.Session) })
}
