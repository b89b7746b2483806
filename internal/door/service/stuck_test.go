package service

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
)

type asked func(ctx context.Context) error

func (a asked) Query(ctx context.Context, _ api.QueryRequest, _ io.Writer) error { return a(ctx) }

// TestStuck: a question to a database that never comes back ends once that is known, with its own limit or what ended
// its context; one that comes back has its own answer.
func TestStuck(t *testing.T) {
	other, never := errors.New("no such table"), make(chan struct{})
	defer close(never)
	s := NewStuck()
	if err := s.Query(t.Context(), asked(func(context.Context) error { return other }), api.QueryRequest{},
		nil); err != other ||
		s.Hangs() {
		t.Errorf("%v, hangs %t", err, s.Hangs())
	}
	hang := asked(func(context.Context) error {
		s.Tell("SELECT 1")
		s.Tell("SELECT 2")
		<-never
		return nil
	})
	err := s.Query(t.Context(), hang, api.QueryRequest{Timeout: time.Second}, nil)
	if !errors.Is(err, api.ErrTimeout) || !s.Hangs() {
		t.Errorf("%v, hangs %t", err, s.Hangs())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(other)
	if err := s.Query(ctx, hang, api.QueryRequest{}, nil); !errors.Is(err, other) {
		t.Error(err)
	}
}
