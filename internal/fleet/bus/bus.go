// Package bus carries the messages of a fleet: questions from people to nodes, their answers, and frames from nodes to
// the hub, which acknowledges what is on its disk. Inside is NATS with JetStream, embedded in the hub; this package
// alone imports it. Connections are TLS 1.3 to a certificate that the token pins, and each side proves who it is: a
// node may only speak in its own name. What messages mean is not its business.
package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// MaxMessage bounds a message, in bytes: a frame of 8 MiB and what the bus puts around it.
const MaxMessage = 8<<20 + 64<<10

// Subjects. A node's name stands in them with '~' for '.', which no name has.
const (
	ours         = "mg."
	askPrefix    = ours + "ask."    // questions to nodes, from the hub
	grantPrefix  = ours + "grant."  // those that change something, for nodes that allow it
	answerPrefix = ours + "answer." // answers, by node, ear and question: a node can't answer in another's name
	flowPrefix   = ours + "flow."   // what an asking side says while it reads an answer, from the hub
	helloPrefix  = ours + "hello."  // a node's word that it is there
	hubPrefix    = ours + "hub."    // what is said to the hub, by the place of who asks
	shipPrefix   = "mg.rows."       // frames, as nodes send them
	formerPrefix = "mg.ship."       // frames of an older memgauge, in a form that nobody reads any more
	framePrefix  = "mg.frame."      // frames on their way into the stream, from the hub
	keptPrefix   = "mg.kept."       // that a node's frame is on the disk
	everybody    = "all"
)

// Ask is the subject of questions to a node; "" means all of them.
func Ask(node string) string { return askPrefix + token(node) }

// Grant is the subject of questions to a node that change something.
func Grant(node string) string { return grantPrefix + token(node) }

// Answer is the subject of a node's answers to a question, which an ear alone hears.
func Answer(node, ear, id string) string { return answerPrefix + token(node) + "." + ear + "." + id }

// Answers are those of all nodes to a question.
func Answers(ear, id string) string { return answerPrefix + "*." + ear + "." + id }

// Ear is where answers to a place go. Nodes know it, and can't tell the place from it, in whose name they could ask.
func Ear(place string) string {
	sum := sha256.Sum256([]byte("ear of " + place))
	return hex.EncodeToString(sum[:16])
}

// AnswerOf is the node whose answer it is, which the hub's server has checked.
func AnswerOf(subject string) string {
	node, _, _ := strings.Cut(strings.TrimPrefix(subject, answerPrefix), ".")
	return strings.ReplaceAll(node, "~", ".")
}

// Flow is the subject of what a node hears about one of its answers.
func Flow(node, id string) string { return flowPrefix + token(node) + "." + id }

// Flows are all of them.
func Flows(node string) string { return flowPrefix + token(node) + ".*" }

// FlowOf is the question that a subject of Flows is about.
func FlowOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// Hello is the subject of a node's word that it is there; "" means that of any.
func Hello(node string) string {
	if node == "" {
		return helloPrefix + "*"
	}
	return helloPrefix + token(node)
}

// Hub is the subject of a question to the hub, from one place: see Conn.Place.
func Hub(place, what string) string { return hubPrefix + place + "." + what }

// Via is where who asks says what is for a node. Only the hub speaks to nodes, so it can bound what they get.
func Via(place, subject string) string { return Hub(place, strings.TrimPrefix(subject, ours)) }

// Onward is where something that came by Via goes.
type Onward struct {
	Subject string
	Node    string // "": all
	Word    bool   // it is about an answer, and no question
	Changes bool   // it is a question that changes something
}

// OnwardOf reads it from what HubOf has given; false where nobody would hear it.
func OnwardOf(what string) (to Onward, ok bool) {
	to.Subject = ours + what
	name := ""
	switch kind, rest, _ := strings.Cut(what, "."); kind + "." {
	case askPrefix[len(ours):]:
		name = rest
	case grantPrefix[len(ours):]:
		name, to.Changes = rest, true
	case flowPrefix[len(ours):]:
		var id string
		name, id, to.Word = cutLast(rest)
		if !to.Word || CheckID(id) != nil || name == everybody {
			return Onward{}, false
		}
	}
	if name != everybody {
		to.Node = strings.ReplaceAll(name, "~", ".")
	}
	return to, tokenForm().MatchString(name)
}

func cutLast(s string) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// HubOf is the place that a question to the hub came from, which the hub's server has checked, and what is asked.
func HubOf(subject string) (place, what string) {
	place, what, _ = strings.Cut(strings.TrimPrefix(subject, hubPrefix), ".")
	return place, what
}

// NodeOf is the node that a subject names, which the hub's server has checked.
func NodeOf(subject string) string {
	return strings.ReplaceAll(subject[strings.LastIndexByte(subject, '.')+1:], "~", ".")
}

// Former is the subject on which nodes of an older memgauge ship. No stream takes it, so they keep what they have.
const Former = formerPrefix + "*"

// IsFormer says whether a frame came on a subject of Former, as those did that were in the stream before.
func IsFormer(subject string) bool { return strings.HasPrefix(subject, formerPrefix) }

func ship(node string) string { return shipPrefix + token(node) }

func token(node string) string {
	if node == "" {
		return everybody
	}
	return strings.ReplaceAll(node, ".", "~")
}

// Msg is a message.
type Msg struct {
	Subject string
	Reply   string // where an answer goes; "" for none
	Data    []byte

	Time  time.Time     // of a frame: when the bus stored it
	Later time.Duration // set by who takes frames: this one is to come again after so long
}

var (
	// ErrAway is a hub that can't be reached, or did not answer in time.
	ErrAway = errors.New("the hub does not answer")
	// ErrRefused is a hub that does not let us in.
	ErrRefused = errors.New("the hub refused us")
	// ErrLost is a connection that will not come back by itself: see Conn.Lost.
	ErrLost = errors.New("the connection to the hub is over")
	// ErrNobody is a question that nobody hears.
	ErrNobody = errors.New("nobody answers that")
)

const (
	dialTime = 5 * time.Second // a connection with TLS across an ocean takes one
	// retryFirst is the wait after the first attempt to reach a hub that is away or refuses us; each is twice as long
	// as the one before, up to retryMost, where 1,000 nodes make some 80 attempts a second.
	retryFirst = 500 * time.Millisecond
	retryMost  = 16 * time.Second
)
