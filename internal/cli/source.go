package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/fragment"
	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/monitor/machine"
	"github.com/memgauge/memgauge/internal/monitor/recorded"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/snapshot"
	"github.com/memgauge/memgauge/internal/units"
	"github.com/memgauge/memgauge/internal/wire"
)

// source is what a tool watches: this machine, a session's tables, or for a live session that is watched on both: the
// tables for what was before, the machine for what comes.
type source struct {
	monitor.Source
	name    string // of the session, "" for the machine
	once    bool   // all is read at the first time
	backend ask.Backend
	tables  *recorded.Session
	machine *machine.Machine
	events  []monitor.Event

	session            *session.Session // nil for the machine
	torch              bool             // it has been seen in a process
	alive              []int            // processes
	lookedAt, listedAt time.Time        // for torch, for processes
	killed             bool             // for want of memory
	ended              string           // how the session ended; "" while it lives
}

// openSource takes the session that the command line names; else the only live one, and says so; else the machine.
func (a *app) openSource(ctx context.Context, o *watchOptions) (*source, error) {
	if a.endpoint != "" || a.sessionDir != "" {
		t, err := a.target(ctx)
		if err != nil {
			return nil, err
		}
		return sessionSource(ctx, t.Session, o.timed)
	}
	s, err := a.onlyLive(o)
	if err != nil {
		return nil, err
	}
	if s != nil {
		fmt.Fprintf(a.stderr, "memgauge: session %s, the only live one; --machine looks at the whole machine\n",
			s.Meta.Name)
		return sessionSource(ctx, s, o.timed)
	}
	m, err := machine.New(machine.Options{GPUs: localGPUs()})
	if err != nil {
		return nil, err
	}
	return &source{Source: m, machine: m}, nil
}

// onlyLive is the live session when there is just one; nil when the machine is to be looked at. With several live
// sessions that is told, or refused where the machine can't answer: blocks are a process's.
func (a *app) onlyLive(o *watchOptions) (*session.Session, error) {
	if o.wholeMachine {
		return nil, nil
	}
	live, err := session.AllLive()
	if err != nil {
		return nil, err
	}
	switch {
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1 && o.tool == "fragment":
		_, err := a.target(context.Background()) // it says which there are
		return nil, err
	case len(live) > 1:
		fmt.Fprintf(a.stderr, "memgauge: %d live sessions, so the whole machine; memgauge %s %s looks at one\n",
			len(live), live[0].Meta.Name, o.tool)
	}
	return nil, nil
}

func sessionSource(ctx context.Context, s *session.Session, timed bool) (*source, error) {
	backend, err := ask.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	tables := recorded.New(backend)
	tables.Live = s.Live()
	src := &source{Source: tables, name: s.Meta.Name, once: true, backend: backend, tables: tables, session: s}
	if src.events, err = tables.Events(ctx); err != nil {
		src.Close()
		return nil, err
	}
	if src.findEnd(); src.ended != "" {
		return src, nil
	}
	tables.Allocators = func(ctx context.Context, device string) ([]monitor.Allocator, string, error) {
		return askAllocators(ctx, s, device)
	}
	src.once = !timed
	src.machine, err = machine.New(machine.Options{PID: s.Meta.Process.PID, PIDs: src.pids})
	switch {
	case err != nil && !timed: // the command may have ended, and a process of it go on: the tables are enough then
		return src, nil
	case err != nil:
		src.Close()
		return nil, err
	}
	src.Source = &follower{Session: tables, machine: src.machine, live: s.Live}
	return src, nil
}

// job is what is known of the job that is watched.
func (s *source) job() monitor.Job {
	if s.session == nil {
		return monitor.Job{}
	}
	return monitor.Job{Known: true, FromStart: !s.session.Meta.Attached, Over: s.ended != "", Torch: s.hasTorch}
}

// frameworks are parts of the names of libraries whose import alone takes seconds and some hundred MiB.
var frameworks = []string{"/libtorch", "/libtensorflow", "/xla_extension", "/libjax", "/libpaddle", "/libmxnet"}

// hasTorch says whether a process of the session has such a framework, or is loading it. It is asked at every tick, and
// looks once a second until it has seen one.
func (s *source) hasTorch() bool {
	if s.torch || time.Since(s.lookedAt) < tablesEvery {
		return s.torch
	}
	s.lookedAt = time.Now()
	fs := proc.New("/proc")
	s.torch = slices.ContainsFunc(s.session.Processes(), func(p session.Process) bool {
		return p.Alive && fs.HasMapped(p.PID, frameworks) // a large ring says less: a census opens one too
	})
	return s.torch
}

