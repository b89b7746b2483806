package bus

import (
	"errors"
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Bounds of the lines in which NATS speaks. Both sides close a connection for good on a line beyond what the server
// takes, so what a stranger has chosen comes into none of ours unchecked.
const (
	// maxSubject bounds a subject, in bytes: that of an answer is 'mg.answer.', a node's name of 128, an ear of 32,
	// a question's id of 64; an inbox is '_INBOX.node-', that name, 22 and 8 of chance.
	maxSubject = 256
	// maxLine bounds a line, in bytes: that which ships a frame has two subjects, that which logs in two names of 128,
	// a key, a signature and a secret of 174 together, and some 250 of its own.
	maxLine = 1 << 10
	// maxSubs bounds what one connection hears: a node some 8 subjects, who asks one for each question under way.
	maxSubs = 128
	// nodeSubs is what a node hears at most: what hears the same subject many times has each message multiplied.
	nodeSubs = 16
	// mostEars bounds who hears the hub's answer to one message, or that a frame is kept: the connection that it is
	// for, and the one before, where that was lost. The hub has one line for all that it says, so who hears one
	// subject a thousand times would fill it with copies.
	mostEars = 2
	// maxTokens bounds the words between dots of a subject that is heard; ours have 5.
	maxTokens = 8
)

var idForm = pattern.Of(`^[A-Za-z0-9]{1,64}$`)

// CheckID refuses what can't be a question's id: it becomes a part of subjects.
func CheckID(id string) error {
	if !idForm().MatchString(id) {
		return fmt.Errorf("a question's id of %d bytes: not 1 to 64 letters and digits", len(id))
	}
	return nil
}

var errSubject = errors.New("no subject")

// checkSubject refuses what would break the line that a subject stands in.
func checkSubject(s string) error {
	if s == "" || len(s) > maxSubject || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: %.40q of %d bytes", errSubject, s, len(s))
	}
	return nil
}

// errStranger is a message whose answer would go to others than who sent it.
var errStranger = errors.New("its answer would go elsewhere than to its sender")

// replyTo checks where an answer to a message goes. Who answers may send anywhere, and who asks names the subject: it
// is one that its sender hears, so that nobody speaks with our voice.
func replyTo(m Msg) error {
	to := ""
	switch {
	case strings.HasPrefix(m.Subject, hubPrefix):
		if place, _ := HubOf(m.Subject); CheckID(place) == nil {
			to = askInbox(place)
		}
	case strings.HasPrefix(m.Subject, helloPrefix):
		to = inbox(nodeUser + strings.TrimPrefix(m.Subject, helloPrefix))
	case IsFormer(m.Subject):
		to = inbox(nodeUser + strings.TrimPrefix(m.Subject, formerPrefix))
	}
	if err := checkSubject(m.Reply); err != nil {
		return err
	}
	if to == "" || !strings.HasPrefix(m.Reply, to+".") || strings.ContainsAny(m.Reply, "*>") {
		return fmt.Errorf("%w: %.40q to a message on %.40q", errStranger, m.Reply, m.Subject)
	}
	return nil
}

// Reply answers a message to the hub, a node's hello, or a frame on Former; one that wants no answer gets none.
func (c *Conn) Reply(m Msg, data []byte) error {
	if m.Reply == "" {
		return nil
	}
	if err := replyTo(m); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if err := c.few(m.Reply, mostEars); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return c.Send(m.Reply, "", data)
}

// errEars is a subject that is heard so often that who says something there is kept from all else.
var errEars = errors.New("it is heard by more than it is for")

// few refuses a subject that more hear than it is for. In a NATS of the user's that can't be seen.
func (c *Conn) few(subject string, most int) error {
	if c.inside == nil {
		return nil
	}
	if n := c.inside.ns.GlobalAccount().Interest(subject); n > most {
		return fmt.Errorf("%w: %.40q by %d", errEars, subject, n)
	}
	return nil
}

// Carry sends to a node what it was asked; errEars where its connections hear it many times over.
func (c *Conn) Carry(to Onward, data []byte) error {
	if to.Node != "" {
		if err := c.few(to.Subject, perKey); err != nil {
			return fmt.Errorf("carry: %w", err)
		}
	}
	return c.Send(to.Subject, "", data)
}

// Seldom says whether the n-th event of a kind that a stranger causes is worth a line in a log: the 1st, 2nd, 4th, 8th
// and so on. A count has all.
func Seldom(n int64) bool { return n&(n-1) == 0 }

// Bounds of connections; variables for tests.
var (
	// maxConnections: 1,000 nodes, those that come back before the server has missed them, and people.
	maxConnections = 8192
	// forAskers are left to people where nodes, or who has their token, take all; people have no more. Each command,
	// page or screen that asks has one.
	forAskers = 128
)

// perKey bounds the connections of one node, to which its key and so its name belong: the node itself and runs with
// --hub on that machine.
const perKey = 64

// LeastPace is a process's share of Pace where nobody says how many there are.
const LeastPace = Pace / perKey

// admits says whether a node may have one more connection. What was let in is counted here, and looked at only where
// it may be too many: the server does not tell of those that went.
func (s *Server) admits(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ns.NumClients() > maxConnections-forAskers {
		return false
	}
	if s.keys[key]++; s.keys[key] <= perKey && len(s.keys) <= maxConnections {
		return true
	}
	s.keys = map[string]int{}
	all, err := s.connections()
	if err != nil {
		return false
	}
	for _, one := range all {
		s.keys[one.AuthorizedUser]++ // the key of a node; this one has told its own
	}
	return s.keys[key] <= perKey
}
