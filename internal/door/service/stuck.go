package service

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/memgauge/memgauge/internal/door/api"
)

// Stuck is told of a statement that the database in this process can't stop: only the end of the process frees what it
// holds, so that whoever asked gets an error in time, and nobody closes the database any more.
type Stuck struct {
	once  sync.Once
	hangs chan struct{}
}

// NewStuck makes one for a database that is about to be opened.
func NewStuck() *Stuck { return &Stuck{hangs: make(chan struct{})} }

// Tell says that a statement hangs: store.Options.Stuck.
func (s *Stuck) Tell(string) { s.once.Do(func() { close(s.hangs) }) }

// Hangs says whether one does.
func (s *Stuck) Hangs() bool {
	select {
	case <-s.hangs:
		return true
	default:
		return false
	}
}

// Query asks a database, and returns in time even if that doesn't.
func (s *Stuck) Query(ctx context.Context, from api.Querier, q api.QueryRequest, w io.Writer) error {
	done := make(chan error, 1)
	go func() { done <- from.Query(ctx, q, w) }()
	select {
	case err := <-done:
		return err
	case <-s.hangs:
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("query: %w of %s", api.ErrTimeout, q.Timeout)
}
