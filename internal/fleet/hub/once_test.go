package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/outbox"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/env"
)

// hubChild is set in the environment of a child that is a hub with a lake, until it is killed.
const hubChild = "HUB_TEST_CHILD"

// runChild runs a hub in dir, at the address that stands in the variable behind the directory.
func runChild(child string) error {
	dir, addr, _ := strings.Cut(child, "=")
	w, err := lake.New(context.Background(), lake.Options{Location: filepath.Join(dir, "lake"), Grace: 1, Linger: 1})
	if err != nil {
		return err
	}
	h, err := Open(Options{Dir: dir, Listen: addr, MaxDisk: 1 << 30, Keep: w, Lake: "lake",
		Gather: bus.Gather{Every: 50 * time.Millisecond, Bytes: 1 << 20},
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	go w.Tidy(context.Background(), h.Tidied)
	return h.Run(context.Background())
}

// child is a hub in a process of its own.
type child struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
	said words
}

// words are what children have written, while the last goes on.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *words) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *words) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// has says whether a text came since the last child was started.
func (s *words) has(text string) bool {
	all := s.String()
	return strings.Contains(all[strings.LastIndex(all, childBegins)+1:], text)
}

// childBegins stands before what each child says.
const childBegins = "\n--- the next hub\n"

func (c *child) start() {
	c.t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), hubChild+"="+c.dir+"="+c.addr)
	fmt.Fprint(&c.said, childBegins)
	c.cmd.Stderr = &c.said
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	_ = c.cmd.Wait()
}

// wire passes connections on to an address, unless it is cut.
type wire struct {
	net.Listener
	to  string
	cut atomic.Bool
	all sync.WaitGroup
	mu  sync.Mutex
	now map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: to, now: map[net.Conn]bool{}}
	w.all.Go(w.serve)
	t.Cleanup(func() { w.Listener.Close(); w.sever(true); w.all.Wait() })
	return w
}

func (w *wire) serve() {
	for {
		in, err := w.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil || w.cut.Load() {
			in.Close()
			if err == nil {
				out.Close()
			}
			continue
		}
		w.mu.Lock()
		w.now[in], w.now[out] = true, true
		w.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			w.all.Go(func() {
				// not as TCP connections: between those Go keeps pipes for splice(2), for the next garbage collection
				_, _ = io.Copy(struct{ io.Writer }{pair[0]}, struct{ io.Reader }{pair[1]})
				pair[0].Close()
				pair[1].Close()
			})
		}
	}
}

// sever cuts the wire, or lets it be whole again.
func (w *wire) sever(cut bool) {
	w.cut.Store(cut)
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.now {
		c.Close()
		delete(w.now, c)
	}
}

// session is rows of a node that are stored and shipped; the node dies now and then.
type session struct {
	t       *testing.T
	conn    *bus.Conn
	dir     string
	node    string
	id      string
	ahead   time.Duration // of its clock
	ranks   int32
	step    int64
	shipped atomic.Int64
	refused atomic.Int64
}

var clock = time.Date(2026, 1, 1, 10, 50, 0, 0, time.UTC)

func (s *session) store(db *store.DB) {
	b := model.Batch{}
	for range 1 + rand.N(200) {
		s.step++
		at := clock.Add(s.ahead + time.Duration(s.step)*time.Second)
		b.Steps = append(b.Steps, model.Step{Time: at.UnixMicro(), PID: 1, Rank: int32(s.step) % s.ranks,
			Step: s.step, Steps: 1})
	}
	if err := db.Append(s.t.Context(), &b); err != nil {
		s.t.Error(err)
	}
}

// live stores and ships until over, and then what is left.
func (s *session) live(over <-chan struct{}) {
	db, err := store.Open(s.t.Context(), store.Options{Path: filepath.Join(s.dir, "session.duckdb"), Threads: 1})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer db.Close()
	for last := false; ; {
		select {
		case <-over:
			last = true
		default:
			s.store(db)
		}
		more, err := s.ship(db)
		if err == nil && last && !more {
			return
		}
		if s.t.Context().Err() != nil {
			return
		}
	}
}

