package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
)

// CensusRequest asks live processes what holds their memory.
type CensusRequest struct {
	PIDs []int `json:"pids"` // none: every live process of the session
	// also look for what nothing of the program's leads to; holds the trainer for longer
	Deep    bool          `json:"deep"`
	Timeout time.Duration `json:"timeout"` // 0: censusTimeout
}

// CensusReply has one entry for each process, in the order of session.Processes. The rows are in the database.
type CensusReply struct {
	Censuses []Census `json:"censuses"`
}

// Census is how the census of one process went. Sizes of time are ns.
type Census struct {
	PID      int           `json:"pid"`
	Rank     int           `json:"rank"`      // -1 unknown
	ID       int64         `json:"census_id"` // as in python.tensors and python.objects, with the pid
	Step     int64         `json:"step"`      // the last that had ended, 0 before the first
	Visited  int64         `json:"visited"`   // objects
	Tensors  int64         `json:"tensors"`
	CPU      time.Duration `json:"cpu_ns"`     // of the trainer's time, at most
	Longest  time.Duration `json:"longest_ns"` // that it was held at a time
	Wall     time.Duration `json:"wall_ns"`
	Complete bool          `json:"complete"`        // false: Note says what is missing
	Note     string        `json:"note,omitempty"`  // for the user
	Error    *Error        `json:"error,omitempty"` // there are no rows
}

// censusTimeout bounds the wait: a census is spread over some seconds at most, in a busy trainer some more.
const censusTimeout = 60 * time.Second

// maxCensuses is how many processes are asked at once: a job has as many workers as it likes.
const maxCensuses = 16

// Census asks processes for a census and waits until its rows are in the database. A process that fails to answer has
// an Error in its entry; only when no process can be asked at all there is an error.
func (s *Service) Census(ctx context.Context, q CensusRequest) (CensusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, orElse(q.Timeout, censusTimeout))
	defer cancel()
	chosen, err := s.choose(q.PIDs)
	if err != nil {
		return CensusReply{}, fmt.Errorf("census: %w", err)
	}
	list := make([]Census, len(chosen))
	slots := make(chan struct{}, maxCensuses)
	var wg sync.WaitGroup
	for i, p := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			list[i] = countIn(ctx, p, q.Deep)
			<-slots
		})
	}
	wg.Wait()
	return CensusReply{list}, s.drain(context.WithoutCancel(ctx))
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// choose finds the live processes with these pids, all of them for none.
func (s *Service) choose(pids []int) ([]session.Process, error) {
	var live []session.Process
	if s.Processes != nil {
		for _, p := range s.Processes() {
			if p.Alive {
				live = append(live, p)
			}
		}
	}
	if len(live) == 0 {
		return nil, remedy.Add(errors.New("no observed process of the session is alive"),
			"the censuses that were taken while it ran are in python.tensors and python.objects")
	}
	if len(pids) == 0 {
		return live, nil
	}
	var chosen []session.Process
	for _, pid := range pids {
		n := len(chosen)
		for _, p := range live {
			if p.PID == pid {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("no observed process with pid %d is alive", pid)
		}
	}
	return chosen, nil
}

func countIn(ctx context.Context, p session.Process, deep bool) Census {
	c := Census{PID: p.PID, Rank: p.Rank}
	client, err := agent.Dial(ctx, p.Socket)
	if err != nil {
		c.Error = pack(fmt.Errorf("census of %d: %w", p.PID, err))
		return c
	}
	defer client.Close()
	n, err := client.Census(ctx, deep)
	if err != nil {
		c.Error = pack(fmt.Errorf("process %d: %w", p.PID, err))
		return c
	}
	c.ID, c.Step, c.Visited, c.Tensors = int64(n.Census), int64(n.Step), int64(n.Visited), int64(n.Tensors)
	c.CPU, c.Longest, c.Wall, c.Complete, c.Note = n.CPU, n.Longest, n.Wall, n.Complete, n.Note
	return c
}
