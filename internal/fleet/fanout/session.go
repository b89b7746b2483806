package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
)

// Open gives a session far away as what every session is.
func (a *Asker) Open(s Session) api.Session {
	return remote{api.NewClientOver(&way{a: a, s: s}), s}
}

// LakeNode answers for the rows that a hub keeps. No node has such a name.
const LakeNode = ".lake"

// LakeSession is the one that LakeNode answers for.
func LakeSession() Session {
	return Session{Node: LakeNode, Ranks: []int{}, PIDs: []int{}, State: "kept",
		About: api.About{ID: "lake", Name: "the hub's lake", Live: true}}
}

// Lake gives the rows that the hub keeps, and of those what a selection leaves: queries and tables alone are answered.
func (a *Asker) Lake(of Select) api.Session {
	s := LakeSession()
	return remote{api.NewClientOver(&way{a: a, s: s, of: of}), s}
}

// remote is a client of a session far away. What never changes is known already.
type remote struct {
	*api.Client
	s Session
}

func (r remote) About(context.Context) (api.About, error) { return r.s.About, nil }

func (r remote) SnapshotFile(context.Context) (string, error) {
	return "", r.s.About.SnapshotElsewhere()
}

func (r remote) SourceFile(context.Context, string) (string, error) {
	return "", r.s.About.SourceElsewhere()
}

// way carries requests to one session, as an http.RoundTripper.
type way struct {
	a  *Asker
	s  Session
	of Select // of LakeNode's rows
}

// maxRequest is what a message has room for beside a question's other words: base64 makes a third more of it.
const maxRequest = bus.MaxMessage / 4 * 3 / 10 * 9

// RoundTrip sends the request and returns with the head of the answer.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	q := Question{Select: Select{Node: w.s.Node, Session: w.s.About.ID, Finished: true}, Of: w.of,
		Method: r.Method, Path: r.URL.RequestURI()}
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if q.Body, err = io.ReadAll(io.LimitReader(r.Body, maxRequest+1)); err != nil {
			return nil, fmt.Errorf("ask node %s: %w", w.s.Node, err)
		}
		if len(q.Body) > maxRequest {
			return nil, fmt.Errorf("ask node %s: a question of more than %d bytes", w.s.Node, maxRequest)
		}
	}
	t := &trip{way: w, ctx: r.Context()}
	if err := t.begin(q); err != nil {
		return nil, &api.WayError{Err: err}
	}
	resp, err := t.head()
	if err != nil {
		return nil, &api.WayError{Err: err}
	}
	return resp, nil
}

// trip is one request under way. It is the body of its response.
type trip struct {
	way   *way
	ctx   context.Context
	asked asked
	parts chan Part
	stop  func()

	changes bool          // it is a question that changes something
	endless bool          // an answer without a bound in time: it goes on, or code runs for as long as its user lets it
	budget  time.Duration // that the node may still be waited for, where there is a bound

	resp *http.Response
	left []byte // of the newest part
	read int    // chunks that the node has not been told of
	end  error
}

func (t *trip) begin(q Question) (err error) {
	needs, err := q.Needs()
	if err != nil {
		return err
	}
	t.changes = needs.Changes()
	t.endless, t.budget = t.changes || q.Follows(), t.way.a.Patience+wholeTime
	t.asked, t.parts, t.stop, err = t.way.a.ask(t.ctx, q)
	return err
}

// wholeTime is how long one session's answer may take beyond Patience: a statement over days of rows takes minutes.
const wholeTime = 10 * time.Minute

// leastRate is how many bytes a second make an answer longer than wholeTime.
const leastRate = 1 << 20

var errSlow = errors.New("it gives signs of life, and no answer")

// wait gives the end of the node's time, which runs only while it is waited for, until stop. Signs of life alone don't
// make it longer.
func (t *trip) wait() (over <-chan time.Time, stop func()) {
	if t.endless {
		return nil, func() {}
	}
	began, timer := time.Now(), time.NewTimer(t.budget)
	return timer.C, func() {
		timer.Stop()
		t.budget -= time.Since(began)
	}
}

