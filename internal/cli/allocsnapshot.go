package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/units"
	"github.com/memgauge/memgauge/internal/wire"
)

// snapshotFile is a file to read; keep leaves one that was written for this in the session.
type snapshotFile struct {
	path    string
	keep    func() error
	discard func()
}

// snapshotOf is the file that the command line names, or one that the session's trainer writes, or, where none is alive, the
// one that the session has kept.
func (a *app) snapshotOf(ctx context.Context, command string, timeout units.Duration, args []string) (snapshotFile, error) {
	given := snapshotFile{keep: func() error { return nil }, discard: func() {}}
	if len(args) == 1 {
		given.path = args[0]
		return given, nil
	}
	t, err := a.target(ctx)
	if err != nil {
		return given, remedy.Add(err, "or name a file: memgauge alloc "+command+" snapshot.pickle")
	}
	chosen, err := (evalOptions{rank: -1}).choose(t.Processes(), t)
	if err == nil {
		return takeSnapshot(ctx, t.Session, chosen[0], time.Duration(timeout))
	}
	kept, ok := t.Snapshot()
	if !ok {
		return given, remedy.Add(errors.New("no observed process of the session is alive, and the session has no snapshot of its allocator: "+
			"alloc replay and alloc advise leave one there while the trainer lives"), "name a snapshot's file: "+recordHint)
	}
	fmt.Fprintf(a.stderr, "memgauge: from the snapshot of pid %d that was taken at %s\n", kept.PID, kept.Taken.Format(time.DateTime))
	given.path = kept.Path
	return given, nil
}

// takeSnapshot has a process write one into a folder of its own within the session, whence it can be moved.
func takeSnapshot(ctx context.Context, s *session.Session, p session.Process, timeout time.Duration) (snapshotFile, error) {
	dir, err := os.MkdirTemp(s.Dir, "taking-") // 0700
	if err != nil {
		return snapshotFile{}, err
	}
	path := filepath.Join(dir, "snapshot.pickle")
	if err := dumpSnapshot(ctx, path, p, timeout); err != nil {
		os.RemoveAll(dir)
		return snapshotFile{}, err
	}
	return snapshotFile{path, func() error { return s.KeepSnapshot(p.PID, path) }, func() { os.RemoveAll(dir) }}, nil
}

// dumpCode has the trainer write its allocator's snapshot, if it has one; it never imports torch or starts CUDA.
const dumpCode = `import sys as _memgauge_sys
_memgauge_torch = _memgauge_sys.modules.get("torch")
if _memgauge_torch is None or not _memgauge_torch.cuda.is_initialized(): raise RuntimeError("the process does not use CUDA")
_memgauge_torch.cuda.memory._dump_snapshot(%s)
del _memgauge_sys, _memgauge_torch
`

func dumpSnapshot(ctx context.Context, path string, p session.Process, timeout time.Duration) error {
	quoted, err := json.Marshal(path) // a JSON string is a Python string
	if err != nil {
		return err
	}
	var said strings.Builder
	// The allocator writes its snapshot under a lock of its own, whatever else runs.
	request := wire.Eval{Timeout: timeout, Code: fmt.Sprintf(dumpCode, quoted), Place: wire.PlaceBeside, Own: true}
	r := evalIn(ctx, request, p, &said, &said)
	if r.Exception != "" {
		lines := strings.Split(strings.TrimSpace(r.Exception), "\n")
		return remedy.Add(fmt.Errorf("snapshot of %s: %s", label(p), lines[len(lines)-1]), recordHint)
	}
	return r.failure(timeout)
}
