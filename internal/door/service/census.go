package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/record/session"
)

// censusTimeout bounds the wait: a census is spread over some seconds at most, in a busy trainer some more.
const censusTimeout = 60 * time.Second

// maxCensuses bounds the processes that take a census at the same time, since a job may have any number of workers.
const maxCensuses = 16

// Census has processes take a census and waits until its rows are in the database. A process that fails to answer has
// an Error in its entry. Census itself fails only if no process can be reached.
func (s *Service) Census(ctx context.Context, q api.CensusRequest) (api.CensusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, orElse(q.Timeout, censusTimeout))
	defer cancel()
	chosen, err := s.living(q.PIDs)
	if err != nil {
		return api.CensusReply{}, fmt.Errorf("census: %w", err)
	}
	list := make([]api.Census, len(chosen))
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
	return api.CensusReply{Censuses: list}, s.drain(context.WithoutCancel(ctx))
}

// living returns the live processes with these pids, or all live processes if there are none.
func (s *Service) living(pids []int) ([]session.Process, error) {
	var live []session.Process
	for _, p := range s.S.Processes() {
		if p.Alive {
			live = append(live, p)
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

func countIn(ctx context.Context, p session.Process, deep bool) api.Census {
	c := api.Census{PID: p.PID, Rank: p.Rank}
	dial := agent.DialToRead
	if deep {
		dial = agent.Dial // it has the right to more
	}
	client, err := dial(ctx, p.Socket)
	if err != nil {
		c.Error = api.Pack(fmt.Errorf("census of %d: %w", p.PID, err))
		return c
	}
	defer client.Close()
	n, err := client.Census(ctx, deep)
	if err != nil {
		c.Error = api.Pack(fmt.Errorf("process %d: %w", p.PID, err))
		return c
	}
	c.ID, c.Step, c.Visited, c.Tensors = int64(n.Census), int64(n.Step), int64(n.Visited), int64(n.Tensors)
	c.CPU, c.Longest, c.Wall, c.Complete, c.Note = n.CPU, n.Longest, n.Wall, n.Complete, n.Note
	return c
}
