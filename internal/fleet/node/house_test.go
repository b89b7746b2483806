package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/env"
)

// house is a hub with a lake, which can end and begin again.
type house struct {
	*hub.Hub
	t    *testing.T
	dir  string
	addr string
	stop func()
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	t.Cleanup(func() {
		if h.stop != nil {
			h.stop()
		}
	})
	return h
}

func (h *house) start() {
	h.t.Helper()
	w, err := lake.New(h.t.Context(), lake.Options{Location: h.lake(), Grace: 1, Linger: 1})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Hub, err = hub.Open(hub.Options{Dir: h.dir, Listen: h.addr, MaxDisk: 1 << 30, Keep: w, Lake: h.lake(),
		Gather: bus.Gather{Every: 20 * time.Millisecond, Bytes: 1 << 20}, JudgeEvery: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(h.t.Output(), nil))})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := h.Run(ctx); err != nil {
			h.t.Error(err)
		}
	})
	until(h.t, "the stream", func() bool { return h.Status(h.t.Context()).Room > 0 })
	h.stop = func() {
		cancel()
		run.Wait()
		h.Close()
		_ = w.Close()
		h.stop = nil
	}
}

func (h *house) lake() string  { return filepath.Join(h.dir, "lake") }
func (h *house) token() string { return hub.JoinToken(h.dir) }

// rows are how many there are in the lake, how many different ones, and the sum of their steps.
func (h *house) rows() string {
	h.t.Helper()
	tables, err := lake.Open(h.t.Context(), lake.Choice{Location: h.lake()})
	if err != nil {
		return err.Error()
	}
	defer tables.Close()
	var out bytes.Buffer
	err = tables.Query(h.t.Context(), api.QueryRequest{Format: "csv", SQL: "SELECT count(*), " +
		"count(DISTINCT (pid, step)), sum(step) FROM python.steps"}, &out)
	if err != nil {
		return err.Error()
	}
	_, body, _ := strings.Cut(out.String(), "\n")
	return strings.TrimSpace(body)
}

// machine is a node's: its home, its trainings, and the process that is the node.
type machine struct {
	t        *testing.T
	home     string
	settings node.Settings
	cmd      *exec.Cmd
	said     env.Buffer
}

func newMachine(t *testing.T, h *house, name string) *machine {
	m := &machine{t: t, home: t.TempDir(), settings: node.Settings{Join: h.addr, Token: h.token(), Name: name}}
	t.Cleanup(func() {
		if m.cmd != nil {
			m.kill()
		}
	})
	return m
}

func (m *machine) start() {
	m.t.Helper()
	text, err := json.Marshal(m.settings)
	if err != nil {
		m.t.Fatal(err)
	}
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), childKey+"="+string(text), "MEMGAUGE_HOME="+m.home)
	m.cmd.Stderr = &m.said
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) kill() {
	_ = m.cmd.Process.Signal(syscall.SIGKILL)
	_ = m.cmd.Wait()
	m.cmd = nil
}

// training is a session that lives in this process, which is its collector too.
type training struct {
	*session.Session
	t     *testing.T
	db    *store.DB
	pid   int32
	ranks int32
	step  int64
	end   func()
	hung  atomic.Bool
	over  chan struct{}
}

// hangs has the collector take questions and answer none.
func (x *training) hangs() { x.hung.Store(true) }

func (m *machine) train(pid, ranks int32, maxDisk int64) *training {
	m.t.Helper()
	return m.trainAs("llama", pid, ranks, maxDisk)
}

func (m *machine) trainAs(name string, pid, ranks int32, maxDisk int64) *training {
	m.t.Helper()
	m.t.Setenv("MEMGAUGE_HOME", m.home)
	s, err := session.Create(session.Options{Name: name})
	if err != nil {
		m.t.Fatal(err)
	}
	x := &training{Session: s, t: m.t, pid: pid, ranks: ranks, over: make(chan struct{})}
	lock, err := s.Lock(m.t.Context(), true)
	if err != nil {
		m.t.Fatal(err)
	}
	x.db, err = store.Open(m.t.Context(), store.Options{Path: s.Database(), Threads: 1, MaxDisk: maxDisk})
	if err != nil {
		m.t.Fatal(err)
	}
	l, err := sock.Listen(s.Socket())
	if err != nil {
		m.t.Fatal(err)
	}
	svc := &service.Service{Job: service.Job{S: s}, Open: service.Opened(x.db)}
	handler := api.Handler(svc, api.Owner, func() {})
	server := api.Server(context.Background(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if x.hung.Load() {
			<-x.over
			return
		}
		handler.ServeHTTP(w, r)
	}))
	var serve sync.WaitGroup
	serve.Go(func() { _ = server.Serve(l) })
	x.end = sync.OnceFunc(func() {
		if err := s.SetEnd(session.End{State: "exited"}); err != nil {
			m.t.Error(err)
		}
		close(x.over)
		_ = server.Close()
		serve.Wait()
		if err := x.db.Close(); err != nil {
			m.t.Error(err)
		}
		lock.Release()
	})
	m.t.Cleanup(x.end)
	return x
}

// makes stores n steps.
func (x *training) makes(n int) {
	x.t.Helper()
	b := model.Batch{}
	for range n {
		x.step++
		b.Steps = append(b.Steps, model.Step{Time: time.Now().UnixMicro() + int64(len(b.Steps)), PID: x.pid,
			Rank: int32(x.step) % x.ranks, Step: x.step, Steps: 1, Sampled: true, Allocated: rand.Int64N(1 << 40),
			Reserved: rand.Int64N(1 << 40)})
	}
	if err := x.db.Append(x.t.Context(), &b); err != nil {
		x.t.Fatal(err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) { // a condition of other processes
		if time.Now().After(end) {
			t.Fatal("no end to waiting for ", what)
		}
	}
}
