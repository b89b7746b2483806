package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// question makes the message of one.
func question(t *testing.T, q fanout.Question) bus.Msg {
	t.Helper()
	q.Ear = "ear"
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return bus.Msg{Subject: bus.Ask("n1"), Data: text}
}

// stuck has all answers go on until they are called off; began and ended tell of each.
func (x *attacker) stuck() (began chan string, ended chan error) {
	began, ended = make(chan string, 1024), make(chan error, 1024)
	x.node.work = func(ctx context.Context, q fanout.Question, _ *answer) {
		began <- q.ID
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}
	return began, ended
}

func got[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

// TestLongIDs: a question whose id makes no subject is refused and counted, and ends nobody's connection.
func TestLongIDs(t *testing.T) {
	x := newAttacker(t)
	for _, id := range []string{strings.Repeat("y", 5000), "a.b", "a b", "", "x\r\nPUB mg.hello.n2 0\r\n"} {
		for _, subject := range []string{bus.Ask("n1"), bus.Ask("")} {
			m := question(t, fanout.Question{ID: id, Method: "GET", Path: "/v1/about"})
			if err := x.conn.Send(subject, "", m.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, subject := range []string{bus.Ask("n1"), bus.Ask("")} {
		if status, err := x.ask(subject, api.Route{Method: "GET", Target: "/v1/end"}); status != 200 {
			t.Errorf("the question behind them: %d, %v", status, err)
		}
	}
	if n := x.node.refused.Load(); n != 10 {
		t.Errorf("%d were counted", n)
	}
}

// TestNodeDialsAnew: a node whose connection a hub has ended for good makes another.
func TestNodeDialsAnew(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer l.Close()
	defer cancel()
	came := make(chan bool, 16)
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- true
			fmt.Fprint(c, `INFO {"server_id":"x","version":"2.15.0","proto":1,"headers":true,`+
				`"max_payload":9000000,"auth_required":true,"nonce":"bm9uY2U"}`+"\r\n")
			for in := bufio.NewScanner(c); in.Scan(); {
				if strings.HasPrefix(in.Text(), "PING") {
					fmt.Fprint(c, "PONG\r\n-ERR 'Maximum Control Line Exceeded'\r\n")
				}
			}
			c.Close()
		}
	})
	log := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	done := make(chan error, 1)
	all.Go(func() {
		done <- Run(ctx, Options{Name: "n1", Log: log, Dial: bus.DialOptions{Plain: true,
			URL: l.Addr().String(), Key: filepath.Join(t.TempDir(), "n1.key")}})
	})
	got(t, came)
	got(t, came)
	cancel()
	if err := got(t, done); err != nil {
		t.Error(err)
	}
}

// TestWordsOfOthers: who has heard of a question's id, but did not ask it, neither calls its answer off nor takes its
// place.
func TestWordsOfOthers(t *testing.T) {
	x := newAttacker(t)
	began, ended := x.stuck()
	q := fanout.Question{ID: rand.Text(), Secret: "s"}
	x.node.take(t.Context(), question(t, q), api.Reading, nil)
	got(t, began)
	say := func(secret string) {
		text, err := json.Marshal(fanout.Flow{Cancel: true, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		x.node.flow(bus.Msg{Subject: bus.Flow("n1", q.ID), Data: text})
	}
	x.node.take(t.Context(), question(t, fanout.Question{ID: q.ID, Secret: "mine"}), api.Reading, nil)
	x.node.lock.Lock()
	secret := x.node.running[q.ID].secret
	x.node.lock.Unlock()
	if secret != "s" || x.node.refused.Load() != 1 {
		t.Errorf("its secret is %q, %d were refused", secret, x.node.refused.Load())
	}
	x.node.lock.Lock()
	a, called := x.node.running[q.ID], 0
	cancel := a.cancel
	a.cancel = func(err error) { called++; cancel(err) }
	x.node.lock.Unlock()
	for _, secret := range []string{"", "mine", "ss"} {
		if say(secret); called != 0 {
			t.Fatalf("called off by %q", secret)
		}
	}
	say("s")
	if err := got(t, ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAskerIsGone: an answer ends where nobody has said for long that they read it, also one that sends nothing.
func TestAskerIsGone(t *testing.T) {
	x := newAttacker(t)
	x.node.silence = time.Millisecond
	_, ended := x.stuck()
	for range maxAnswers {
		x.node.take(t.Context(), question(t, fanout.Question{ID: rand.Text()}), api.Reading, nil)
	}
	all := make(chan bool)
	go func() { x.node.answers.Wait(); close(all) }()
	got(t, all)
	for range len(ended) { // some were over before they began
		if err := <-ended; !errors.Is(err, errGone) {
			t.Error(err)
		}
	}
	if len(x.node.line)+len(x.node.room)+len(x.node.running) > 0 {
		t.Error("an answer still has its place")
	}
}

// TestBusy: answers without an end leave room for others; what is too much is refused, and keeps nobody waiting.
func TestBusy(t *testing.T) {
	x := newAttacker(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, ended := x.stuck()
	refusals := make(chan *api.Error, 1024)
	for i := range maxFollows + 3 {
		q := fanout.Question{ID: rand.Text(), Ear: "ear", Method: "POST", Path: "/v1/events",
			Body: []byte(`{"follow":true}`)}
		stop, err := x.conn.Hear(bus.Answers(q.Ear, q.ID), func(m bus.Msg) {
			if p, err := fanout.DecodePart(m.Data); err == nil && p.Kind == fanout.Done {
				refusals <- p.Error
			}
		})
		if err == nil {
			err = x.conn.Flush(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if x.node.take(ctx, question(t, q), api.Reading, nil); i < maxFollows {
			got(t, began)
		} else if e := got(t, refusals); e == nil || e.Message != errBusy.Error() {
			t.Errorf("%+v", e)
		}
	}
	for range maxAnswers - maxFollows {
		x.node.take(ctx, question(t, fanout.Question{ID: rand.Text()}), api.Reading, nil)
		got(t, began)
	}
	for range maxWaits + 3 { // and none of them waits here
		x.node.take(ctx, question(t, fanout.Question{ID: rand.Text()}), api.Reading, nil)
	}
	if n := len(x.node.line); n != maxAnswers+maxWaits {
		t.Errorf("%d answers and questions", n)
	}
	cancel()
	for range maxAnswers {
		got(t, ended)
	}
}

// TestWindowsOfStrangers: words about sessions that don't answer leave nothing behind, however many there are.
func TestWindowsOfStrangers(t *testing.T) {
	x := newAttacker(t)
	began, _ := x.stuck()
	q := fanout.Question{ID: rand.Text(), Secret: "s"}
	x.node.take(t.Context(), question(t, q), api.Reading, nil)
	got(t, began)
	x.node.lock.Lock()
	a := x.node.running[q.ID]
	x.node.lock.Unlock()
	free := a.window("one")
	<-free
	for i := range 100 {
		for _, session := range []string{fmt.Sprint(i), "one", strings.Repeat("long", 1<<20)[:i<<10]} {
			text, err := json.Marshal(fanout.Flow{Session: session, Secret: "s", Taken: 1})
			if err != nil {
				t.Fatal(err)
			}
			x.node.flow(bus.Msg{Subject: bus.Flow("n1", q.ID), Data: text})
		}
	}
	if len(a.free) != 1 || len(free) != fanout.Window {
		t.Errorf("%d windows, %d chunks", len(a.free), len(free))
	}
}

// TestLargeQuestions: questions in line take so many bytes together, however few they are; small ones still pass.
func TestLargeQuestions(t *testing.T) {
	x := newAttacker(t)
	began, _ := x.stuck()
	large := fanout.Question{Secret: strings.Repeat("s", maxQuestion-1<<10)}
	for range maxAnswers {
		large.ID = rand.Text()
		x.node.take(t.Context(), question(t, large), api.Reading, nil)
	}
	if n := len(x.node.line); n != maxHeld/maxQuestion {
		t.Errorf("%d large questions in line", n)
	}
	for range maxHeld/maxQuestion + 1 {
		x.node.take(t.Context(), question(t, fanout.Question{ID: rand.Text()}), api.Reading, nil)
		got(t, began)
	}
}

// TestFewLines: questions that are refused again and again are logged ever more seldom, and all are counted.
func TestFewLines(t *testing.T) {
	var said bytes.Buffer
	d := newDesk("n1", slog.New(slog.NewTextHandler(&said, nil)))
	for range 1000 {
		d.take(t.Context(), bus.Msg{Data: []byte("none")}, api.Reading, nil)
	}
	if n := strings.Count(said.String(), "\n"); n != 10 || d.refused.Load() != 1000 {
		t.Errorf("%d lines of %d refusals", n, d.refused.Load())
	}
}

// TestPaceOfAnswers: whatever is asked, a node sends no more messages than it may: what it declines is not even said
// then, and answers wait.
func TestPaceOfAnswers(t *testing.T) {
	x := newAttacker(t)
	came := make(chan fanout.Part, 1024)
	stop, err := x.conn.Hear(bus.Answers("*", "*"), func(m bus.Msg) {
		if p, err := fanout.DecodePart(m.Data); err == nil {
			came <- p
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := x.conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.node.pace = rate.NewLimiter(rate.Every(time.Hour), 2)
	m := question(t, fanout.Question{ID: "x", Method: "POST", Path: "/v1/eval"})
	for range 100 {
		x.node.take(t.Context(), m, api.Reading, nil)
	}
	x.node.pace = rate.NewLimiter(1000, 1)
	for i := range 20 {
		x.node.reply(t.Context(), fanout.Question{ID: "x", Ear: "ear"}, fanout.Part{Kind: fanout.Body, Count: i})
	}
	for range 2 {
		if p := got(t, came); p.Kind != fanout.Done || p.Error == nil {
			t.Errorf("%+v", p)
		}
	}
	for i := range 20 {
		if p := got(t, came); p.Kind != fanout.Body || p.Count != i {
			t.Errorf("%+v, not the %d", p, i)
		}
	}
}
