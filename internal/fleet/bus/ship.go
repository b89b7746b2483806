package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// A frame's way: a node sends it on its own subject, under an id of its choice in a header. The hub takes it from there
// into the stream, and when it is on the disk the server says so, with that id, on a subject that this node alone
// hears. No message of a node has a reply that anybody answers: a stream's acknowledgement goes, in the server's own
// right, to whatever subject a frame names, such as one of another node's or of the stream's orders. In a NATS of the
// user's the stream listens to the nodes itself, so that it takes frames while the hub is away.

// idHeader has a frame's id.
const idHeader = "Memgauge-Frame"

// errNotKept is a frame that the hub has not put on its disk: it is lost, or refused.
var errNotKept = errors.New("the hub has not kept it in time: it is busy, full, or has enough of this node")

// kept are frames that wait for the word that they are on the hub's disk.
type kept struct {
	sync.Mutex
	waiting map[string]chan struct{} // by id
}

// hearKept listens to what the hub has kept of a node.
func (c *Conn) hearKept() error {
	sub, err := c.nc.Subscribe(keptPrefix+token(c.node), func(m *nats.Msg) {
		c.kept.Lock()
		defer c.kept.Unlock()
		id := m.Header.Get(idHeader)
		if there := c.kept.waiting[id]; there != nil {
			close(there)
			delete(c.kept.waiting, id)
		}
	})
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = ErrLost
	}
	if err != nil {
		return fmt.Errorf("hear what is kept: %w", err)
	}
	_ = sub.SetPendingLimits(othersWait, maxUnread)
	return nil
}

// Ship sends a frame and returns when the hub has it on its disk.
func (c *Conn) Ship(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, shipTime, errNotKept)
	defer cancel()
	id, there := rand.Text(), make(chan struct{})
	c.kept.Lock()
	c.kept.waiting[id] = there
	c.kept.Unlock()
	defer func() {
		c.kept.Lock()
		defer c.kept.Unlock()
		delete(c.kept.waiting, id)
	}()
	if err := c.nc.PublishMsg(frameMsg(ship(c.node), id, data)); err != nil {
		return fmt.Errorf("ship a frame: %w", err)
	}
	select {
	case <-there:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ship a frame: %w", context.Cause(ctx))
	}
}

func frameMsg(subject, id string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{idHeader: []string{id}}, Data: data}
}

// takeFrames hands what nodes ship to the stream: the frame and its id, and nothing else that its sender has said.
func (c *Conn) takeFrames() error {
	sub, err := c.nc.Subscribe(shipPrefix+"*", func(m *nats.Msg) {
		id := m.Header.Get(idHeader)
		if CheckID(id) != nil {
			return // its sender can hear of no answer
		}
		to := framePrefix + strings.TrimPrefix(m.Subject, shipPrefix)
		_ = c.nc.PublishMsg(frameMsg(to, id, m.Data)) // a frame that is lost comes again
	})
	if err != nil {
		return fmt.Errorf("take frames: %w", err)
	}
	return sub.SetPendingLimits(framesWait, maxUnread)
}
