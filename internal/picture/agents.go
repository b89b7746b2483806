package picture

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/agent"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/wire"
)

// askPatience bounds the wait for an agent: its process may hold Python's lock in an extension, or walk a long free
// list.
const askPatience = 3 * time.Second

// reportCode evaluates to what gauges.memory.report() returns: the repr of a dict of numbers, which is JSON except for
// quotes and None. In a training that the first release observes, the module lies elsewhere.
const reportCode = `__import__("memgauge._agent.gauges.memory" if "memgauge._agent" in __import__("sys").modules ` +
	`else "memgauge.gauges", fromlist=["x"]).report()`

// Heaps queries the agents of the processes for their heaps, all at once. Agents that don't answer are left out.
func Heaps(ctx context.Context, list []session.Process) map[int]*Heap {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	heaps := map[int]*Heap{}
	for _, p := range list {
		if !p.Alive || p.Socket == "" {
			continue
		}
		all.Go(func() {
			if h := ask(ctx, p); h != nil {
				mu.Lock()
				defer mu.Unlock()
				heaps[p.PID] = h
			}
		})
	}
	all.Wait()
	return heaps
}

func ask(ctx context.Context, p session.Process) *Heap {
	c, err := agent.Dial(ctx, p.Socket)
	if err != nil {
		return nil
	}
	defer c.Close()
	var out bytes.Buffer
	r, err := c.Eval(ctx, wire.Eval{Timeout: askPatience, Code: reportCode, Place: wire.PlaceBeside, Own: true}, &out,
		io.Discard)
	if err != nil || r.Exception != "" {
		return nil
	}
	return parseReport(r.Value)
}

func parseReport(text string) *Heap {
	text = strings.NewReplacer("'", `"`, "None", "null").Replace(text)
	var r struct {
		InUse  *int64 `json:"in_use"`
		Held   *int64 `json:"held"`
		Mapped *int64 `json:"mapped"`
		Arenas *int64 `json:"arenas"`
	}
	if json.Unmarshal([]byte(text), &r) != nil || r.InUse == nil || r.Held == nil || r.Mapped == nil {
		return nil
	}
	return &Heap{InUse: *r.InUse, Held: *r.Held, Mapped: *r.Mapped, Arenas: r.Arenas}
}
