package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/units"
)

// snapshotFile is a file to read; keep leaves one that was written for this in the session.
type snapshotFile struct {
	path    string
	keep    func() error
	discard func()
}

// snapshotOf is the file that the command line names, or one that the session's trainer writes, or, where none is
// alive, the one that the session has kept.
func (a *app) snapshotOf(ctx context.Context, command string, timeout units.Duration, args []string) (snapshotFile,
	error) {
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
		file, _, err := takeSnapshot(ctx, t.Session, chosen[0], time.Duration(timeout))
		return file, err
	}
	kept, ok := t.Snapshot()
	if !ok {
		return given,
			remedy.Add(
				errors.New("no observed process of the session is alive, and the session has no snapshot of its allocator: "+
					"alloc replay and alloc advise leave one there while the trainer lives"),
				"name a snapshot's file: "+recordHint)
	}
	fmt.Fprintf(a.stderr, "memgauge: from the snapshot of pid %d that was taken at %s\n", kept.PID,
		kept.Taken.Format(time.DateTime))
	given.path = kept.Path
	return given, nil
}
