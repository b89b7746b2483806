package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

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
	waiting map[string]*sent // by id
	slow    int              // how many times in a row there was no word in time; see patience
}

// sent is a frame under way.
type sent struct {
	there chan struct{} // closed with the word
	at    time.Time
}

const (
	// shipRate is in bytes a second: what a frame of 8 MiB needs longer on its way than a small one.
	shipRate = 1 << 20
	// shipLongest bounds the wait for a word from a hub that is slow: it may have the frames of all nodes before it.
	shipLongest = time.Minute
	// maxLate bounds the frames whose word did not come in time, and is still heard: a node sends some at a time.
	maxLate = 64
)

// patience is how long to wait for the word of a frame: twice as long each time that it was too short. A hub that has
// more than it can take would else get everything again and again, and have ever more.
func patience(size, slow int) time.Duration {
	wait := shipTime + time.Duration(size)*time.Second/shipRate
	return min(wait<<min(slow, 8), shipLongest)
}

// idOf names a frame by its bytes, so that a word that comes late is known when the frame is about to be sent again.
func idOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// hearKept listens to what the hub has kept of a node.
func (c *Conn) hearKept() error {
	sub, err := c.nc.Subscribe(keptPrefix+token(c.node), func(m *nats.Msg) {
		c.kept.Lock()
		defer c.kept.Unlock()
		id := m.Header.Get(idHeader)
		if one := c.kept.waiting[id]; one != nil {
			select {
			case <-one.there: // it came twice
			default:
				close(one.there)
			}
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
	id := idOf(data)
	one, wait := c.kept.begin(id, len(data), time.Now())
	late, cancel := context.WithTimeoutCause(ctx, wait, errNotKept)
	defer cancel()
	select {
	case <-one.there: // since it was sent before
		c.kept.end(id, true)
		return nil
	default:
	}
	if err := c.nc.PublishMsg(frameMsg(ship(c.node), id, data)); err != nil {
		return fmt.Errorf("ship a frame: %w", err)
	}
	select {
	case <-one.there:
		c.kept.end(id, true)
		return nil
	case <-late.Done():
		if ctx.Err() == nil {
			c.kept.end(id, false)
		}
		return fmt.Errorf("ship a frame: %w", context.Cause(late))
	}
}

// begin notes a frame that is to be sent, perhaps again, and gives how long to wait for the word of it.
func (k *kept) begin(id string, size int, now time.Time) (*sent, time.Duration) {
	k.Lock()
	defer k.Unlock()
	one := k.waiting[id]
	if one == nil || now.Sub(one.at) > 2*shipLongest { // by now its hub may be another
		one = &sent{there: make(chan struct{})}
		k.waiting[id] = one
	}
	one.at = now
	if len(k.waiting) > maxLate {
		maps.DeleteFunc(k.waiting, func(_ string, s *sent) bool { return now.Sub(s.at) > 2*shipLongest })
	}
	return one, patience(size, k.slow)
}

// end notes whether the word came in time. Of a frame that it did not come of it may come yet.
func (k *kept) end(id string, intime bool) {
	k.Lock()
	defer k.Unlock()
	if !intime {
		k.slow++
		return
	}
	k.slow = 0
	delete(k.waiting, id)
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
		node := strings.TrimPrefix(m.Subject, shipPrefix)
		if c.few(keptPrefix+node, perKey) != nil {
			return // the same
		}
		to := framePrefix + node
		_ = c.nc.PublishMsg(frameMsg(to, id, m.Data)) // a frame that is lost comes again
	})
	if err != nil {
		return fmt.Errorf("take frames: %w", err)
	}
	return sub.SetPendingLimits(framesWait, maxUnread)
}
