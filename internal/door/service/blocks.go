package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/fragment"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// blocksWait bounds the wait for one process's answer: it may sit in a long operation that holds Python's lock.
const blocksWait = 10 * time.Second

// blocksCode queries the agent. Agents of the first release, which a training may still have, have that module under
// another name.
const blocksCode = `try:
    from memgauge._agent.gauges import heap
except ImportError:
    from memgauge import heap
print(getattr(heap, "asked", heap.told)())`

// Blocks returns the blocks of a device in every live process.
func (j Job) Blocks(ctx context.Context, q api.BlocksRequest) (r api.BlocksReply, err error) {
	for _, p := range j.S.Processes() {
		if !p.Alive {
			continue
		}
		_, text, err := askAgent(ctx, p.Socket, blocksCode, blocksWait)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err != nil {
			r.Why = fmt.Sprintf("process %d: %v", p.PID, err)
			if errors.Is(err, context.DeadlineExceeded) {
				r.Why = fmt.Sprintf("process %d does not answer within %s: it is stopped, or in an operation that "+
					"holds Python's lock", p.PID, units.Duration(blocksWait))
			}
			continue
		}
		state, missing, err := monitor.ReadBlocks(text, q.Device)
		if err != nil {
			return r, fmt.Errorf("process %d: %w", p.PID, err)
		}
		if missing != "" {
			r.Why = missing
			continue
		}
		if q.Device == monitor.Host {
			state.Return(mappings(p.PID))
		}
		r.Allocators = append(r.Allocators, api.Allocator{PID: p.PID, Rank: p.Rank, State: state,
			Env: allocatorSettings(p.PID)})
	}
	if len(r.Allocators) == 0 && r.Why == "" {
		r.Why = "no observed process of the session is alive"
	}
	return r, nil
}

// mappings returns a process's current mappings; none if they can't be read.
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

// allocatorSettings returns the environment variables of a process that configure its allocators.
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

// maxPrinted bounds what code of ours may print: a million of PyTorch's blocks take 30 MB. What the process does in its
// place is its own affair.
const maxPrinted = 64 << 20

// bounded keeps what a process prints, and refuses what is beyond.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > maxPrinted {
		return 0, fmt.Errorf("the process answers with more than %s", units.Bytes(maxPrinted))
	}
	return b.Buffer.Write(text)
}

// askAgent runs code of ours in a process, and returns its last expression's value and what it prints.
func askAgent(ctx context.Context, socket, code string, patience time.Duration) (value, printed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := agent.DialToRead(ctx, socket)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	var out bounded
	r, err := c.Eval(ctx, wire.Eval{Timeout: patience, Code: code, Place: wire.PlaceBeside, Own: true}, &out,
		io.Discard)
	if err != nil {
		return "", "", err
	}
	if r.Outcome != wire.OutcomeFine {
		return "", "", fmt.Errorf("the agent's answer: %s", r.Outcome)
	}
	return r.Value, out.String(), nil
}
