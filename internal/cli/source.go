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
	"time"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/collector"
	"github.com/memgauge/memgauge/internal/fragment"
	"github.com/memgauge/memgauge/internal/monitor"
	"github.com/memgauge/memgauge/internal/monitor/machine"
	"github.com/memgauge/memgauge/internal/monitor/recorded"
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
	backend collector.Backend
	tables  *recorded.Session
	machine *machine.Machine
	events  []monitor.Event

	session *session.Session // nil for the machine
	torch   bool             // it has been seen in a process
	ended   string           // how the session ended; "" while it lives
}

// openSource takes the session that the command line names, else the machine.
func (a *app) openSource(ctx context.Context, timed bool) (*source, error) {
	if a.endpoint == "" && a.sessionDir == "" {
		m, err := machine.New(machine.Options{GPUs: localGPUs()})
		if err != nil {
			return nil, err
		}
		return &source{Source: m, machine: m}, nil
	}
	t, err := a.target(ctx)
	if err != nil {
		return nil, err
	}
	return sessionSource(ctx, t.Session, timed)
}

func sessionSource(ctx context.Context, s *session.Session, timed bool) (*source, error) {
	backend, err := collector.Connect(ctx, s)
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
	if !tables.Live {
		src.ended = "unseen"
		if end, ok, err := s.End(); err == nil && ok {
			if src.ended = end.String(); end.OOM != "" {
				src.ended += "; `memgauge report` shows the minute before"
			}
		}
		return src, nil
	}
	tables.Allocators = func(ctx context.Context, device string) ([]monitor.Allocator, string, error) {
		return askAllocators(ctx, s, device)
	}
	if !timed {
		return src, nil
	}
	src.once = false
	src.machine, err = machine.New(machine.Options{PID: s.Meta.Process.PID})
	if err != nil {
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

// hasTorch says whether a process of the session has imported PyTorch. It is asked at every tick until it has.
func (s *source) hasTorch() bool {
	if !s.torch {
		s.torch = slices.ContainsFunc(s.session.Processes(), func(p session.Process) bool { return p.Torch })
	}
	return s.torch
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
}

// tablesEvery is how often a live session's tables are asked meanwhile: a question takes some 10 ms of its collector.
const tablesEvery = time.Second

func (f *follower) Read(ctx context.Context, into []monitor.Reading) ([]monitor.Reading, error) {
	if !f.begun {
		f.begun = true
		return f.Session.Read(ctx, into)
	}
	into, err := f.machine.Read(ctx, into)
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
	kept := into[:0]
	for _, r := range into {
		if r.Device == monitor.Host && r.Err == "" {
			r.Step = f.step
			kept = append(kept, r)
		}
	}
	if !ask {
		return kept, nil
	}
	return f.ReadDevices(ctx, kept)
}

func (f *follower) Ended() bool { return !f.live() }

// blocksWait bounds the wait for one process's answer: it may sit in a long operation that holds Python's lock.
const blocksWait = 10 * time.Second

const blocksCode = "from memgauge import heap; print(heap.told())"

// askAllocators asks every live process of a session for the blocks of a device.
func askAllocators(ctx context.Context, s *session.Session, device string) (list []monitor.Allocator, why string, err error) {
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
		list = append(list, monitor.Allocator{PID: p.PID, Rank: p.Rank, State: state})
	}
	if len(list) == 0 && why == "" {
		why = "no observed process of the session is alive"
	}
	return list, why, nil
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
	r, err := c.Eval(ctx, wire.Eval{Timeout: blocksWait, Code: code, Place: wire.PlaceBeside, Own: true}, &out, io.Discard)
	if err != nil {
		return "", err
	}
	if r.Outcome != wire.OutcomeFine {
		return "", fmt.Errorf("the agent's answer: %s", r.Outcome)
	}
	return out.String(), nil
}

// readBlocks reads what memgauge.heap.told() prints.
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
