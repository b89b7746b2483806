// Package fanout asks many nodes at once: it owns the form of questions and of their answers on the bus, gathers what
// comes before a deadline, and names who did not answer. A question is one of package api's, for every session that a
// selection fits; a single session far away is an api.Session like any other. Who answers is package node's.
package fanout

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
)

// Select says which sessions a question is for; its zero value means all that are live.
type Select struct {
	Job      string `json:"job,omitempty"`
	Node     string `json:"node,omitempty"`
	Session  string `json:"session,omitempty"` // an id
	Rank     *int   `json:"rank,omitempty"`    // those with a live process of this rank
	Finished bool   `json:"finished,omitempty"`

	Since time.Time `json:"since,omitzero"` // of the rows that a hub keeps: those from then on
}

// Question is what nodes are asked.
type Question struct {
	ID     string `json:"id"`               // of this question alone; answers come under it
	Ear    string `json:"ear"`              // where they are heard: bus.Conn.Ear
	Secret string `json:"secret,omitempty"` // of it too: words about its answers have it, and only nodes hear it
	Select Select `json:"select"`
	Of     Select `json:"of,omitzero"` // to LakeNode: the rows that it is about
	// The request to package api's Handler. Without a path the sessions themselves are the answer.
	Method string        `json:"method,omitempty"`
	Path   string        `json:"path,omitempty"`
	Body   []byte        `json:"body,omitempty"`
	Time   time.Duration `json:"time_ns"` // after which nobody waits for the answer
}

// Needs is the right that a question needs, for who sends it and for who answers. Which sessions there are, and what
// their machine has, is read; all else is package api's to say, from the text that is sent.
func (q Question) Needs() (api.Rights, error) {
	if q.Path == "" || q.Path == MachinePath {
		return api.MayRead, nil
	}
	return api.Needs(q.Method, q.Path)
}

// Follows says whether the answer goes on until nobody reads it any more.
func (q Question) Follows() bool {
	var e api.EventsRequest
	return strings.HasPrefix(q.Path, "/v1/events") && json.Unmarshal(q.Body, &e) == nil && e.Follow
}

// Session is one that a node answers for.
type Session struct {
	Node    string    `json:"node"`
	Job     string    `json:"job"`
	Ranks   []int     `json:"ranks"` // of its live processes
	PIDs    []int     `json:"pids"`
	State   string    `json:"state"`
	Rows    int64     `json:"rows"` // -1 where they were not counted
	Disk    int64     `json:"disk_bytes"`
	World   int       `json:"world,omitempty"`     // ranks of the whole job, 0 where nobody said
	NodeNum int       `json:"node_rank,omitempty"` // of the node in the job
	About   api.About `json:"about"`
}

// Bounds of what a node tells of a session in a list, which whoever asks may keep.
const (
	maxWord    = 512      // bytes of a name or a path
	maxCommand = 16 << 10 // bytes of a command line
	maxListed  = 1 << 16  // processes; a job of 8 ranks with their workers has some hundred
)

// bound cuts what a node tells of a session to what a list has room for.
func (s *Session) bound() {
	a := &s.About
	for _, word := range []*string{&s.Job, &s.State, &a.ID, &a.Name, &a.Dir, &a.Cwd, &a.Host, &a.Memgauge} {
		*word = cut(*word, maxWord)
	}
	room := maxCommand
	for i, arg := range a.Command {
		if a.Command[i] = cut(arg, room); len(a.Command[i]) < len(arg) {
			a.Command = slices.Clone(append(a.Command[:i+1], "…"))
			break
		}
		room -= len(arg) + 1
	}
	s.Ranks, s.PIDs = slices.Clone(s.Ranks[:min(len(s.Ranks), maxListed)]), s.PIDs[:min(len(s.PIDs), maxListed)]
	if a.Snapshot != nil {
		a.Snapshot.Path = cut(a.Snapshot.Path, maxWord)
	}
}

// cut is a text of at most so many bytes, in memory of its own where it was longer.
func cut(text string, most int) string {
	if len(text) <= max(most, 0) {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:max(most, 0)], ""))
}

// Kind of a part of an answer.
type Kind string

// The kinds. A node sends parts for each session, then Done.
const (
	Head Kind = "head" // a session begins to answer
	Body Kind = "body" // bytes of its answer
	Tail Kind = "tail" // it has answered
	Done Kind = "done" // all sessions of this node have
)

// Part is a piece of an answer.
type Part struct {
	Kind     Kind        `json:"kind"`
	Instance string      `json:"instance"` // of the process that answers: a machine may have several
	ID       string      `json:"session,omitempty"`
	Session  *Session    `json:"about,omitempty"`  // with Head
	Status   int         `json:"status,omitempty"` // with Head: as in HTTP
	Header   http.Header `json:"header,omitempty"` // with Head; with Tail the trailer
	Count    int         `json:"count,omitempty"`  // with Done: sessions that the selection fits
	Error    *api.Error  `json:"error,omitempty"`  // with Done

	Node string `json:"-"` // as the bus has it
	Data []byte `json:"-"` // with Body
	Size int    `json:"-"` // bytes that came
}

// maxHead bounds what a part says of itself: a session's command line, mostly.
const maxHead = 1 << 20

// Encode makes a part's bytes: the length of its head, that, the data.
func (p Part) Encode() ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	if len(head) > maxHead {
		return nil, fmt.Errorf("encode an answer: a head of %d bytes", len(head))
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(p.Data)), uint32(len(head)))
	return append(append(out, head...), p.Data...), nil
}

var errPart = errors.New("what came is not an answer")

// headSize is how long a part says that its head is.
func headSize(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b))
}

// DecodePart reads a part.
func DecodePart(b []byte) (p Part, err error) {
	if len(b) < 4 {
		return p, errPart
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxHead || int(n) > len(b)-4 {
		return p, fmt.Errorf("%w: a head of %d bytes in %d", errPart, n, len(b))
	}
	if err := json.Unmarshal(b[4:4+n], &p); err != nil {
		return p, fmt.Errorf("%w: %w", errPart, err)
	}
	p.Data, p.Size = b[4+n:], len(b)
	return p, nil
}

// Bounds of answers.
const (
	Chunk  = 64 << 10 // bytes of a body at a time
	Window = 16       // chunks of a session's answer that may be under way: 1 MiB
)

// Flow is what the asking side says while it reads, and to each sign of life: who says nothing for long is gone.
type Flow struct {
	Session string `json:"session"`
	Secret  string `json:"secret,omitempty"` // the question's
	Taken   int    `json:"taken"`            // chunks that were read since the word before
	Cancel  bool   `json:"cancel,omitempty"`
}
