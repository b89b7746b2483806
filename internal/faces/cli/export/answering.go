package export

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastAnswers bounds the time for open requests after the input has ended; a query may take 30 s.
const lastAnswers = time.Minute

// answering is a transport that reports the end of its input only after all requests have been answered. The server
// drops open requests at the end, so `echo REQUEST | memgauge mcp` would print nothing.
type answering struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (a answering) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answeringConnection{Connection: c, answered: make(chan struct{}, 1)}, nil
}

type answeringConnection struct {
	mcp.Connection
	open     atomic.Int64 // requests without an answer
	answered chan struct{}
}

func (c *answeringConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err == nil {
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
			c.open.Add(1)
		}
		return m, nil
	}
	deadline := time.NewTimer(lastAnswers)
	defer deadline.Stop()
	for c.open.Load() > 0 {
		select {
		case <-c.answered:
		case <-deadline.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
	return nil, err
}

func (c *answeringConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.open.Add(-1)
		select {
		case c.answered <- struct{}{}:
		default: // the reader has not received the last signal yet
		}
	}
	return err
}
