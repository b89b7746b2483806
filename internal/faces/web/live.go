package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
)

const (
	newsEvery = time.Second
	// settleNews are told at most of a session that has ended: its collector may have been killed with it.
	settleNews = 30
	// writePatience is for a browser to take some more of an answer.
	writePatience = 30 * time.Second
)

// news is how far a session is.
type news struct {
	To   int64 `json:"to"` // µs since the epoch, of the last reading
	Step int64 `json:"step"`
	Live bool  `json:"live"`
	// Final says that nothing changes any more: a job's end is seen a moment before its collector has recorded it, with
	// the event that tells of it.
	Final bool `json:"final"`
}

// live sends a session's news each second, as server-sent events, until its end is final. The page asks for what it
// shows by itself: news have the same size after a day.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	select {
	case s.watches <- struct{}{}:
		defer func() { <-s.watches }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are watching already", maxWatches), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for over := 0; ; {
		n, err := s.newsOf(r.Context(), r.PathValue("id"))
		if err == nil && !n.Live {
			over++
			n.Final = n.Final || over > settleNews
		}
		if send(w, n, err) != nil || n.Final {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// newsOf asks whether the session lives before it asks how far it is: what came before the end is told.
func (s *Server) newsOf(ctx context.Context, id string) (n news, err error) {
	err = s.doors.through(ctx, id, func(d *door) error {
		end, err := d.End(ctx)
		if err != nil {
			return err
		}
		covered, err := firstOf(ctx, d, questions.Span)
		n = news{covered.To, covered.Step, end.Live, end.Final}
		return err
	})
	if err == nil && !n.Live {
		s.doors.renew(id) // what answers from now on is the finished session
	}
	return n, err
}

func send(w http.ResponseWriter, n news, failed error) error {
	kind, v := "news", any(n)
	if failed != nil {
		kind, v = "trouble", api.Pack(failed)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(writePatience))
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text); err != nil {
		return err
	}
	return c.Flush()
}
