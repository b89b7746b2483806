package ask

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/record/keeper"
	"github.com/memgauge/memgauge/internal/record/session"
)

// listPatience bounds the time that a list spends on querying live sessions and recovering killed ones, some 30 ms
// each. The newest go first; sessions beyond the time are listed without their number of rows.
const listPatience = 3 * time.Second

// List describes the live sessions; with all, the finished ones after them. left has the errors of directories that
// look like sessions but could not be read.
func List(ctx context.Context, all bool) (list []api.Listed, left []error, err error) {
	found, left, err := session.Scan()
	if err != nil {
		return nil, nil, err
	}
	asking, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	var finished []api.Listed
	for _, s := range found {
		if s.Live() {
			list = append(list, describe(asking, s, true))
		} else if all {
			finished = append(finished, describe(asking, s, false))
		}
	}
	return append(list, finished...), left, ctx.Err()
}

// Known tells of all sessions, live ones first, what their directories say. Nobody is asked and no database is opened:
// it is what a shell's completion needs at a key.
func Known() (list []api.Listed) {
	found, _, _ := session.Scan()
	var finished []api.Listed
	for _, s := range found {
		one := api.Listed{ID: s.Meta.ID, Name: s.Meta.Name, Dir: s.Dir, Command: s.Meta.Command,
			Started: s.Meta.Started, Rows: -1, Live: s.Live()}
		if one.Live {
			one.PIDs, one.Ranks = livePIDs(s)
			list = append(list, one)
		} else {
			finished = append(finished, one)
		}
	}
	return append(list, finished...)
}

// Elsewhere says why the place for sessions that the user named is not searched; "" if it is.
func Elsewhere() string { return session.HomeNote() }

func describe(ctx context.Context, s *session.Session, live bool) api.Listed {
	sum := api.Listed{ID: s.Meta.ID, Name: s.Meta.Name, Dir: s.Dir, Command: s.Meta.Command,
		Started: s.Meta.Started, Rows: -1, Live: live}
	if live {
		sum.PIDs, sum.Ranks = livePIDs(s)
		var told api.Summary
		sum.State, told = liveState(ctx, s)
		sum.Rows, sum.Verdict = told.Rows, told.Judged
	} else {
		describeEnd(ctx, s, &sum)
		sum.PIDs = commandFirst(sum.PIDs, s.Meta.Process.PID)
	}
	sum.DiskBytes = diskUse(s)
	return sum
}

// liveState reports a session as running only if its collector has just answered, or a newly started one has.
func liveState(ctx context.Context, s *session.Session) (state string, told api.Summary) {
	told, err := askSummary(ctx, s)
	switch {
	case err == nil && keeper.Observed(s):
		return "running", told
	case ctx.Err() != nil && keeper.Observed(s): // it is busy, or there was no time left to ask it
		return "running, no answer yet", api.Summary{Rows: -1}
	case err == nil:
		return "not observed", told
	}
	return "not observed: " + err.Error(), api.Summary{Rows: -1}
}

// describeEnd describes how the session ended. If the job was killed together with its collector, no end is recorded:
// connecting to the session then recovers it.
func describeEnd(ctx context.Context, s *session.Session, sum *api.Listed) {
	if s.Unfinished() {
		if told, err := askSummary(ctx, s); err == nil {
			sum.Ranks = told.Ranks
		}
	}
	end, ok, err := s.End()
	switch {
	case err != nil:
		sum.State = "unknown: " + err.Error()
		return
	case !ok:
		sum.State = "not recovered yet"
		return
	}
	sum.State, sum.Ended, sum.PIDs, sum.Ranks = end.String(), end.Ended, end.PIDs, end.Ranks
	sum.Verdict, sum.Peak = end.Verdict, end.Peak
	if end.Recorded {
		sum.Rows = end.Rows
	}
}

func askSummary(ctx context.Context, s *session.Session) (api.Summary, error) {
	if err := ctx.Err(); err != nil {
		return api.Summary{}, err
	}
	door, err := Connect(ctx, s)
	if err != nil {
		return api.Summary{}, err
	}
	defer door.Close()
	return door.Summary(ctx)
}

// livePIDs returns the live processes, with their ranks: the command, and those with a ring.
func livePIDs(s *session.Session) (pids, ranks []int) {
	for _, p := range s.Processes() {
		if !p.Alive {
			continue
		}
		pids = append(pids, p.PID)
		if p.Rank >= 0 && !slices.Contains(ranks, p.Rank) {
			ranks = append(ranks, p.Rank)
		}
	}
	slices.Sort(pids)
	slices.Sort(ranks)
	return commandFirst(pids, s.Meta.Process.PID), ranks
}

func commandFirst(pids []int, command int) []int {
	if command == 0 {
		return pids
	}
	return append([]int{command}, slices.DeleteFunc(slices.Clone(pids), func(p int) bool { return p == command })...)
}

// diskUse returns the bytes on disk of the session's directories, as du(1) counts them. Files that vanish meanwhile
// count nothing.
func diskUse(s *session.Session) int64 {
	total := du(s.Dir)
	if s.Runtime() != s.Dir {
		total += du(s.Runtime())
	}
	return total
}

func du(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512 // stat(2): always in units of 512 bytes
			}
		}
		return nil
	})
	return total
}
