package node

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// Rows answers for what a hub keeps: requests of package api, about the rows that the selection leaves.
type Rows func(ctx context.Context, of fanout.Select, w http.ResponseWriter, r *http.Request)

// ServeRows answers questions to the rows that a hub keeps, until ctx ends. refused is called for each that may not be
// asked.
func ServeRows(ctx context.Context, conn *bus.Conn, log *slog.Logger, rows Rows, refused func()) error {
	d := newDesk(fanout.LakeNode, log)
	d.conn, d.onRefusal = conn, refused
	d.work = func(ctx context.Context, q fanout.Question, a *answer) {
		s := fanout.LakeSession()
		d.reply(q, fanout.Part{Kind: fanout.Head, ID: s.About.ID, Session: &s})
		w := d.writer(ctx, q, a, s.About.ID)
		stop := w.live()
		if r, err := requestOf(ctx, q); err != nil {
			http.Error(w, "no such question", http.StatusNotFound)
		} else {
			rows(ctx, q.Of, w, r)
		}
		stop()
		w.finish()
		d.reply(q, fanout.Part{Kind: fanout.Done, Count: 1})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer d.answers.Wait()
	defer cancel()
	stop, err := d.hear(ctx, bus.Ask(fanout.LakeNode))
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}