// ship is what a node does in a round; each time it is another process.
func (s *session) ship(db *store.DB) (more bool, err error) {
	box, err := outbox.Open(s.dir, s.id, "llama", s.node)
	if err != nil {
		s.t.Error(err)
		return false, err
	}
	defer box.Close()
	send := func(ctx context.Context, data []byte) error {
		err := s.conn.Ship(ctx, data)
		if err != nil {
			s.refused.Add(1)
		} else {
			s.shipped.Add(1)
			if rand.N(20) == 0 {
				return errors.New("the node dies before it knows")
			}
		}
		return err
	}
	if err := box.Send(s.t.Context(), send); err != nil {
		return true, err
	}
	if more, err = box.Gather(s.t.Context(), &service.Service{Open: service.Opened(db)}); err != nil {
		s.t.Error(err)
	}
	return more || box.Waits(), err
}

// TestRowsReachTheLakeOnce: nodes store and ship while the hub, and the lake's writer in it, is killed again and again,
// the connection is cut, and nodes die with what they know. Clocks
// are 20 minutes apart, and one job's second session has another number of ranks. Every row is in the lake once.
func TestRowsReachTheLakeOnce(t *testing.T) {
	kills := env.Times(3, 20)
	c := &child{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	c.start()
	defer func() { c.kill() }()
	w := newWire(t, c.addr)
	var join bus.Token
	var err error
	until(t, "the token", func() bool { join, err = bus.ReadToken(JoinToken(c.dir), false); return err == nil })
	list := []*session{{id: "s1", node: "n1", ranks: 4}, {id: "s2", node: "n2", ranks: 4, ahead: 10 * time.Minute},
		{id: "s3", node: "n2", ranks: 3, ahead: -10 * time.Minute}}
	over := make(chan struct{})
	var all sync.WaitGroup
	for _, s := range list {
		s.t, s.dir = t, t.TempDir()
		s.conn, err = bus.Dial(bus.DialOptions{URL: w.Addr().String(), Token: join, Node: s.node, Patient: true,
			Key: filepath.Join(c.dir, s.node+".key")})
		if err != nil {
			t.Fatal(err)
		}
		defer s.conn.Close()
		all.Go(func() { s.live(over) })
	}
	shipped := func() (n int64) {
		for _, s := range list {
			n += s.shipped.Load()
		}
		return n
	}
	for i := range kills {
		have := shipped()
		until(t, "frames to be shipped", func() bool { return shipped() > have+rand.Int64N(40) })
		if i%2 == 1 {
			w.sever(true)
		}
		c.kill()
		c.start()
		w.sever(false)
	}
	close(over)
	all.Wait()
	rows, sum := int64(0), int64(0)
	for _, s := range list {
		rows, sum = rows+s.step, sum+s.step*(s.step+1)/2
	}
	want, got := fmt.Sprintf("%d,%d,%d", rows, rows, sum), ""
	until(t, "all rows in the lake", func() bool {
		got = inLake(t, filepath.Join(c.dir, "lake"))
		return strings.HasPrefix(got, strconv.FormatInt(rows, 10)+",")
	})
	if got != want {
		t.Errorf("the lake has %s, want %s\n%s", got, want, c.said.String())
	}
	t.Logf("%d rows, %d frames, %d kills", rows, shipped(), kills)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) { // a condition of other processes
		if time.Now().After(end) {
			t.Fatal("no end to waiting for ", what)
		}
	}
}

// inLake is how many rows there are, how many different ones, and the sum of their steps.
func inLake(t *testing.T, where string) string {
	t.Helper()
	tables, err := lake.Open(t.Context(), lake.Choice{Location: where})
	if err != nil {
		return err.Error()
	}
	defer tables.Close()
	var out bytes.Buffer
	err = tables.Query(t.Context(), api.QueryRequest{Format: "csv", SQL: "SELECT count(*), " +
		"count(DISTINCT (node, ts, step)), sum(step) FROM python.steps"}, &out)
	if err != nil {
		return err.Error()
	}
	_, body, _ := strings.Cut(out.String(), "\n")
	return strings.TrimSpace(body)
}