func (t *trip) slow() error { return fmt.Errorf("node %s: %w", t.way.s.Node, errSlow) }

// head waits for the answer to begin. A node that is busy with a census says no more than that it lives.
func (t *trip) head() (*http.Response, error) {
	late := time.NewTimer(t.way.a.Patience)
	defer late.Stop()
	over, stop := t.wait()
	defer stop()
	for {
		select {
		case p := <-t.parts:
			if p.Node != t.way.s.Node {
				continue
			}
			switch {
			case p.Kind == Head && p.Status == 0: // it has begun to work
				late.Stop()
			case p.Kind == Body: // a sign of life
				t.say(Flow{})
			case p.Kind == Head:
				t.resp = &http.Response{StatusCode: p.Status, Status: http.StatusText(p.Status), Header: p.Header,
					Trailer: http.Header{}, Body: t, ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
				if t.resp.Header == nil {
					t.resp.Header = http.Header{}
				}
				return t.resp, nil
			case p.Kind == Done && p.Error != nil:
				t.over()
				return nil, p.Error.Unpack()
			case p.Kind == Done && p.Count > 0:
				t.over()
				return nil, fmt.Errorf("node %s: %w", t.way.s.Node, io.ErrUnexpectedEOF)
			}
		case <-late.C:
			t.Close()
			return nil, t.silent()
		case <-over:
			t.Close()
			return nil, t.slow()
		case <-t.ctx.Done():
			t.Close()
			return nil, context.Cause(t.ctx)
		}
	}
}

func (t *trip) silent() error {
	what := "it has ended, or does not answer for this session"
	if t.changes {
		what = "both sides must allow it: memgauge hub --allow eval, and on that machine --allow eval"
	}
	return remedy.Add(fmt.Errorf("node %s did not answer within %s", t.way.s.Node,
		units.Duration(t.way.a.Patience)), what)
}

// Read gives the answer's bytes.
func (t *trip) Read(b []byte) (int, error) {
	for len(t.left) == 0 {
		if t.end != nil {
			return 0, t.end
		}
		if t.read >= Window/2 {
			t.say(Flow{Taken: t.read})
			t.read = 0
		}
		t.next()
	}
	n := copy(b, t.left)
	t.left = t.left[n:]
	return n, nil
}

// silence is how long a node may say nothing in the middle of an answer: an eval may train for hours, so what it sends
// then is an empty part now and then.
const silence = 30 * time.Second

func (t *trip) next() {
	late := time.NewTimer(silence)
	defer late.Stop()
	over, stop := t.wait()
	defer stop()
	select {
	case p := <-t.parts:
		switch {
		case p.Node != t.way.s.Node:
		case p.Kind == Body:
			t.left = p.Data
			if len(p.Data) > 0 {
				t.read++
				t.budget += time.Duration(len(p.Data)) * time.Second / leastRate
			} else { // a sign of life
				t.say(Flow{})
			}
		case p.Kind == Tail:
			for name, values := range p.Header {
				t.resp.Trailer[name] = values
			}
			t.end = io.EOF
			t.over()
		}
	case <-over:
		t.end = t.slow()
	case <-late.C:
		t.end = fmt.Errorf("node %s fell silent: %w", t.way.s.Node, io.ErrUnexpectedEOF)
	case <-t.ctx.Done():
		t.end = context.Cause(t.ctx)
	}
}

// Close ends the answer, wherever it is.
func (t *trip) Close() error {
	if t.stop != nil {
		t.say(Flow{Cancel: true})
	}
	t.over()
	if t.end == nil {
		t.end = errors.New("the answer was closed")
	}
	return nil
}

func (t *trip) over() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

func (t *trip) say(f Flow) {
	f.Session, f.Secret = t.way.s.About.ID, t.asked.secret
	text, err := json.Marshal(f) // #nosec G117 -- for the node that has the question
	if err == nil {
		t.way.a.say(t.way.s.Node, t.asked.id, text)
	}
}