// pids are the session's processes, looked up once a second.
func (s *source) pids() []int {
	if time.Since(s.listedAt) < tablesEvery {
		return s.alive
	}
	s.listedAt, s.alive = time.Now(), s.alive[:0]
	for _, p := range s.session.Askable() {
		s.alive = append(s.alive, p.PID)
	}
	return s.alive
}

// findEnd looks how the session has ended, and says whether that is news.
func (s *source) findEnd() bool {
	if s.session == nil || s.ended != "" || s.session.Live() {
		return false
	}
	s.ended = "unseen"
	if end, ok, err := s.session.End(); err == nil && ok {
		s.killed = end.OOM == session.OOMKill
		if s.ended = end.String(); end.OOM != "" {
			s.ended += "; `memgauge report` shows the minute before"
		}
	}
	return true
}

// endPatience is how long a job that was killed may take until the last of its session is written.
const endPatience = 3 * time.Second

// endsSoon says whether the session that is watched is over, or will be in a moment.
func (s *source) endsSoon(ctx context.Context) bool {
	if s.session == nil {
		return false
	}
	_ = pauseWhile(ctx, endPatience, s.session.Live)
	return !s.session.Live()
}

// Close lets go of the session or the machine.
func (s *source) Close() {
	if s.backend != nil {
		s.backend.Close()
	}
	if s.machine != nil {
		s.machine.Close()
	}
}

func (s *source) addEvents(w *monitor.Watch) {
	for _, e := range s.events {
		if !e.Time.Before(w.Started) {
			w.Note(e)
		}
	}
}

// follower reads a live session: first its tables, then the host directly at the tool's own interval, and the devices'
// tables for what is new.
type follower struct {
	*recorded.Session
	machine *machine.Machine
	live    func() bool
	begun   bool
	asked   time.Time // the tables
	step    float64
	mapped  int64 // what the tables say to be mapped, less what the machine does: they don't count the same processes
}

// tablesEvery is how often a live session's tables are asked meanwhile: a question takes some 10 ms of its collector.
const tablesEvery = time.Second

func (f *follower) Read(ctx context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	if !f.begun { // what was recorded, and how it is now: the tables may be some seconds old
		f.begun = true
		recorded, err := f.Session.Read(ctx, into)
		if err != nil {
			return recorded, err
		}
		if f.step, err = f.Step(ctx); err != nil {
			return recorded, err
		}
		now, err := f.machine.Read(ctx, nil)
		if err != nil || !sameLimit(recorded, now) {
			return recorded, nil
		}
		f.mapped = lastMapped(recorded) - now[0].Mapped
		return f.ofHost(recorded, now), nil
	}
	fresh, err := f.machine.Read(ctx, nil)
	if err != nil {
		return into, err
	}
	ask := time.Since(f.asked) >= tablesEvery
	if ask {
		f.asked = time.Now()
		if f.step, err = f.Step(ctx); err != nil {
			return into, err
		}
	}
	into = f.ofHost(into, fresh)
	if !ask {
		return into, nil
	}
	return f.ReadDevices(ctx, into)
}

// sameLimit says whether the machine's reading goes on with the recorded ones: the command may be in another cgroup
// than what it has started.
func sameLimit(recorded, now []monitor.Reading) bool {
	for i := len(recorded) - 1; i >= 0; i-- {
		if was := recorded[i]; was.Device == monitor.Host {
			is := now[0]
			return was.Kind == is.Kind && (was.Kind == "host" || was.Total == is.Total)
		}
	}
	return true
}

func lastMapped(recorded []monitor.Reading) int64 {
	for i := len(recorded) - 1; i >= 0; i-- {
		if r := recorded[i]; r.Device == monitor.Host && r.Mapped > 0 {
			return r.Mapped
		}
	}
	return 0
}

// ofHost adds the readings of the host, at the job's step.
func (f *follower) ofHost(into, fresh []monitor.Reading) []monitor.Reading {
	for _, r := range fresh {
		if r.Device == monitor.Host && r.Err == "" {
			r.Step = f.step
			r.Mapped = max(0, r.Mapped+f.mapped)
			into = append(into, r)
		}
	}
	return into
}

func (f *follower) Ended() bool { return !f.live() }

// blocksWait bounds the wait for one process's answer: it may sit in a long operation that holds Python's lock.
const blocksWait = 10 * time.Second

// blocksCode asks the agent; the first release's, which a training may still have, has that module elsewhere.
const blocksCode = `try:
    from memgauge._agent.gauges import heap
except ImportError:
    from memgauge import heap
print(heap.told())`

