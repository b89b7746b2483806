package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Frames wait in one stream until they are kept elsewhere. When it is full, new ones are refused: nodes keep them, and
// nothing that was acknowledged is lost.
const (
	streamName   = "MEMGAUGE"
	consumerName = "lake"

	// shipTime is for a frame to reach the hub's disk. A leader that is lost takes up to 10 s; the frame is then sent
	// again with the same id.
	shipTime = 2 * time.Second
	// sameFor is how long the stream remembers ids; later the numbers of rows tell.
	sameFor = 10 * time.Minute
	// ackTime is for the lake to keep what it was given; it then gets the frames again.
	ackTime = 5 * time.Minute
	inHand  = 256 // frames that the lake has and has not kept: 256 of 9 kB mostly, 2 GiB at worst
)

// OpenStream makes the stream of frames, or finds it. maxBytes bounds it; copies is how many servers keep each frame.
func (c *Conn) OpenStream(ctx context.Context, maxBytes int64, copies int) error {
	_, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: streamName,
		Subjects: []string{shipPrefix + "*"}, Storage: jetstream.FileStorage, Replicas: copies,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: maxBytes,
		Duplicates: sameFor, MaxMsgSize: MaxMessage})
	if err != nil {
		return fmt.Errorf("open the stream: %w", err)
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

// Ship sends a frame and returns when the hub has it on its disk. id is the same whenever the same frame is sent.
func (c *Conn) Ship(ctx context.Context, id string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, shipTime)
	defer cancel()
	_, err := c.js.Publish(ctx, ship(c.node), data, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("ship a frame: %w", err)
	}
	return nil
}

// Consume hands over every frame until ctx ends: again and again until keep has returned nil for it. Then it is
// forgotten here.
func (c *Conn) Consume(ctx context.Context, keep func(ctx context.Context, m Msg) error) error {
	cons, err := c.js.CreateOrUpdateConsumer(ctx, streamName, jetstream.ConsumerConfig{Durable: consumerName,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackTime, MaxAckPending: inHand})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	for ctx.Err() == nil {
		batch, err := cons.Fetch(inHand, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			if !wait(ctx, retryWait) {
				break
			}
			continue
		}
		if err := keepAll(ctx, batch, keep); err != nil && !wait(ctx, retryWait) {
			break
		}
	}
	return nil
}

func keepAll(ctx context.Context, batch jetstream.MessageBatch, keep func(context.Context, Msg) error) error {
	var failed error
	for m := range batch.Messages() {
		err := failed // what comes after a failure comes again, in order
		if err == nil {
			err = keep(ctx, Msg{Subject: m.Subject(), Data: m.Data()})
		}
		if err != nil {
			failed = err
			_ = m.NakWithDelay(retryWait)
			continue
		}
		if err := m.DoubleAck(ctx); err != nil {
			failed = errors.Join(failed, err) // it comes again, and is known by its numbers
		}
	}
	return failed
}
