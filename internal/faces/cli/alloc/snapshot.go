package alloc

import (
	"context"
	"errors"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
)

// snapshotOf returns the snapshot file that the command line names. Without one, the session's trainer writes a new
// snapshot into the session; if no trainer lives, it is the session's last one.
func (a *commands) snapshotOf(ctx context.Context, command string, timeout units.Duration, args []string) (string,
	error) {
	if len(args) == 1 {
		return args[0], nil
	}
	t, err := a.Target(ctx)
	if err != nil {
		return "", remedy.Add(err, "or name a file: memgauge alloc "+command+" snapshot.pickle")
	}
	session := t.Open()
	defer session.Close()
	list, err := session.Processes(ctx, api.ProcessesRequest{})
	if err != nil {
		return "", err
	}
	if _, err := api.Choose(list, t.Choice(), false); err == nil {
		r, err := session.Snapshot(ctx, api.SnapshotRequest{Choice: t.Choice(), Timeout: time.Duration(timeout)},
			nil)
		return r.Path, err
	}
	kept := t.About().Snapshot
	if kept == nil {
		return "",
			remedy.Add(
				errors.New("no observed process of the session is alive, and the session has no snapshot of its allocator: "+
					"alloc replay and alloc advise leave one there while the trainer lives"),
				"name a snapshot's file: "+recordHint)
	}
	plain.Fprintf(a.Stderr, "memgauge: from the snapshot of pid %d that was taken at %s\n", kept.PID,
		kept.Taken.Format(time.DateTime))
	return kept.Path, nil
}
