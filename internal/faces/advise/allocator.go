package advise

import (
	"context"
	"errors"
	"fmt"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/replay"
)

// savesFrom is the share of the reserved memory that a setting of the allocator must save before it is worth a change;
// alloc advise has the same.
const savesFrom = 0.01

// Allocator replays a snapshot's history with other settings; nil, and why, where none is worth it.
func Allocator(ctx context.Context, path string) (*Advice, string, error) {
	t, err := snapshot.ReadTrace(path, func(with []int) (int, error) {
		if len(with) == 0 {
			return 0, snapshot.ErrNoHistory
		}
		return with[0], nil
	})
	if errors.Is(err, snapshot.ErrNoHistory) {
		return nil, "the session's memory snapshot has no history of allocations, so no allocator setting was " +
			"tried", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer t.Close()
	all, err := replay.Advise(ctx, t, replay.RecordedConf(t.Settings), replay.Unlimited)
	if err != nil {
		return nil, "", err
	}
	for i := range all.Trials {
		trial := &all.Trials[i]
		if trial.Policy == "torch" && trial.Conf != "" && trial.OOM == nil && all.Proven(trial, savesFrom) {
			return ofTrial(t.Device, all, trial), "", nil
		}
	}
	return nil, fmt.Sprintf("no setting of PyTorch's allocator would have saved 1 %% of the %s that it reserved",
		units.Bytes(all.Base.PeakReserved)), nil
}

func ofTrial(device int, all *replay.Advice, t *replay.Trial) *Advice {
	saves := all.Saved(t)
	a := &Advice{Setting: "allocator", Change: t.Conf, Memory: fmt.Sprintf("cuda:%d", device), Saves: &saves,
		Known: Simulated, Sure: "high", Costs: fmt.Sprintf("%s driver calls instead of %s",
			units.Count(t.DriverCalls), units.Count(all.Base.DriverCalls)),
		Evidence: fmt.Sprintf("the snapshot's allocations, replayed: %s reserved instead of %s",
			units.Bytes(t.PeakReserved), units.Bytes(all.Base.PeakReserved)),
		Set: environment("PYTORCH_ALLOC_CONF=" + t.Conf), rank: 0.8}
	if off := all.Off(); off != 0 {
		a.Sure = "medium" // the replay of the recorded settings is not what was recorded
	}
	return a
}
