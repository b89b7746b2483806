package node

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

const (
	maxQuestion  = bus.MaxMessage
	maxHeld      = 4 * maxQuestion  // bytes of all questions in line: those of people have some KiB
	maxFlow      = 4 << 10          // bytes of a word about an answer: a session's id, a secret and a number
	readPatience = 30 * time.Second // for the asking side to read on
	signOfLife   = 10 * time.Second // between empty parts while an answer is being made
	answerTime   = time.Hour        // after which an answer is called off
)

// answer is a question that is being answered.
type answer struct {
	rights api.Rights // of whoever asks
	secret string     // of the question: who knows it may call the answer off
	cancel context.CancelCauseFunc
	heard  func() // notes that the asking side is there
	mu     sync.Mutex
	free   map[string]chan struct{} // by session: chunks that may be sent
}

// window is the session's share.
func (a *answer) window(session string) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.free[session] == nil {
		a.free[session] = make(chan struct{}, fanout.Window)
		for range fanout.Window {
			a.free[session] <- struct{}{}
		}
	}
	return a.free[session]
}

// taken notes that the asking side has read chunks of a session's answer. A session that has sent none has no window,
// and gets none for the word of a stranger.
func (a *answer) taken(session string, chunks int) {
	a.mu.Lock()
	free := a.free[session]
	a.mu.Unlock()
	for range min(chunks, fanout.Window) {
		select {
		case free <- struct{}{}:
		default: // more than was sent
		}
	}
}

// desk takes questions in one name, and sends their answers.
type desk struct {
	conn     *bus.Conn
	name     string
	instance string
	log      *slog.Logger
	caught   *api.Catcher
	work     func(ctx context.Context, q fanout.Question, a *answer)

	refused   atomic.Int64 // questions that would change something, or read what is no table
	onRefusal func()       // nil: nobody else counts them

	answers sync.WaitGroup
	room    chan struct{} // answers at a time
	follows chan struct{} // those without an end
	line    chan struct{} // answers, and questions that wait for room
	pace    *rate.Limiter // of messages; nil for none
	silence time.Duration // after which an asking side that says nothing is gone
	held    atomic.Int64  // bytes of the questions in line
	lock    sync.Mutex
	running map[string]*answer // by the question's id
}

func newDesk(name string, log *slog.Logger) desk {
	return desk{name: name, log: log, caught: api.NewCatcher(log), instance: rand.Text(), running: map[string]*answer{},
		room: make(chan struct{}, maxAnswers), follows: make(chan struct{}, maxFollows),
		line: make(chan struct{}, maxAnswers+maxWaits), silence: readPatience}
}

// hear subscribes to questions, and to how far the asking sides have read. The subject on which a question comes says
// what its sender may do: the bus lets only some send there.
func (n *desk) hear(ctx context.Context, subjects map[string]api.Rights) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	hears := map[string]func(bus.Msg){bus.Flows(n.name): n.flow}
	for subject, rights := range subjects {
		hears[subject] = func(m bus.Msg) { n.take(ctx, m, rights, nil) }
	}
	for subject, take := range hears {
		s, err := n.conn.Hear(subject, take)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// take answers a question in the background, of who has these seats. It never waits: what is beyond the room and its
// line is refused.
func (n *desk) take(ctx context.Context, m bus.Msg, rights api.Rights, of *seats) {
	var q fanout.Question
	none := len(m.Data) > maxQuestion || json.Unmarshal(m.Data, &q) != nil || bus.CheckID(q.ID) != nil
	if of != nil { // the hub may speak everywhere
		q.Ear = of.ear
	}
	if none || bus.CheckID(q.Ear) != nil {
		n.refuse("what is none")
		return
	}
	needs, err := q.Needs()
	if err == nil && !rights.Has(needs) {
		err = errRight
	}
	if err != nil && !errors.Is(err, api.ErrUnknown) { // each session answers what it does not know
		n.refuse(q.Path)
		n.decline(q, err)
		return
	}
	size := int64(len(m.Data))
	if !n.admit(size, of) {
		n.decline(q, errBusy)
		return
	}
	a := &answer{rights: rights, secret: q.Secret, free: map[string]chan struct{}{}}
	ctx, a.cancel = context.WithCancelCause(ctx)
	gone := time.AfterFunc(n.silence, func() { a.cancel(errGone) })
	a.heard = func() { gone.Reset(n.silence) }
	if !n.begin(q.ID, a) {
		gone.Stop()
		a.cancel(nil)
		n.refuse("one that is answered already") // its sender would speak about another's
		n.letGo(size, of)
		return
	}
	n.answers.Go(func() {
		defer n.letGo(size, of)
		defer n.end(q.ID)
		defer gone.Stop()
		defer a.cancel(nil)
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		leave, err := n.enter(ctx, q, of)
		if err != nil {
			n.reply(ctx, q, fanout.Part{Kind: fanout.Done, Error: api.Pack(err)})
			return
		}
		defer leave()
		n.work(ctx, q, a)
	})
}

// admit takes a question of so many bytes into the line, if there is room.
func (n *desk) admit(size int64, of *seats) bool {
	if !of.queue() {
		return false
	}
	if n.held.Add(size) > maxHeld {
		n.held.Add(-size)
		of.leave()
		return false
	}
	select {
	case n.line <- struct{}{}:
		return true
	default:
		n.held.Add(-size)
		of.leave()
		return false
	}
}

// letGo takes it out again.
func (n *desk) letGo(size int64, of *seats) {
	n.held.Add(-size)
	of.leave()
	<-n.line
}

func (n *desk) begin(id string, a *answer) bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.running[id] != nil {
		return false
	}
	n.running[id] = a
	return true
}

