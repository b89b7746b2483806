package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/record/session"
)

const needsHistory = "a program that uses CUDA and PyTorch 2.1 or newer can be told; " +
	"memgauge run --record-memory records from its start"

// Snapshot has a process write its memory snapshot into a folder of its own within the session, and moves or copies it.
func (j Job) Snapshot(ctx context.Context, q api.SnapshotRequest, w io.Writer) (r api.SnapshotReply, err error) {
	chosen, err := j.choose(q.Choice, false)
	if err != nil {
		return r, remedy.Add(err, "memgauge snapshot FILE reads one that was written")
	}
	p := chosen[0]
	r.Process = processOf(p)
	dir, err := rootdir.Temp(j.S.Dir, "taking-")
	if err != nil {
		return r, err
	}
	defer func() { _ = dir.Discard() }()
	const file = "snapshot.pickle"
	path := filepath.Join(dir.Path(), file)
	quoted, err := json.Marshal(path) // a JSON string is a Python string
	if err != nil {
		return r, err
	}
	// The allocator writes its snapshot under a lock of its own, whatever else runs.
	r.History, err = history(ctx, p, fmt.Sprintf("dump(%s)", quoted), wire.PlaceBeside, q.Timeout)
	if err != nil {
		return r, err
	}
	info, err := dir.Lstat(file)
	if err != nil {
		return r, err
	}
	r.Bytes = info.Size
	if w == nil {
		r.Path = j.S.SnapshotPath(p.PID)
		return r, j.S.KeepSnapshot(p.PID, dir, file)
	}
	f, err := dir.Open(file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return r, err
}

// Record starts or stops the recording of allocations in processes.
func (j Job) Record(ctx context.Context, q api.RecordRequest) (r api.RecordReply, err error) {
	if err := q.Check(); err != nil {
		return r, err
	}
	chosen, err := j.choose(q.Choice, false)
	if err != nil {
		return r, err
	}
	call := "off()"
	if q.On {
		call = fmt.Sprintf("on(%d, %q)", q.Entries, q.Stacks)
	}
	for _, p := range chosen {
		_, err := history(ctx, p, call, wire.PlaceMain, q.Timeout)
		r.Processes = append(r.Processes, api.Recording{Process: processOf(p), Error: api.Pack(err)})
	}
	return r, nil
}

// history has the agent call a function of gauges.history, and returns its result as text.
func history(ctx context.Context, p session.Process, call string, place wire.Place, timeout time.Duration) (string,
	error) {
	var said bounded
	// binds no name in the program
	code := `print(__import__("memgauge._agent.gauges.history", fromlist=["on"]).` + call + ")"
	r := evalIn(ctx, wire.Eval{Timeout: timeout, Code: code, Place: place, Own: true}, p, &said, &said)
	if r.Exception != "" {
		lines := strings.Split(strings.TrimSpace(r.Exception), "\n")
		return "", remedy.Add(fmt.Errorf("snapshot of %s: %s", r.Process.Label(), lines[len(lines)-1]), needsHistory)
	}
	if err := r.Failure(timeout); err != nil {
		return "", remedy.Add(err, "--timeout 5m gives it more time")
	}
	return strings.TrimSpace(said.String()), nil
}
