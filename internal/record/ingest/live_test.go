package ingest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
	"github.com/memgauge/memgauge/test/env"
)

// checkOnce holds rows of steps 1 to n: each is there once or was counted as overwritten, and what is there is what was
// written (Duration = 3 × step, RSS = step + 7 where it was written).
func checkOnce(t *testing.T, steps []model.Step, n, overwritten uint64) {
	t.Helper()
	last := int64(0)
	for _, s := range steps {
		if s.Step <= last {
			t.Fatalf("step %d after step %d", s.Step, last)
		}
		last = s.Step
		if s.DurationNS != 3*s.Step || s.RSS != model.Null && s.RSS != s.Step+7 || s.AgentNS != s.Step&0xffff {
			t.Fatalf("torn: %+v", s)
		}
	}
	if uint64(len(steps))+overwritten != n || last > int64(n) {
		t.Errorf("%d rows and %d overwritten of %d written, last is %d", len(steps), overwritten, n, last)
	}
}

// TestWriterThatOutrunsTheReader drains small rings while a goroutine writes into each as fast as it can.
func TestWriterThatOutrunsTheReader(t *testing.T) {
	const each = 400_000
	g := newRig(t)
	var writers sync.WaitGroup
	for pid := range uint32(3) {
		r := g.ring(wiretest.Options{PID: pid + 1, Start: 1, Slots: 64 << (4 * pid)})
		writers.Go(func() {
			for i := uint64(1); i <= each; i++ {
				r.Append(&wire.Step{TS: i, Step: uint32(i), AgentNS: uint32(i & 0xffff), Duration: 3 * i, RSS: i + 7})
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	var total Stats
	add := func(s Stats) {
		total.Overwritten += s.Overwritten
		total.Damaged += s.Damaged
	}
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		add(g.drain())
	}
	for pid := range int32(3) {
		g.kill(int(pid + 1))
	}
	add(g.drain())
	byPID, lost := map[int32][]model.Step{}, map[int32]uint64{}
	for _, s := range g.sink.rows.Steps {
		byPID[s.PID] = append(byPID[s.PID], s)
	}
	for _, d := range g.sink.rows.Drops {
		if d.Reason != reasonOverwritten {
			t.Errorf("%+v", d)
		}
		lost[d.PID] += uint64(d.Records)
	}
	for pid := range int32(3) {
		checkOnce(t, byPID[pid+1], each, lost[pid+1])
	}
	if sum := lost[1] + lost[2] + lost[3]; sum != total.Overwritten || total.Damaged != 0 || sum == 0 {
		t.Errorf("drops say %d overwritten, stats %+v", sum, total)
	}
}

const pythonWriter = `
import sys
sys.path.insert(0, sys.argv[1])
from memgauge._agent.record import ring
r = ring.Ring(sys.argv[2], large=False, info=[("argv", "a\tb\\c")])
r.set_rank(1, 4)
name = r.name("layers.0.mlp")
r.event("start", "héllo " * 30, 5, -6)
print("ready", r.head, flush=True)
sys.stdin.readline()
for i in range(1, 60001):
    r.step(1, 1, i, i & 0xffff, 3 * i)
    if i % 1000 == 0:
        r.trace(0, 1, -1, name, i, 100, 2**64 - 1, 200, 2**64 - 1)
print("done", r.head, flush=True)
sys.stdin.readline()
`

// TestAgentWrites reads what the agent's own writer, in a Python of this machine, writes at the same time; then the
// process is killed.
func TestAgentWrites(t *testing.T) {
	python := env.Program(t, "python3")
	dir, sink := t.TempDir(), newMemory()
	cmd := exec.Command(python, "-c", pythonWriter, "../../../python", dir)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	in := New(dir, sink, Options{})
	defer in.Close()
	var head, read, overwritten uint64
	drain := func() {
		s, err := in.Finish(t.Context())
		if err != nil || s.Damaged+s.Unknown > 0 || s.Refused > 0 {
			t.Fatalf("%+v, error %v, drops %q", s, err, sink.drops())
		}
		read, overwritten = read+s.Records, overwritten+s.Overwritten
	}
	drain()
	written := make(chan error, 1)
	go func() {
		line, err := lines.ReadString('\n')
		if _, serr := fmt.Sscanf(line, "done %d", &head); err == nil {
			err = serr
		}
		written <- err
	}()
	io.WriteString(stdin, "\n")
	for writing := true; writing; drain() {
		select {
		case err := <-written:
			if writing = false; err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	drain()
	if read+overwritten != head {
		t.Errorf("%d read and %d overwritten of %d published", read, overwritten, head)
	}
	lostTrace := 60 - uint64(len(sink.rows.Trace))
	checkOnce(t, sink.rows.Steps, 60_000, overwritten-lostTrace)
	if e := sink.rows.Events; len(e) != 1 || e[0].Text != strings.Repeat("héllo ", 30) || e[0].A != 5 || e[0].B != -6 ||
		e[0].Name != "start" {
		t.Errorf("events %+v", e)
	}
	p := sink.procs[procKey{int32(cmd.Process.Pid), uint64(firstStart(sink))}]
	if p.Rank != 1 || p.World != 4 || p.End != endVanished || p.Argv != "a\tb\\c" {
		t.Errorf("process %+v", p)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func firstStart(m *memory) int64 {
	for _, p := range m.procs {
		return p.StartTicks
	}
	return 0
}