// TestFullDisk: when the hub's disk is full, frames are refused and nothing that was taken is lost; when there is room
// again, they are taken.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "80m")
	h, stop := running(t, Options{Dir: dir, Keep: kept{make(chan frame.Header, 64)}})
	defer stop()
	c := dial(t, h, "n1")
	hello(t, c, "n1", "a", false)
	if err := ship(t, c, batch(t, "n1", "n1", 1)); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	n := 1
	until(t, "a refusal", func() bool {
		n++
		return c.Ship(t.Context(), batch(t, "n1", "n1", uint64(n))) != nil
	})
	text, _ := json.Marshal(h.Status(t.Context()))
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "room again", func() bool {
		return c.Ship(t.Context(), batch(t, "n1", "n1", uint64(n))) == nil
	})
	until(t, "all rows at the keeper", func() bool { return h.Status(t.Context()).Rows >= int64(n) })
	if rows := h.Status(t.Context()).Rows; rows != int64(n) {
		t.Errorf("%d rows were kept of %d; %s", rows, n, text)
	}
}

// TestWholeHubOnAFullDisk: a hub whose disk runs full while nodes ship, with the lake on it, goes on, starts again on
// that full disk and says what is missing; when there is room every row is in the lake once.
func TestWholeHubOnAFullDisk(t *testing.T) {
	env.Long(t, "a hub looks at its disk every 5 s, and nodes wait between attempts: 20 s a round")
	c := &child{t: t, dir: smallDisk(t, "120m"), addr: freeAddr(t)}
	c.start()
	defer func() {
		if c.kill(); t.Failed() {
			t.Log(c.said.String())
		}
	}()
	var join bus.Token
	var err error
	until(t, "the token", func() bool { join, err = bus.ReadToken(JoinToken(c.dir), false); return err == nil })
	s := &session{t: t, id: "s1", node: "n1", ranks: 4, dir: t.TempDir()}
	s.conn, err = bus.Dial(bus.DialOptions{URL: c.addr, Token: join, Node: s.node, Patient: true,
		Key: filepath.Join(t.TempDir(), "n1.key")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.conn.Close()
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { s.live(over) })
	for range env.Times(1, 5) {
		have := s.shipped.Load()
		until(t, "frames to be shipped", func() bool { return s.shipped.Load() > have+20 })
		ballast := filepath.Join(c.dir, "ballast")
		fill(t, ballast)
		refused := s.refused.Load()
		until(t, "a refusal", func() bool { return s.refused.Load() > refused })
		c.kill()
		fill(t, ballast+"2") // what the hub has let go of
		c.start()
		until(t, "a hub that is there, and says what is missing", func() bool {
			return c.said.has("no space left on device") && s.conn.Up()
		})
		for _, name := range []string{ballast, ballast + "2"} {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(over)
	all.Wait()
	want, got := fmt.Sprintf("%d,%d,%d", s.step, s.step, s.step*(s.step+1)/2), ""
	until(t, "all rows in the lake", func() bool {
		got = inLake(t, filepath.Join(c.dir, "lake"))
		return strings.HasPrefix(got, strconv.FormatInt(s.step, 10)+",")
	})
	if got != want {
		t.Errorf("the lake has %s, want %s\n%s", got, want, c.said.String())
	}
}

// TestStartsOnAFullDisk: a hub whose disk is full is there, for questions and for its nodes, and says what is missing.
func TestStartsOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "80m")
	o := Options{Dir: dir, Keep: kept{make(chan frame.Header, 64)}}
	h, stop := running(t, o)
	c := dial(t, h, "n1")
	hello(t, c, "n1", "a", false)
	if err := ship(t, c, batch(t, "n1", "n1", 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	h, stop = running(t, o)
	defer stop()
	c = dial(t, h, "n1")
	hello(t, c, "n1", "a", false)
	if s := h.Status(t.Context()); s.Up != 1 || len(s.Trouble) == 0 {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "room", func() bool { return c.Ship(t.Context(), batch(t, "n1", "n1", 2)) == nil })
	until(t, "where it is", func() bool {
		f, err := Find(dir)
		return err == nil && f.Addr == h.Identity.Addr
	})
}

// smallDisk is a directory with a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	env.Root(t)
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		env.Missing(t, "root", fmt.Errorf("a small file system: %w", err))
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// freeAddr is an address that nobody listens at.
func freeAddr(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", env.FreePort(t))
}

// fill takes all room of a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}
