package fanout

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
)

// Node is what the hub knows of a node.
type Node struct {
	Name      string    `json:"node"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	Instances []string  `json:"instances"` // processes that answer for it now
	Seen      time.Time `json:"seen"`
	Up        bool      `json:"up"`
	Ended     bool      `json:"ended,omitempty"` // it was there for one run, which is over: nobody misses it
	Jobs      []string  `json:"jobs"`
	Sessions  int       `json:"sessions"`
	Refused   int64     `json:"refused"` // questions, by those processes

	Kept   uint64    `json:"kept_rows"` // rows of it that the hub has handed over
	KeptAt time.Time `json:"kept_at,omitzero"`
	Shipping
}

// Shipping is how far a node's rows have come, as the node tells.
type Shipping struct {
	Behind  float64 `json:"behind_seconds"` // since the hub had all rows of the session that is furthest behind
	Waits   int     `json:"waits"`          // sessions whose rows wait
	Trouble string  `json:"trouble,omitempty"`

	Lost map[string]int64 `json:"lost,omitempty"` // rows that will never be sent, by reason
}

// Add puts another process's share to it.
func (s *Shipping) Add(o Shipping) {
	s.Behind, s.Waits = max(s.Behind, o.Behind), s.Waits+o.Waits
	if s.Trouble == "" {
		s.Trouble = o.Trouble
	}
	for why, n := range o.Lost {
		if s.Lost == nil {
			s.Lost = map[string]int64{}
		}
		s.Lost[why] += n
	}
}

// Asker asks the nodes of a fleet.
type Asker struct {
	conn *bus.Conn
	// Patience is how long nodes have to begin their answer.
	Patience time.Duration
	// Waits is called once for a question to many, after Patience, with the nodes that work at their answers, and how
	// long those are waited for at most; nil for nobody who is told.
	Waits func(nodes []string, most time.Duration)
}

// NewAsker makes one on a connection, which stays the caller's.
func NewAsker(c *bus.Conn, patience time.Duration) *Asker { return &Asker{conn: c, Patience: patience} }

// NodesPage is how many bytes a hub's list of nodes has before the rest has to be asked for: some 10,000 nodes. What
// one node more can add leaves it a message.
const NodesPage = 4 << 20

// After asks for the nodes behind one, in order of their names.
type After struct {
	After string `json:"after"`
}

// Nodes lists those that the hub knows, by name.
func (a *Asker) Nodes(ctx context.Context) (list []Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	for last := ""; ; {
		var page []Node
		text, err := json.Marshal(After{last})
		var b []byte
		if err == nil {
			b, err = a.Request(ctx, "nodes", text)
		}
		if err == nil {
			err = json.Unmarshal(b, &page)
		}
		if err != nil {
			return nil, fmt.Errorf("ask the hub for its nodes: %w", err)
		}
		if len(page) == 0 || last != "" && page[0].Name <= last { // a hub of before has told all
			return list, nil
		}
		if list = append(list, page...); len(b) < NodesPage {
			return list, nil
		}
		last = page[len(page)-1].Name
	}
}

// Request asks the hub itself.
func (a *Asker) Request(ctx context.Context, what string, body []byte) ([]byte, error) {
	return a.conn.Request(ctx, bus.Hub(a.conn.Place(), what), body)
}

// Missing is a node that did not answer.
type Missing struct {
	Node string    `json:"node"`
	Seen time.Time `json:"seen"`
	Why  string    `json:"why"`
}

// Why the answer of a node that is connected is not known.
const (
	whyLate  = "no answer in time"
	whyWorks = "it works at its answer, which has not ended in time: --deadline gives it longer"
)

// Late says that the node is connected, and what it has is not known.
func (m Missing) Late() bool { return m.Why == whyLate || m.Why == whyWorks }

// Sessions lists those that a selection fits, sorted by job, node and start, and who did not answer.
func (a *Asker) Sessions(ctx context.Context, s Select) (list []Session, missing []Missing, err error) {
	nodes, err := a.Nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	told := map[string]*share{}
	missing, err = a.gather(ctx, Question{Select: s}, nodes, func(p Part) {
		if p.Kind == Head && p.Session != nil && shareOf(told, p.Node).fits(p.Size, 1) {
			p.Session.Node = p.Node // who speaks is for the bus to say
			p.Session.bound()
			list = append(list, *p.Session)
		}
	})
	order.By(list, compare)
	return list, missing, err
}

// compare orders sessions by job, node and start.
func compare(a, b Session) int {
	return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Node, b.Node),
		a.About.Started.Compare(b.About.Started))
}

// gather asks, and hands over parts until every node that is up has answered or the time is over.
func (a *Asker) gather(ctx context.Context, q Question, nodes []Node, take func(Part)) ([]Missing, error) {
	wanted := map[string]bool{} // instances that have not answered
	for _, n := range nodes {
		if n.Up && (q.Select.Node == "" || q.Select.Node == n.Name) {
			for _, i := range n.Instances {
				wanted[n.Name+"/"+i] = true
			}
		}
	}
	failed := map[string]string{}
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	_, parts, stop, err := a.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	defer stop()
	for len(wanted) > 0 {
		select {
		case p := <-parts:
			take(p)
			if p.Kind != Done {
				continue
			}
			delete(wanted, p.Node+"/"+p.Instance)
			if p.Error != nil {
				failed[p.Node] = p.Error.Message
			}
		case <-ctx.Done():
			return missingOf(nodes, q.Select, wanted, failed), nil
		}
	}
	return missingOf(nodes, q.Select, nil, failed), nil
}

// asked is what words about a question's answers need.
type asked struct{ id, secret string }

// maxHeads bounds the heads of one node's parts that are decoded, in bytes: those of 1,000 sessions with their command
// lines. All nodes' parts wait in one line, and a node can send more than can be decoded.
const maxHeads = 8 << 20

// allHeads bounds those of all nodes together, beyond which a node has fewHeads: of some sessions. What is made of them
// takes several times their bytes.
const allHeads, fewHeads = 64 << 20, 64 << 10

// ear says which parts are worth decoding. It is for one goroutine.
type ear struct {
	only  string         // the node that is asked; "": all
	heads map[string]int // bytes by node
	all   int            // of them that were decoded
}

func (e *ear) hears(node string, part []byte) bool {
	if e.only != "" {
		return node == e.only
	}
	size := min(headSize(part), len(part))
	e.heads[node] += size
	if most := e.heads[node]; most > maxHeads || e.all+size > allHeads && most > fewHeads {
		return false
	}
	e.all += size
	return true
}

// ask sends a question and gives the parts of its answers; stop ends that.
func (a *Asker) ask(ctx context.Context, q Question) (as asked, parts chan Part, stop func(), err error) {
	q.ID, q.Secret, q.Ear, q.Time = rand.Text(), rand.Text(), a.conn.Ear(), a.Patience
	parts = make(chan Part, Window) // what is not read yet waits on the connection, within its bounds
	over := make(chan struct{})
	ear := &ear{only: q.Select.Node, heads: map[string]int{}}
	unhear, err := a.conn.Hear(bus.Answers(q.Ear, q.ID), func(m bus.Msg) {
		node := bus.AnswerOf(m.Subject)
		if !ear.hears(node, m.Data) {
			return
		}
		p, err := DecodePart(m.Data)
		if err != nil {
			return // the node will be missing
		}
		p.Node = node
		select {
		case parts <- p:
		case <-over:
		}
	})
	if err != nil {
		return as, nil, nil, err
	}
	stop = func() { close(over); unhear() }
	subject, err := subjectOf(q)
	var text []byte
	if err == nil {
		text, err = json.Marshal(q) // #nosec G117 -- for the node that has the question
	}
	if err == nil {
		err = a.carry(ctx, subject, text)
	}
	if err != nil {
		stop()
		return as, nil, nil, fmt.Errorf("ask the nodes: %w", err)
	}
	return asked{q.ID, q.Secret}, parts, stop, nil
}

// Carried is what the hub says of a question to nodes: nothing, or why it did not carry it to them.
type Carried struct {
	Later time.Duration `json:"later_ns,omitempty"` // after which it may carry it
	Error *api.Error    `json:"error,omitempty"`
}

// mostLater is how long to wait at most before the hub is asked again.
const mostLater = time.Second

// carry has the hub carry a question to nodes, within Patience.
func (a *Asker) carry(ctx context.Context, subject string, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	for {
		b, err := a.conn.Request(ctx, bus.Via(a.conn.Place(), subject), text)
		if err != nil {
			return err
		}
		var c Carried
		if err := json.Unmarshal(b, &c); err != nil {
			return fmt.Errorf("what the hub says: %w", err)
		}
		if c.Later <= 0 {
			return c.Error.Unpack()
		}
		select {
		case <-time.After(min(c.Later, mostLater)):
		case <-ctx.Done():
			return c.Error.Unpack()
		}
	}
}

// subjectOf is where a question goes: what changes something has subjects of its own, which the hub can hold back.
func subjectOf(q Question) (string, error) {
	needs, err := q.Needs()
	switch {
	case err != nil:
		return "", err
	case needs.Changes():
		return bus.Grant(q.Select.Node), nil
	}
	return bus.Ask(q.Select.Node), nil
}

// say tells who answers about an answer. It may be lost: then the node gives up in its time.
func (a *Asker) say(node, id string, text []byte) {
	_ = a.conn.Send(bus.Via(a.conn.Place(), bus.Flow(node, id)), "", text)
}

func missingOf(nodes []Node, s Select, wanted map[string]bool, failed map[string]string) (list []Missing) {
	for _, n := range nodes {
		if s.Node != "" && s.Node != n.Name || s.Job != "" && !slices.Contains(n.Jobs, s.Job) {
			continue
		}
		late := slices.ContainsFunc(n.Instances, func(i string) bool { return wanted[n.Name+"/"+i] })
		switch why := failed[n.Name]; {
		case n.Ended:
		case !n.Up:
			list = append(list, Missing{n.Name, n.Seen, "it is not connected"})
		case late:
			list = append(list, Missing{n.Name, n.Seen, cmp.Or(why, whyLate)})
		case why != "":
			list = append(list, Missing{n.Name, n.Seen, why})
		}
	}
	return list
}
