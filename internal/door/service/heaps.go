package service

import (
	"context"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/record/session"
)

// askPatience bounds the wait for an agent: an extension may hold the GIL, or malloc may walk a long free list.
const askPatience = 3 * time.Second

// reportCode evaluates to what gauges.memory.report() returns: the repr of a dict of numbers, which is JSON except for
// quotes and None. In a training that the first release observes, the module lies elsewhere.
const reportCode = `__import__("memgauge._agent.gauges.memory" if "memgauge._agent" in __import__("sys").modules ` +
	`else "memgauge.gauges", fromlist=["x"]).report()`

// Heaps queries the agents of the processes for their heaps, all at once. Agents that don't answer are left out.
func Heaps(ctx context.Context, list []session.Process) map[int]*picture.Heap {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	found := map[int]*picture.Heap{}
	for _, p := range list {
		if !p.Alive || p.Socket == "" {
			continue
		}
		all.Go(func() {
			if h := heapOf(ctx, p); h != nil {
				mu.Lock()
				defer mu.Unlock()
				found[p.PID] = h
			}
		})
	}
	all.Wait()
	return found
}

func heapOf(ctx context.Context, p session.Process) *picture.Heap {
	value, _, err := askAgent(ctx, p.Socket, reportCode, askPatience)
	if err != nil {
		return nil
	}
	return picture.ParseHeap(value)
}