// askAllocators asks every live process of a session for the blocks of a device.
func askAllocators(ctx context.Context, s *session.Session, device string) (list []monitor.Allocator, why string,
	err error) {
	for _, p := range s.Processes() {
		if !p.Alive {
			continue
		}
		text, err := askAgent(ctx, p.Socket, blocksCode)
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if err != nil {
			why = fmt.Sprintf("process %d: %v", p.PID, err)
			if errors.Is(err, context.DeadlineExceeded) {
				why = fmt.Sprintf("process %d does not answer within %s: it is stopped, or in an operation that holds Python's lock", p.PID, units.Duration(blocksWait))
			}
			continue
		}
		state, missing, err := readBlocks(text, device)
		if err != nil {
			return nil, "", fmt.Errorf("process %d: %w", p.PID, err)
		}
		if missing != "" {
			why = missing
			continue
		}
		if device == monitor.Host {
			state.Return(mappings(p.PID))
		}
		list = append(list, monitor.Allocator{PID: p.PID, Rank: p.Rank, State: state, Env: allocatorSettings(p.PID)})
	}
	if len(list) == 0 && why == "" {
		why = "no observed process of the session is alive"
	}
	return list, why, nil
}

// mappings are a process's, as the kernel has them now; none where it can't be asked.
func mappings(pid int) []fragment.Mapping {
	maps, err := proc.New("/proc").Maps(pid)
	if err != nil {
		return nil
	}
	list := make([]fragment.Mapping, 0, len(maps))
	for _, m := range maps {
		list = append(list, fragment.Mapping{Start: m.Start, Size: m.Size(), Resident: m.RSS + m.Swap,
			Heap: m.Path == "[heap]", Writable: strings.HasPrefix(m.Perms, "rw"), File: m.Inode != 0})
	}
	return list
}

// allocatorSettings are the variables of a process's environment that advice on fragmentation is about.
func allocatorSettings(pid int) map[string]string {
	env, err := proc.New("/proc").Environ(pid)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && slices.Contains(monitor.AllocatorVariables, name) {
			found[name] = value
		}
	}
	return found
}

// askAgent runs code in a process and returns what it prints.
func askAgent(ctx context.Context, socket, code string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, blocksWait)
	defer cancel()
	c, err := agent.Dial(ctx, socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var out bytes.Buffer
	r, err := c.Eval(ctx, wire.Eval{Timeout: blocksWait, Code: code, Place: wire.PlaceBeside, Own: true}, &out,
		io.Discard)
	if err != nil {
		return "", err
	}
	if r.Outcome != wire.OutcomeFine {
		return "", fmt.Errorf("the agent's answer: %s", r.Outcome)
	}
	return out.String(), nil
}

// readBlocks reads what gauges.heap.told() prints.
func readBlocks(text, device string) (s fragment.State, missing string, err error) {
	var told struct {
		MallocInfo *string `json:"malloc_info"`
		Segments   [][]any `json:"segments"`
	}
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return s, "", fmt.Errorf("read the allocators' answer: %w", err)
	}
	if device == monitor.Host {
		if told.MallocInfo == nil {
			return s, "its C library has no malloc_info", nil
		}
		s, err = fragment.OfMallocInfo(*told.MallocInfo)
		return s, "", err
	}
	number, err := strconv.Atoi(device)
	if err != nil {
		return s, "", fmt.Errorf("device %s: not a GPU's number", device)
	}
	segments, err := segmentsOf(told.Segments)
	if err != nil {
		return s, "", err
	}
	if s = fragment.OfSegments(segments, number); s.Pieces == 0 {
		return s, "PyTorch's allocator holds nothing of the device", nil
	}
	return s, "", nil
}

// segmentsOf reads [device, size, [[size, state], …]].
func segmentsOf(told [][]any) ([]snapshot.Segment, error) {
	malformed := fmt.Errorf("read the allocators' answer: a segment is malformed")
	list := make([]snapshot.Segment, 0, len(told))
	for _, t := range told {
		if len(t) != 3 {
			return nil, malformed
		}
		device, ok1 := t[0].(float64)
		size, ok2 := t[1].(float64)
		blocks, ok3 := t[2].([]any)
		if !ok1 || !ok2 || !ok3 {
			return nil, malformed
		}
		seg := snapshot.Segment{Device: int(device), Size: int64(size)}
		for _, b := range blocks {
			pair, _ := b.([]any)
			if len(pair) != 2 {
				return nil, malformed
			}
			size, ok1 := pair[0].(float64)
			state, ok2 := pair[1].(string)
			if !ok1 || !ok2 {
				return nil, malformed
			}
			seg.Blocks = append(seg.Blocks, snapshot.Block{Size: int64(size), State: snapshot.BlockState(state)})
		}
		list = append(list, seg)
	}
	return list, nil
}
