package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Frames wait in one stream until they are kept elsewhere. When it is full, new ones are refused: nodes keep them, and
// nothing that was acknowledged is lost.
const (
	streamName   = "MEMGAUGE"
	consumerName = "lake"

	// shipTime is for a small frame to reach the hub's disk, and for the word of it; see patience. A leader that is
	// lost takes up to 10 s; the frame is then sent again.
	shipTime = 2 * time.Second
	// sameFor is how long the stream takes a message's id for one that came before: as briefly as it can be told. Ids
	// are the senders' words, and the stream compares those of all nodes: whoever sends another's first has its frames
	// dropped. Frames have none; the numbers of their rows tell which have come before.
	sameFor = 100 * time.Millisecond
	// perNode bounds the frames of one node that wait, so that one can't take the room of all: a node with 8 ranks
	// sends some 26 a minute, which the hub takes within one. Those beyond are refused, and stay with their node.
	perNode = 256
	// ackTime is for the lake to keep what it was given; it then gets the frames again.
	ackTime = 5 * time.Minute
	// lookTime is between looks, while nothing comes, for frames that were lost on their way here.
	lookTime = 5 * time.Second
	inHand   = 16 << 10 // frames that the lake has and has not kept; their bytes are bounded by Gather
	// maxDelayed bounds frames that are under way or that shall come again later: those of 4,096 nodes at perNode.
	maxDelayed = 1 << 20
	// fetchTime is how long one request for frames waits; it is what the end of a hub may wait for.
	fetchTime = 500 * time.Millisecond
)

// OpenStream makes the stream of frames, or finds it. maxBytes bounds it; copies is how many servers keep each frame.
func (c *Conn) OpenStream(ctx context.Context, maxBytes int64, copies int) error {
	from := shipPrefix
	if c.inside != nil {
		from = framePrefix
	}
	_, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{from + "*"},
		NoAck: true, RePublish: &jetstream.RePublish{Source: from + "*", Destination: keptPrefix + "{{wildcard(1)}}",
			HeadersOnly: true}, Storage: jetstream.FileStorage, Replicas: copies,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: maxBytes,
		MaxMsgsPerSubject: perNode, DiscardNewPerSubject: true, Duplicates: sameFor, MaxMsgSize: MaxMessage})
	if err == nil && c.inside != nil && !c.takes {
		err = c.takeFrames()
		c.takes = err == nil
	}
	if err != nil {
		err = fmt.Errorf("open the stream: %w", err)
		if copies > 1 {
			err = remedy.Add(err,
				fmt.Sprintf("%d copies need as many servers with JetStream: --replicas 1 keeps one", copies))
		}
		return err
	}
	return nil
}

// Revive has JetStream work again after a full disk has stopped it. A stream that could not write once refuses every
// frame until it is opened anew (server/filestore.go, werr).
func (s *Server) Revive() error {
	if !s.stuck.Swap(false) && s.ns.JetStreamEnabled() {
		return nil
	}
	if s.ns.JetStreamEnabled() {
		if err := s.ns.DisableJetStream(); err != nil {
			return fmt.Errorf("stop the stream: %w", err)
		}
	}
	if err := s.ns.EnableJetStream(s.js); err != nil {
		return fmt.Errorf("start the stream again: %w", err)
	}
	return nil
}

// Waiting is what the stream holds.
type Waiting struct {
	Frames uint64 `json:"frames"`
	Bytes  uint64 `json:"bytes"`
}

// Waiting says how much waits in the stream.
func (c *Conn) Waiting(ctx context.Context) (Waiting, error) {
	s, err := c.js.Stream(ctx, streamName)
	if err != nil {
		return Waiting{}, fmt.Errorf("look at the stream: %w", err)
	}
	state := s.CachedInfo().State
	return Waiting{state.Msgs, state.Bytes}, nil
}

// Decline tells who sent a frame on Former why it was not taken, as a stream tells that it could not store one.
func (c *Conn) Decline(m Msg, why string) error {
	var answer struct {
		Error struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	answer.Error.Code, answer.Error.Description = 400, why
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return c.Reply(m, text)
}

// Gather says how many frames are handed over at a time: those that came within Every, unless they are Bytes before.
type Gather struct {
	Every time.Duration
	Bytes int
}

// Consume hands over frames until ctx ends: each again, by this process or the next, until keep has returned nil for
// it. Then it is forgotten here, unless keep has set its Later. keep tries until it succeeds or its context ends.
func (c *Conn) Consume(ctx context.Context, g Gather, keep func(ctx context.Context, list []Msg) error) error {
	// A new consumer has everything that was not acknowledged at once; that of a killed hub would give it back after
	// ackTime.
	err := c.js.DeleteConsumer(ctx, streamName, consumerName)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("read the stream: %w", err)
	}
	cons, err := c.js.CreateOrUpdateConsumer(ctx, streamName, jetstream.ConsumerConfig{Durable: consumerName,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackTime, MaxAckPending: maxDelayed})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	for looked := time.Now(); ctx.Err() == nil; {
		list, lost := gather(ctx, cons, g)
		if len(list) == 0 && lost == nil {
			if time.Since(looked) < lookTime {
				continue
			}
			looked, lost = time.Now(), onItsWay(ctx, cons)
		}
		msgs := make([]Msg, len(list))
		for i, m := range list {
			msgs[i] = Msg{Subject: m.Subject(), Data: m.Data()}
			if meta, err := m.Metadata(); err == nil {
				msgs[i].Time = meta.Timestamp
			}
		}
		if len(msgs) > 0 {
			if err := keep(ctx, msgs); err != nil {
				return fmt.Errorf("keep frames: %w", err)
			}
		}
		for i, m := range list { // a word that is lost has it come again, and it is known by its numbers
			if later := msgs[i].Later; later > 0 {
				_ = m.NakWithDelay(later)
			} else {
				_ = m.Ack()
			}
		}
		if lost != nil && ctx.Err() == nil {
			return fmt.Errorf("read the stream: %w", lost)
		}
	}
	return nil
}

// onItsWay is an error where frames were sent to us that did not come: a server was lost meanwhile. They would come
// again after ackTime; to a new consumer they do at once.
func onItsWay(ctx context.Context, cons jetstream.Consumer) error {
	info, err := cons.Info(ctx)
	if err == nil && info.NumAckPending > 0 {
		err = fmt.Errorf("%d frames were lost on their way, and come again", info.NumAckPending)
	}
	return err
}

// gather fetches frames until there are enough of them, the first has waited long enough, or fetching fails.
func gather(ctx context.Context, cons jetstream.Consumer, g Gather) (list []jetstream.Msg, err error) {
	var due time.Time
	for bytes := 0; bytes < g.Bytes && len(list) < inHand && ctx.Err() == nil; {
		patience := fetchTime
		if len(list) > 0 {
			if patience = min(patience, time.Until(due)); patience <= 0 {
				break
			}
		}
		batch, err := cons.FetchBytes(max(g.Bytes, 2*MaxMessage), jetstream.FetchMaxWait(patience))
		if err != nil {
			return list, err
		}
		for m := range batch.Messages() {
			if len(list) == 0 {
				due = time.Now().Add(g.Every)
			}
			list, bytes = append(list, m), bytes+len(m.Data())
		}
		if err := batch.Error(); err != nil {
			return list, err
		}
	}
	return list, nil
}