func (n *desk) end(id string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	delete(n.running, id)
}

// enter waits for a seat and for room to answer.
func (n *desk) enter(ctx context.Context, q fanout.Question, of *seats) (leave func(), err error) {
	rise, err := of.sit(ctx)
	if err != nil {
		return nil, err
	}
	leave = rise
	if q.Follows() {
		select {
		case n.follows <- struct{}{}:
			leave = func() { <-n.follows; rise() }
		default:
			rise()
			return nil, errBusy
		}
	}
	late := time.NewTimer(lineTime)
	defer late.Stop()
	select {
	case n.room <- struct{}{}:
		follows := leave
		return func() { <-n.room; follows() }, nil
	case <-late.C:
		leave()
		return nil, errBusy
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("answer: %w", context.Cause(ctx))
	}
}

var (
	errBusy = remedy.Add(errors.New("as many questions are answered there as may be at a time"), "ask again later")
	errGone = errors.New("nobody reads the answer")
)

// refuse counts a question that was refused, and says so.
func (n *desk) refuse(path string) {
	count := n.refused.Add(1)
	if n.onRefusal != nil {
		n.onRefusal()
	}
	if bus.Seldom(count) {
		n.log.Warn("refused a question", "of", path[:min(len(path), 100)], "so far", count) // any text may stand there
	}
}

var errRight = remedy.Add(fmt.Errorf("the question needs a right that its sender does not have: %w", api.ErrForbidden),
	"what changes a training is allowed on both sides: memgauge hub --allow eval, and on that machine --allow eval")

// flow hears how far the asking side has read.
func (n *desk) flow(m bus.Msg) {
	var f fanout.Flow
	if len(m.Data) > maxFlow || json.Unmarshal(m.Data, &f) != nil {
		return
	}
	n.lock.Lock()
	a := n.running[bus.FlowOf(m.Subject)]
	n.lock.Unlock()
	switch {
	case a == nil || subtle.ConstantTimeCompare([]byte(a.secret), []byte(f.Secret)) == 0: // others hear of its id
	case f.Cancel:
		a.cancel(nil)
	default:
		a.heard()
		a.taken(f.Session, f.Taken)
	}
}

// answer asks each session that the question is for.
func (n *Node) answer(ctx context.Context, q fanout.Question, a *answer) {
	if q.Path == fanout.MachinePath {
		n.answerMachine(ctx, q, a)
		return
	}
	list, targets := n.sessions.selected(ctx, q.Select)
	var all sync.WaitGroup
	for i := range list {
		n.reply(ctx, q, fanout.Part{Kind: fanout.Head, ID: list[i].About.ID, Session: &list[i]})
		if q.Path == "" {
			continue
		}
		all.Go(func() { n.answerOne(ctx, q, a, list[i], targets[i]) })
	}
	all.Wait()
	n.reply(ctx, q, fanout.Part{Kind: fanout.Done, Count: len(list)})
}

// answerOne has the session's own handler answer.
func (n *Node) answerOne(ctx context.Context, q fanout.Question, a *answer, s fanout.Session, t ask.Target) {
	w := n.writer(ctx, q, a, s.About.ID)
	stop := w.live()
	defer stop()
	if leave, err := n.sessions.room(ctx, s.About.Live); err != nil {
		api.Fail(w, err)
	} else {
		n.handle(ctx, q, w, n.evals.Handler(n.sessions.open(t, a.rights), a.rights, nil))
		leave()
	}
	w.finish()
	if !s.About.Live {
		n.sessions.forget(t.Dir())
	}
}

