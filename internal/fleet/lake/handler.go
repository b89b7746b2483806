package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Room bounds how many questions a lake answers at a time: each takes a process with its memory (package cell).
type Room chan struct{}

// NewRoom makes room for n questions.
func NewRoom(n int) Room { return make(Room, n) }

// roomWait is how long a question waits for others to be answered before it is refused.
const roomWait = 30 * time.Second

var errNoRoom = remedy.Add(errors.New("query: the lake is busy with other questions"), "ask again later")

// enter waits for room; nil has it for all.
func (r Room) enter(ctx context.Context) (leave func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	late := time.NewTimer(roomWait)
	defer late.Stop()
	select {
	case r <- struct{}{}:
		return func() { <-r }, nil
	case <-late.C:
		return nil, errNoRoom
	case <-ctx.Done():
		return nil, fmt.Errorf("query: %w", api.ErrCanceled)
	}
}

// Handler answers requests of package api about a lake: queries and tables, whatever else the rights are. It opens the
// lake for each of them, as it is then.
func Handler(c Choice, room Room, rights api.Rights) http.Handler {
	return api.Handler(asked{choice: c, room: room}, rights&api.MayQuery, nil)
}

// Of gives a part of a lake as what has rows; each question opens it, as it is then.
func Of(c Choice) api.Tabled { return asked{choice: c} }

// asked is a lake as the session of a handler that lets nothing else pass.
type asked struct {
	api.Session
	choice Choice
	room   Room
}

// Close does nothing.
func (asked) Close() error { return nil }

// Query opens the tables that the statement names.
func (a asked) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := q.Check(); err != nil {
		return err
	}
	leave, err := a.room.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	a.choice.SQL = q.SQL
	t, err := Open(ctx, a.choice)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer t.Close()
	return t.Query(ctx, q, w)
}

// Tables describes those of the lake.
func (a asked) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	leave, err := a.room.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := Open(ctx, a.choice)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Tables(ctx, all)
}
