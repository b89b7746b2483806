package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// Job is what a session is a part of.
type Job struct {
	Name string `json:"job,omitempty"`
	Node int    `json:"node_rank,omitempty"`
	// World is how many ranks the whole job has, 0 where nobody said.
	World int `json:"world,omitempty"`
}

// jobFile keeps it in the session's directory.
const jobFile = "job.json"

// maxJob bounds it, in bytes: a name and two numbers.
const maxJob = 64 << 10

// SetJob writes down what job a session belongs to.
func SetJob(dir string, j Job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return rootdir.ReplaceText(filepath.Join(dir, jobFile), append(text, '\n'))
}

// jobOf is the session's job: what was written down, what the node's options say, or the session's own name.
func jobOf(dir, name string, otherwise Job) Job {
	var j Job
	text, err := rootdir.ReadFile(filepath.Join(dir, jobFile), maxJob)
	if err != nil || json.Unmarshal(text, &j) != nil || j.Name == "" {
		if j = otherwise; j.Name == "" {
			j.Name = name
		}
	}
	j.Name = Clean(j.Name)
	return j
}

// JobFromEnv is the job that a launcher describes in the environment: MEMGAUGE_JOB, torchrun's, Slurm's, Kubernetes'.
func JobFromEnv(get func(string) string) Job {
	first := func(names ...string) string {
		for _, name := range names {
			if v := get(name); v != "" && v != "none" { // torchrun's id where nobody gave one
				return v
			}
		}
		return ""
	}
	number := func(names ...string) int {
		n, err := strconv.Atoi(first(names...))
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	j := Job{Name: first("MEMGAUGE_JOB"), Node: number("GROUP_RANK", "PET_NODE_RANK", "SLURM_NODEID", "NODE_RANK",
		"JOB_COMPLETION_INDEX"), World: number("WORLD_SIZE", "SLURM_NTASKS")}
	if all := number("PET_NNODES") * number("PET_NPROC_PER_NODE"); all > 0 && first("GROUP_RANK") == "" {
		j.World = all // torchrun is not there yet: an operator's WORLD_SIZE counts its pods
	}
	if j.Name != "" {
		return j
	}
	if id := first("SLURM_JOB_ID"); id != "" {
		j.Name = id
		if name := first("SLURM_JOB_NAME"); name != "" {
			j.Name = name + "-" + id
		}
		return j
	}
	j.Name = first("TORCHELASTIC_RUN_ID", "PET_RDZV_ID", "JOB_NAME")
	return j
}

// lookEvery is how old the list of sessions may be: looking reads a directory, and a file for each session.
const lookEvery = time.Second

// sessions are those that this node answers for.
type sessions struct {
	n *Node

	mu     sync.Mutex
	at     time.Time
	list   []ask.Target
	opened map[string]api.Session // by directory; each keeps a connection to its collector
	apart  chan struct{}          // answers from finished sessions at a time
}

// maxApart is how many finished sessions answer at a time: each has a process with its memory (package cell).
const maxApart = 2

// room waits until a finished session may answer. Live ones have their collectors.
func (s *sessions) room(ctx context.Context, live bool) (leave func(), err error) {
	if live {
		return func() {}, nil
	}
	s.mu.Lock()
	if s.apart == nil {
		s.apart = make(chan struct{}, maxApart)
	}
	apart := s.apart
	s.mu.Unlock()
	select {
	case apart <- struct{}{}:
		return func() { <-apart }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("answer: %w", api.ErrCanceled)
	}
}

// targets are the sessions; with finished those that are over too.
func (s *sessions) targets(finished bool) []ask.Target {
	if dir := s.n.o.Session; dir != "" {
		t, err := ask.At(dir)
		if err != nil {
			return nil
		}
		return []ask.Target{t}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > lookEvery {
		all, err := ask.All()
		if err != nil {
			s.n.o.Log.Warn("look for sessions", "error", err)
		}
		s.list, s.at = all, time.Now()
	}
	return slices.DeleteFunc(slices.Clone(s.list), func(t ask.Target) bool {
		return !finished && !t.IsLive() || heldElsewhere(t.Dir())
	})
}

// holdFile is locked by the process that answers for one session alone, as memgauge run does.
const holdFile = "fleet.lock"

// selected are the sessions that a selection fits, as answers show them.
func (s *sessions) selected(ctx context.Context, want fanout.Select) (list []fanout.Session, targets []ask.Target) {
	for _, t := range s.targets(want.Finished || want.Session != "") {
		about := t.About()
		job := jobOf(t.Dir(), about.Name, s.n.o.Job)
		if want.Session != "" && want.Session != about.ID || want.Job != "" && want.Job != job.Name ||
			want.Node != "" && want.Node != s.n.o.Name {
			continue
		}
		one := fanout.Session{Node: s.n.o.Name, Job: job.Name, About: about, Rows: -1, World: job.World,
			NodeNum: job.Node, State: "finished", Ranks: []int{}, PIDs: []int{}}
		if about.Live {
			one.State = "running"
		}
		s.fill(ctx, t, &one)
		if want.Rank != nil && !slices.Contains(one.Ranks, *want.Rank) {
			continue
		}
		list, targets = append(list, one), append(targets, t)
	}
	return list, targets
}

// fill adds who lives in a session.
func (s *sessions) fill(ctx context.Context, t ask.Target, one *fanout.Session) {
	procs, err := s.open(t, api.Reading).Processes(ctx, api.ProcessesRequest{})
	if err != nil {
		return
	}
	for _, p := range procs {
		if !p.Alive {
			continue
		}
		one.PIDs = append(one.PIDs, p.PID)
		if p.Rank >= 0 && !slices.Contains(one.Ranks, p.Rank) {
			one.Ranks = append(one.Ranks, p.Rank)
		}
	}
	slices.Sort(one.PIDs)
	slices.Sort(one.Ranks)
}

// open gives the door to a session, for who has these rights. What is behind it stays open while the node lives.
func (s *sessions) open(t ask.Target, rights api.Rights) api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened = map[string]api.Session{}
	}
	door := s.opened[t.Dir()]
	if door == nil {
		door = t.Apart().Open()
		s.opened[t.Dir()] = door
	}
	return api.Limit(door, rights)
}

// forget closes doors of sessions that are over, so that others can write their databases.
func (s *sessions) forget(dir string) {
	s.mu.Lock()
	door := s.opened[dir]
	delete(s.opened, dir)
	s.mu.Unlock()
	if door != nil {
		_ = door.Close()
	}
}

func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir, door := range s.opened {
		_ = door.Close()
		delete(s.opened, dir)
	}
}

// jobs are those of the live sessions, and how many sessions there are.
func (s *sessions) jobs() (names []string, n int) {
	names = []string{}
	for _, t := range s.targets(false) {
		n++
		if name := jobOf(t.Dir(), t.Name(), s.n.o.Job).Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, n
}

// heldElsewhere says whether another process answers for this session alone.
func heldElsewhere(dir string) bool {
	f, err := rootdir.OpenFile(filepath.Join(dir, holdFile))
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return false
	}
	elsewhere := rootdir.TryLock(f, false) != nil
	_ = rootdir.Unlock(f)
	return elsewhere
}
