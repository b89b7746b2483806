package web

import (
	"context"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// columns are a track's values, column by column: a page draws them as they come.
type columns struct {
	Width int64                 `json:"width"`
	From  int64                 `json:"from"` // µs since the epoch: what was asked for
	T     []int64               `json:"t"`    // µs since the epoch, of the last reading in each interval
	Lo    []*float64            `json:"lo"`
	Hi    []*float64            `json:"hi"`
	Limit []*float64            `json:"limit"`
	Parts map[string][]*float64 `json:"parts"`
	Order []string              `json:"order"` // of Parts, from the bottom
}

func series(ctx context.Context, s api.Session, q params) (any, error) {
	t, err := questions.TrackOf(q.text("kind"), q.number("pid"), q.number("device"), q.text("path"))
	if err != nil {
		return nil, err
	}
	i := questions.Interval{From: q.number("from"), To: q.number("to"), Width: q.number("width")}
	if err := i.Check(); err != nil {
		return nil, err
	}
	if d, ok := s.(*door); ok {
		rows, err := d.overviews.of(t).read(ctx, s, t, i)
		return columnsOf(t, rows, i), err
	}
	return read(ctx, s, t, i)
}

// read is the track in an interval.
func read(ctx context.Context, s api.Querier, t questions.Track, i questions.Interval) (*columns, error) {
	rows, err := api.Ask(ctx, s, t.In(i))
	return columnsOf(t, rows, i), err
}

func columnsOf(t questions.Track, rows []questions.Reading, i questions.Interval) *columns {
	n := len(rows)
	c := &columns{Width: i.Width, From: i.From, T: make([]int64, n), Lo: make([]*float64, n), Hi: make([]*float64, n),
		Limit: make([]*float64, n), Parts: map[string][]*float64{}}
	for _, p := range t.Parts {
		c.Order = append(c.Order, p.Name)
		c.Parts[p.Name] = make([]*float64, n)
	}
	for k, r := range rows {
		c.T[k], c.Lo[k], c.Hi[k], c.Limit[k] = r.T, r.Lo, r.Hi, r.Limit
		for m, p := range t.Parts {
			if m < len(r.Parts) {
				c.Parts[p.Name][k] = r.Parts[m]
			}
		}
	}
	return c
}