// handle has a handler answer the request that a question carries.
func (n *desk) handle(ctx context.Context, q fanout.Question, w http.ResponseWriter, h http.Handler) {
	r, err := api.NewRequest(ctx, q.Method, q.Path, q.Body)
	if err != nil { // take has let it pass: it is one of another version
		http.Error(w, "no such question", http.StatusNotFound)
		return
	}
	n.caught.Wrap(h).ServeHTTP(w, r)
}

// answerMachine tells what is watched of the machine itself; nothing where nobody watches it.
func (n *Node) answerMachine(ctx context.Context, q fanout.Question, a *answer) {
	count := 0
	if n.o.Machine != nil {
		count = 1
		s := fanout.MachineOf(n.o.Name)
		n.reply(ctx, q, fanout.Part{Kind: fanout.Head, ID: s.About.ID, Session: &s})
		w := n.writer(ctx, q, a, s.About.ID)
		_, _ = w.Write(n.o.Machine())
		w.finish()
	}
	n.reply(ctx, q, fanout.Part{Kind: fanout.Done, Count: count})
}

// reply sends a part; whoever asked may be gone.
// It waits until the message may go; of an answer that is over already, it goes at once or not at all.
func (n *desk) reply(ctx context.Context, q fanout.Question, p fanout.Part) {
	if n.pace == nil || n.pace.Wait(ctx) == nil || n.pace.Allow() {
		n.post(q, p)
	}
}

// decline says that a question is not answered, without waiting. Where so many are declined that this would be too many
// messages, those who ask get no answer.
func (n *desk) decline(q fanout.Question, why error) {
	if n.pace == nil || n.pace.Allow() {
		n.post(q, fanout.Part{Kind: fanout.Done, Error: api.Pack(why)})
	}
}

func (n *desk) post(q fanout.Question, p fanout.Part) {
	p.Instance = n.instance
	b, err := p.Encode()
	if err == nil {
		err = n.conn.Send(bus.Answer(n.name, q.Ear, q.ID), "", b)
	}
	if err != nil {
		n.log.Debug("answer", "error", err)
	}
}

// writer is an http.ResponseWriter that sends an answer in parts, as fast as they are read.
type writer struct {
	n       *desk
	q       fanout.Question
	ctx     context.Context
	session string
	free    chan struct{}
	header  http.Header
	buf     []byte
	begun   bool
	failed  error

	sending sync.Mutex // signs of life come from another goroutine
}

// writer begins the answer of a session.
func (n *desk) writer(ctx context.Context, q fanout.Question, a *answer, session string) *writer {
	return &writer{n: n, q: q, ctx: ctx, session: session, free: a.window(session), header: http.Header{}}
}

// Header is the answer's.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader begins the answer.
func (w *writer) WriteHeader(status int) {
	if w.begun {
		return
	}
	w.begun = true
	if status == http.StatusForbidden {
		w.n.refuse(w.q.Path)
	}
	w.send(fanout.Part{Kind: fanout.Head, Status: status, Header: w.header.Clone()})
}

// Write sends what fills a chunk.
func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.buf = append(w.buf, b...)
	for len(w.buf) >= fanout.Chunk && w.failed == nil {
		w.chunk(w.buf[:fanout.Chunk])
		w.buf = w.buf[fanout.Chunk:]
	}
	return len(b), w.failed
}

// Flush sends what there is.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is Flush, as http.ResponseController wants it.
func (w *writer) FlushError() error {
	if len(w.buf) > 0 && w.failed == nil {
		w.chunk(w.buf)
		w.buf = nil
	}
	return w.failed
}

// chunk waits until it may be sent.
func (w *writer) chunk(b []byte) {
	late := time.NewTimer(readPatience)
	defer late.Stop()
	select {
	case <-w.free:
		w.send(fanout.Part{Kind: fanout.Body, Data: b})
	case <-late.C:
		w.failed = errGone
	case <-w.ctx.Done():
		w.failed = fmt.Errorf("answer: %w", context.Cause(w.ctx))
	}
}

func (w *writer) send(p fanout.Part) {
	w.sending.Lock()
	defer w.sending.Unlock()
	p.ID = w.session
	w.n.reply(w.ctx, w.q, p)
}

// live sends an empty part now and then, until stop.
func (w *writer) live() (stop func()) {
	tick := time.NewTicker(signOfLife)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				w.send(fanout.Part{Kind: fanout.Body})
			}
		}
	}()
	return func() { tick.Stop(); close(over); <-ended }
}

// finish sends the rest, and the headers that came behind the body.
func (w *writer) finish() {
	w.WriteHeader(http.StatusOK)
	_ = w.FlushError()
	trailer := http.Header{}
	for _, name := range w.header.Values("Trailer") {
		trailer[name] = w.header.Values(name)
	}
	w.send(fanout.Part{Kind: fanout.Tail, Header: trailer})
}
