package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/test/env"
)

// fleetOf answers for the sessions of a job whose ranks hold about the same, but for one that leaks.
type fleetOf struct{ ranks, members, odd int }

func (f fleetOf) List(context.Context) ([]api.Listed, []error, error) { return nil, nil, nil }

func (f fleetOf) Open(_ context.Context, id string) (api.Session, error) {
	var n int
	_, err := fmt.Sscanf(id, "m%d", &n)
	return part{fleetOf: f, first: n * f.ranks / f.members}, err
}

func (f fleetOf) job(context.Context) (list []web.Member, missing []string, err error) {
	for n := range f.members {
		list = append(list, web.Member{ID: fmt.Sprint("m", n), Node: fmt.Sprintf("node%02d<b>", n)})
	}
	return list, []string{"node99: no answer"}, nil
}

// part is a session of some ranks, of which it knows what each held by steps, and nothing else.
type part struct {
	api.Session
	fleetOf
	first int
}

func (part) Close() error { return nil }

func (part) About(context.Context) (api.About, error) {
	return api.About{}, errors.New("it tells no more")
}

func (p part) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	if !strings.Contains(q.SQL, "python.steps") {
		return errors.New("it tells no more")
	}
	out := json.NewEncoder(w)
	for rank := p.first; rank < p.first+p.ranks/p.members; rank++ {
		var steps, held []string
		for at := range 16 {
			bytes := 1<<30 + (rank*7919+at*104729)%1000
			if rank == p.odd {
				bytes += at * 50e6
			}
			if q.SQL == skew.Session.Statement() {
				steps, held = append(steps, strconv.Itoa(4*at)), append(held, strconv.Itoa(bytes/1024))
				continue
			}
			err := out.Encode(map[string]int{"rank": rank, "w": 4, "at": at, "allocated": bytes, "rss": bytes})
			if err != nil {
				return err
			}
		}
		if len(steps) == 0 {
			continue
		}
		if err := out.Encode(map[string]any{"rank": rank, "last": 63, "steps": strings.Join(steps, " "),
			"held": strings.Join(held, " ")}); err != nil {
			return err
		}
	}
	return nil
}

// 8,000 ranks of which one leaks: it is named, marked at the edge of the map, found by pointer and by keyboard, and the
// map is zoomed into where it stands for its neighbours.
func TestWebOddRankAmongThousands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	env.Chromium(t)
	env.Page(t, web.Bundled())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := fleetOf{ranks: 8000, members: 8, odd: 4321}
	server, err := web.New(web.Options{Sessions: f, Token: "sixteen-characters", Listener: l,
		Job: &web.Job{Name: "big", Members: f.job}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	b := w.browse(server.URL(), "en-US")
	b.shows("main p", "8,000 ranks")
	b.shows(".state.bad", "4321")
	b.shows("summary", "1 did not answer")
	b.until("one mark, beside the map", `(() => { const list = document.querySelectorAll(".oddmark");
		if (list.length !== 1) return false;
		const m = list[0].getBoundingClientRect(), c = document.querySelector(".heat canvas").getBoundingClientRect();
		return m.top + m.height / 2 > c.top && m.bottom - m.height / 2 < c.bottom && m.left >= c.right - 6 })()`)
	b.until("the mark at its rank's height", `(() => {
		const m = document.querySelector(".oddmark").getBoundingClientRect();
		const c = document.querySelector(".heat canvas").getBoundingClientRect();
		return Math.abs((m.top + m.height / 2 - c.top) / c.height - 4321 / 8000) < 0.01 })()`)
	b.accessible("8,000 ranks")
	b.wide("8,000 ranks")
	run[bool](b, `(() => { const m = document.querySelector(".oddmark").getBoundingClientRect();
		const c = document.querySelector(".heat canvas"), r = c.getBoundingClientRect();
		c.dispatchEvent(new PointerEvent("pointermove",
			{ clientX: r.right - 3, clientY: m.top + m.height / 2, bubbles: true })); return true })()`)
	b.shows(".pointed", "Rank 4321 on node04<b>")
	run[string](b, "document.querySelector('.heat canvas').focus(), ''")
	run[bool](b, `(() => { const c = document.querySelector(".heat canvas"), r = c.getBoundingClientRect();
		c.dispatchEvent(new PointerEvent("pointermove", { clientX: r.right - 3, clientY: r.top + 1, bubbles: true }));
		return true })()`)
	b.shows(".pointed", "the farthest of")
	b.key("\r")
	b.until("the zoomed map", "[...document.querySelectorAll('.controls button')].some((e) => e.innerText === 'All')")
	b.shows(".pointed, .hint", "Rank")
	b.clean(server.URL())
}
