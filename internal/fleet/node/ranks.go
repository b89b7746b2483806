package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/outbox"
)

// A job on several machines has a session on each, whose names differ. Its ranks know that they belong together: their
// launcher has told them in the environment, which the session has as rows.

// launched are the variables that say it.
var launched = []string{"MEMGAUGE_JOB", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
	"MASTER_PORT", "TORCHELASTIC_RUN_ID", "PET_RDZV_ID", "JOB_NAME", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_NODEID",
	"SLURM_NTASKS", "SLURM_NNODES", "SLURM_PROCID"}

const (
	// learnTime is for a session to tell its variables, which are some rows. That its collector hangs is told sooner.
	learnTime = time.Minute
	// rankTime is how long a launcher's session waits for its ranks, whose job its first rows are to bear.
	rankTime  = 2 * time.Minute
	maxRanked = 1 << 16 // rows of variables: those of 4,096 processes
)

// JobOfRank is the job of a rank on one of several machines, as its environment says; false of any other process. Where
// nobody gave the job a name, it goes by where its ranks meet.
func JobOfRank(get func(string) string) (j Job, ok bool) {
	number := func(name string) int {
		n, _ := strconv.Atoi(get(name))
		return n
	}
	rank := get("RANK") != "" && number("WORLD_SIZE") > number("LOCAL_WORLD_SIZE") && number("LOCAL_WORLD_SIZE") > 0
	task := get("SLURM_PROCID") != "" && number("SLURM_NNODES") > 1
	if !rank && !task {
		return j, false
	}
	if j = JobFromEnv(get); j.Name == "" && get("MASTER_ADDR") != "" {
		j.Name = "job-" + get("MASTER_ADDR") + "-" + get("MASTER_PORT")
	}
	return j, j.Name != ""
}

// learn finds out a session's job before its first rows are sent, and writes it down; false says that its ranks are to
// be waited for.
func (s *shipping) learn(ctx context.Context, t ask.Target) (known bool, err error) {
	if outbox.Named(t.Dir()) || jobOf(t.Dir(), "", s.n.o.Job).Name != "" {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	ranks, err := variables(ctx, s.n.sessions.open(t, api.Reading))
	if err != nil {
		return false, fmt.Errorf("look for its job: %w", err)
	}
	for _, env := range ranks {
		if j, ok := JobOfRank(func(name string) string { return env[name] }); ok {
			return true, SetJob(t.Dir(), j)
		}
	}
	waits := len(ranks) == 0 && launches(t.About().Command) && t.IsLive() && time.Since(t.About().Started) < rankTime
	return !waits, nil
}

// variables are what launchers have told a session's processes, of those that are a rank.
func variables(ctx context.Context, db api.Querier) (list []map[string]string, err error) {
	type line struct {
		PID   int32  `json:"pid"`
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	rows, err := api.Rows[line](ctx, db, fmt.Sprintf("SELECT pid, name, value FROM process.envs WHERE name IN ('%s') "+
		"AND value <> '<redacted>' ORDER BY pid LIMIT %d", strings.Join(launched, "', '"), maxRanked))
	if err != nil {
		return nil, err
	}
	of := map[int32]map[string]string{}
	for _, r := range rows {
		if of[r.PID] == nil {
			of[r.PID] = map[string]string{}
			list = append(list, of[r.PID])
		}
		of[r.PID][r.Name] = r.Value
	}
	return slices.DeleteFunc(list, func(env map[string]string) bool {
		return env["RANK"] == "" && env["SLURM_PROCID"] == ""
	}), nil
}

// launches says that a command starts ranks after a while.
func launches(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		return slices.Contains([]string{"torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate",
			"deepspeed"}, filepath.Base(word))
	})
}
