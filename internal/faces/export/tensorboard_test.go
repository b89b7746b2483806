package export

import (
	"bytes"
	"io"
	"path"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/fakesession"
)

// A process that a reading has met once, as it does the ldconfig that PyTorch's import starts, has no curve and so no
// run; and what makes steps is a trainer, also where the process tree was last told before it made any.
func TestRunsAreOfProcessesWithCurves(t *testing.T) {
	rows := fakesession.Rows()
	at := fakesession.Started.UnixMicro()
	for i := range rows.Samples.Tree {
		if p := &rows.Samples.Tree[i]; p.PID == fakesession.Rank1 {
			p.Role = "main"
		}
	}
	for pid, readings := range map[int32]int64{77: 1, 78: 3} {
		rows.Samples.Tree = append(rows.Samples.Tree, model.TreeProcess{PID: pid, StartTicks: 9, Rank: -1,
			Role: "other", Started: at, FirstSeen: at, LastSeen: at})
		for i := range readings {
			rows.Samples.Memory = append(rows.Samples.Memory, model.ProcessMemory{Time: at + i*1_000_000, PID: pid,
				StartTicks: 9, Rank: -1, RSS: 1 << 20})
		}
	}
	s := fakesession.Finished(t)
	s.Rows = fakesession.Stored(t, rows)
	var runs []string
	_, err := TensorBoard(t.Context(), s, func(name string) (io.Writer, error) {
		runs = append(runs, path.Dir(name))
		return &bytes.Buffer{}, nil
	})
	slices.Sort(runs)
	if want := []string{"other78", "rank0", "rank1", "worker5000020"}; err != nil || !slices.Equal(runs, want) {
		t.Errorf("%v, %v; want %v", runs, err, want)
	}
}
