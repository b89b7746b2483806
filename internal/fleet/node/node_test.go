package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/env"
)

// all is what the lake has when it has every row of the trainings once.
func all(list ...*training) string {
	rows, sum := int64(0), int64(0)
	for _, x := range list {
		rows, sum = rows+x.step, sum+x.step*(x.step+1)/2
	}
	return fmt.Sprintf("%d,%d,%d", rows, rows, sum)
}

// has waits for the lake to have all rows, and wants each of them once.
func (h *house) has(list ...*training) {
	h.t.Helper()
	want, got := all(list...), ""
	count, _, _ := strings.Cut(want, ",")
	until(h.t, "all rows in the lake: "+want, func() bool {
		got = h.rows()
		return strings.HasPrefix(got, count+",")
	})
	if got != want {
		h.t.Errorf("the lake has %s, want %s", got, want)
	}
}

// kills is how often something is killed.
func kills() int { return env.Times(3, 20) }

// TestKilled: a node's process is killed at any moment, while its training goes on and its ranks are restarted with
// another world size. Every row is in the lake once.
func TestKilled(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x := m.train(1, 4, 0)
	for i := range kills() {
		if i == kills()/2 {
			x.ranks = 3
		}
		m.start()
		for end := time.Now().Add(rand.N(time.Second)); time.Now().Before(end); {
			x.makes(1 + rand.N(500))
		}
		m.kill()
	}
	x.makes(100)
	m.start()
	h.has(x)
	x.makes(100)
	x.end()
	h.has(x)
	t.Logf("%d rows, %d kills", x.step, kills())
}

// TestHubAway: a node that finds no hub works on and catches up later, and again after the hub was away. A session that
// ended meanwhile, and one that ended while no node ran, are sent too.
func TestHubAway(t *testing.T) {
	h := newHouse(t)
	h.start() // for its token
	m := newMachine(t, h, "n1")
	x := m.train(1, 4, 0)
	m.start()
	x.makes(10)
	h.has(x)
	h.stop()
	x.makes(2000)
	y := m.train(2, 2, 0)
	y.makes(300)
	y.end()
	m.kill()
	m.start() // before there is a hub
	until(t, "a word about it", func() bool { return strings.Contains(m.said.String(), "not connected to the hub") })
	h.start()
	h.has(x, y)
	until(t, "the hub to know that nothing waits", func() bool {
		s := h.Status(t.Context())
		return len(s.Nodes) == 1 && s.Nodes[0].Up && s.Nodes[0].Waits == 0 && len(s.Lost) == 0
	})
}

// TestBacklog: what waits for a hub is bounded by the session's own --max-disk. What is given up before it was sent is
// counted, and the hub tells.
func TestBacklog(t *testing.T) {
	const maxDisk = 6 << 20
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x := m.train(1, 4, maxDisk)
	x.makes(1000)
	m.start()
	h.has(x)
	h.stop()
	for gone := int64(0); gone == 0; {
		x.makes(5000)
		if err := x.db.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		rep, err := x.db.Maintain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gone = rep.Thinned + rep.Merged + rep.Freed
	}
	// While the node reads, what is given up stays beside what is written anew: of so small a file that is a quarter.
	if info, err := os.Stat(x.Database()); err != nil || info.Size() > maxDisk*3/2 {
		t.Errorf("the session takes %v, %v", info.Size(), err)
	}
	h.start()
	var lost int64
	until(t, "the hub to tell what is lost", func() bool {
		s := h.Status(t.Context())
		lost = s.Lost["disk limit of the session"]
		return lost > 0 && s.Nodes[0].Waits == 0 && s.Waiting.Frames == 0
	})
	count, distinct := int64(0), int64(0)
	if _, err := fmt.Sscanf(h.rows(), "%d,%d", &count, &distinct); err != nil {
		t.Fatal(err)
	}
	if count != distinct || count+lost < x.step || count == x.step {
		t.Errorf("%d rows were made, %d are in the lake, %d of them different, %d are told to be lost at most", x.step,
			count, distinct, lost)
	}
}

