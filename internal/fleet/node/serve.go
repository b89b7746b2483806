package node

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// Rows answers for what a hub keeps: requests of package api, about the rows that the selection leaves. rights are
// those of whoever asks.
type Rows func(of fanout.Select, rights api.Rights) http.Handler

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
		d.handle(ctx, q, w, rows(q.Of, a.rights))
		stop()
		w.finish()
		d.reply(q, fanout.Part{Kind: fanout.Done, Count: 1})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer d.answers.Wait()
	defer cancel()
	stop, err := d.hear(ctx, map[string]api.Rights{bus.Ask(fanout.LakeNode): api.MayQuery})
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}