// TestHungSession: a session whose collector takes questions and answers none keeps no other session's rows waiting,
// and the hub is told of it.
func TestHungSession(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x, y := m.train(1, 4, 0), m.train(2, 4, 0)
	x.makes(10)
	y.makes(20)
	x.hangs()
	m.start()
	h.has(y)
	y.makes(20)
	h.has(y)
	until(t, "a word of it", func() bool {
		s := h.Status(t.Context())
		return len(s.Nodes) == 1 && strings.Contains(s.Nodes[0].Trouble, "does not answer") && s.Nodes[0].Waits == 1
	})
}

// TestHubLost: a hub whose directory is lost, and its lake in it, gets all rows again from nodes that are given its new
// token, those of sessions that are over too.
func TestHubLost(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x, y := m.train(1, 4, 0), m.train(2, 4, 0)
	x.makes(300)
	y.makes(200)
	m.start()
	h.has(x, y)
	y.end()
	until(t, "the end of a session to be known", func() bool { return exists(filepath.Join(y.Dir, "end.json")) })
	m.kill()
	h.stop()
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.start()
	x.makes(100)
	m.start()
	h.has(x, y)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestOneJob: a job on two machines, whose sessions have names of their own, is one job in the lake.
func TestOneJob(t *testing.T) {
	h := newHouse(t)
	h.start()
	var list []*training
	for i, name := range []string{"n1", "n2"} {
		m := newMachine(t, h, name)
		x := m.trainAs("run-on-"+name, int32(i+1), 4, 0)
		env := map[string]string{"RANK": strconv.Itoa(4 * i), "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4",
			"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400"}
		b := model.Batch{}
		for name, value := range env {
			b.Samples.Envs = append(b.Samples.Envs, model.Env{Time: 1, PID: x.pid, Name: name, Value: value})
		}
		if err := x.db.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		x.makes(50)
		m.start()
		list = append(list, x)
	}
	h.has(list...)
	jobs, err := lake.StatusOf(t.Context(), h.lake())
	if err != nil || len(jobs) != 1 || jobs[0].Job != "job-10.0.0.1-29400" {
		t.Errorf("%+v, %v", jobs, err)
	}
}

// TestJudgedByTheHub: of the sessions of real nodes the hub itself names the rank that leaks, by what they send, with
// what its own session says of it; one that is started anew leaves the job to the sessions.
func TestJudgedByTheHub(t *testing.T) {
	h := newHouse(t)
	h.start()
	for i, name := range []string{"n1", "n2"} {
		m := newMachine(t, h, name)
		x := m.train(int32(i+1), 4, 0)
		b := model.Batch{Findings: []model.Finding{{Time: 1, Judgement: 1, Run: "healthy", Verdict: "healthy",
			Memory: "device", Device: "cuda:0", Rank: model.Rank(4 * i)}}}
		for step := range int64(200) {
			for rank := range int32(4) {
				row := model.Step{Time: (step + 1) * 1e6, PID: 10 + rank, Rank: int32(4*i) + rank, Step: step + 1,
					Steps: 1, Allocated: 1 << 30}
				if row.Rank == 6 {
					row.Allocated += step << 20
				}
				b.Steps = append(b.Steps, row)
			}
		}
		if i == 1 {
			leak := &b.Findings[0]
			leak.Run, leak.Verdict, leak.Rank, leak.PID, leak.Rate, leak.Unit = "leak", "leak", 6, 12, 1<<20, "step"
			leak.Site, leak.Holder = "ranks.py:27", "__main__.all_losses"
		}
		if err := x.db.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		m.start()
	}
	var j hub.Judgement
	defer func() {
		if t.Failed() {
			text, _ := json.Marshal(j)
			t.Logf("the last answer: %.4000s", text)
		}
	}()
	until(t, "the verdict", func() bool {
		j = h.judgement(t)
		return len(j.Jobs) == 1 && len(j.Lacking) == 0 && j.Jobs[0].Skew.Ranks == 8 &&
			strings.Contains(j.Jobs[0].Text, "Rank 6 on n2 grows by ") &&
			strings.Contains(j.Jobs[0].Text, "held by __main__.all_losses; created at ranks.py:27")
	})
	h.stop()
	h.start()
	until(t, "the nodes at the next hub", func() bool {
		j = h.judgement(t)
		return len(j.Jobs) == 0 && len(j.Lacking) == 1 && len(j.Missing) == 0
	})
}

// judgement asks the hub as a command does.
func (h *house) judgement(t *testing.T) hub.Judgement {
	t.Helper()
	conn, err := bus.Dial(bus.DialOptions{URL: h.addr, Token: h.Identity.Ask})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b, err := conn.Request(t.Context(), bus.Hub(conn.Place(), "leak"), nil)
	var j hub.Judgement
	if err == nil {
		err = json.Unmarshal(b, &j)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return j
}

// TestTakenOver: where the process that answered for one session is gone, the next one goes on for the same hub, in the
// same name, without being told anything; for a session that no hub knew there is nothing to do.
func TestTakenOver(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x, y := m.train(1, 4, 0), m.train(2, 4, 0)
	x.makes(10)
	o, err := m.settings.Options(m.home, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	during := func(what func(context.Context) error, ok func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- what(ctx) }()
		ok()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	during(func(ctx context.Context) error { return node.Attend(ctx, x.Dir, o) }, func() { h.has(x) })
	x.makes(20)
	during(func(ctx context.Context) error { return node.TakeOver(ctx, x.Dir, m.home, "", o.Log) }, func() { h.has(x) })
	if err := node.TakeOver(t.Context(), y.Dir, m.home, "", o.Log); err != nil {
		t.Error(err)
	}
}

// run runs a node in this process until it ends by itself, or the test.
func run(t *testing.T, s node.Settings, log *env.Buffer) <-chan error {
	t.Helper()
	o, err := s.Options(t.TempDir(), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	ctx, cancel := context.WithCancel(context.Background())
	done, over := make(chan error, 1), make(chan struct{})
	go func() { defer close(over); done <- node.Run(ctx, o) }()
	t.Cleanup(func() { cancel(); <-over })
	return done
}

// forge writes a token like the hub's with another secret or pin.
func forge(t *testing.T, of string, change func(*bus.Token)) string {
	t.Helper()
	token, err := bus.ReadToken(of, false)
	if err != nil {
		t.Fatal(err)
	}
	change(&token)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefused: a node that the hub does not let in ends and says what to do; the hub counts it.
func TestRefused(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	h := newHouse(t)
	h.start()
	first := &env.Buffer{}
	run(t, node.Settings{Join: h.addr, Token: h.token(), Name: "taken"}, first)
	until(t, "the first node", func() bool { return len(h.Status(t.Context()).Nodes) == 1 })
	for name, c := range map[string]struct {
		change func(*bus.Token)
		node   string
		hint   string
	}{
		"another token":  {func(x *bus.Token) { x.Secret = strings.Repeat("0", 32) }, "n2", "compare the token"},
		"another hub":    {func(x *bus.Token) { x.Pin = "AAAA" }, "n2", "take its new token"},
		"another's name": {func(*bus.Token) {}, "taken", "--name gives"},
	} {
		said := &env.Buffer{}
		done := run(t, node.Settings{Join: h.addr, Token: forge(t, h.token(), c.change), Name: c.node}, said)
		select {
		case err := <-done:
			if !errors.Is(err, bus.ErrRefused) || !strings.Contains(remedy.Of(err), c.hint) {
				t.Errorf("%s: %v, hint %q", name, err, remedy.Of(err))
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it goes on\n%s", name, said)
		}
	}
	// Who ends a TLS handshake knows of it before the hub does.
	until(t, "three reasons", func() bool { return len(h.Status(t.Context()).Refused) == 3 })
}

// TestRefusedLater: a hub that is set up anew refuses nodes that it knew. They say so, try on, and are there again with
// the old one.
func TestRefusedLater(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	h := newHouse(t)
	h.start()
	said := &env.Buffer{}
	done := run(t, node.Settings{Join: h.addr, Token: h.token(), Name: "n1"}, said)
	up := func() bool {
		s := h.Status(t.Context())
		return len(s.Nodes) == 1 && s.Nodes[0].Up
	}
	until(t, "the node", up)
	h.stop()
	other := newHouse(t)
	other.addr = h.addr
	other.start()
	until(t, "a word with a remedy", func() bool {
		return strings.Contains(said.String(), "refused us") && strings.Contains(said.String(), "take its new token")
	})
	if n := strings.Count(said.String(), "refused us"); n > 2 {
		t.Errorf("it says so %d times:\n%s", n, said)
	}
	other.stop()
	h.start()
	until(t, "the node again", up)
	select {
	case err := <-done:
		t.Errorf("it ended: %v", err)
	default:
	}
}

// TestSameName: of two machines with one name the second is refused; its rows wait, and come under another name.
func TestSameName(t *testing.T) {
	h := newHouse(t)
	h.start()
	one, two := newMachine(t, h, "gpu"), newMachine(t, h, "gpu")
	x := one.train(1, 4, 0)
	x.makes(500)
	one.start()
	h.has(x)
	y := two.train(2, 4, 0)
	y.makes(500)
	two.start()
	if err := two.cmd.Wait(); err == nil || !strings.Contains(two.said.String(), "belongs to another machine") {
		t.Fatalf("the second: %v\n%s", err, two.said.String())
	}
	two.settings.Name = "gpu-2"
	y.makes(20)
	two.start()
	h.has(x, y)
}

// TestRenamed: a node that gets another name sends what is left in that one.
func TestRenamed(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "old")
	x := m.train(1, 4, 0)
	x.makes(500)
	m.start()
	h.has(x)
	m.kill()
	m.settings.Name = "new"
	x.makes(20)
	m.start()
	h.has(x)
	if s := h.Status(t.Context()); len(s.Refused) > 0 {
		t.Errorf("refused: %v", s.Refused)
	}
}

// TestHeld: while one process answers for a session alone, the machine's node leaves it to that one.
func TestHeld(t *testing.T) {
	h := newHouse(t)
	h.start()
	m := newMachine(t, h, "n1")
	x, y := m.train(1, 4, 0), m.train(2, 4, 0)
	release, err := node.Hold(x.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { release() }()
	if _, err := node.Hold(x.Dir); err == nil {
		t.Error("two hold it")
	}
	x.makes(10)
	y.makes(20)
	m.start()
	h.has(y)
	release()
	h.has(x, y)
}

// TestSettings: what can't work is said before anything starts.
func TestSettings(t *testing.T) {
	home, none := t.TempDir(), func(string) string { return "" }
	tokens := filepath.Join(home, "tokens")
	if err := os.Mkdir(tokens, 0o700); err != nil {
		t.Fatal(err)
	}
	file := func(name string, role bus.Role, mode os.FileMode) string {
		path := filepath.Join(tokens, name)
		if err := os.WriteFile(path, []byte(bus.NewToken(role, "").String()), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	join := file("join", bus.Join, 0o600)
	for hint, s := range map[string]node.Settings{
		"prints the whole line": {},
		"copy it here":          {Join: "h:1"},
		"chmod 600":             {Join: "h:1", Token: file("open", bus.Join, 0o644)},
		"join.token":            {Join: "h:1", Token: file("ask", bus.Asks, 0o600)},
	} {
		if _, err := s.Options(home, none); err == nil || !strings.Contains(remedy.Of(err), hint) {
			t.Errorf("%+v: %v, %q", s, err, remedy.Of(err))
		}
	}
	if _, err := (node.Settings{Join: "h:1", Token: join, Allow: []string{"root"}}).Options(home, none); err == nil {
		t.Error("--allow root")
	}
	o, err := node.Settings{Join: "h:1", Token: join, Name: "a b", Job: "mine", Allow: []string{"eval"}}.Options(home,
		func(name string) string { return map[string]string{"MEMGAUGE_JOB": "other", "WORLD_SIZE": "8"}[name] })
	if err != nil || o.Allow != api.Changing || o.Job != (node.Job{Name: "mine", World: 8}) ||
		o.Dial.Key != filepath.Join(home, "fleet", "a-b.key") {
		t.Errorf("%+v, %v", o, err)
	}
	if err := node.Run(t.Context(), o); err == nil {
		t.Error("a name with a blank")
	}
}
