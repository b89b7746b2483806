package alloc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// allocCommand is the parent of the allocator's commands.
func (a *commands) allocCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "alloc",
		Short: "What another allocator, or other settings, would have done to a job",
		Long: "Tools about device memory that need no device: they replay what a program allocated and freed against allocators with\n" +
			"other settings. They read PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot), traces, logs of RMM and JSON lines,\n" +
			"plain or gzipped, without executing them (docs/formats/trace.md).",
		Example: "  memgauge alloc replay snapshot.pickle --policy torch,vmm --plot replay.png\n" +
			"  memgauge alloc advise snapshot.pickle\n" +
			"  memgauge alloc bench",
	}
	c.AddCommand(a.allocReplayCommand(), a.allocAdviseCommand(), a.allocConvertCommand(), a.allocBenchCommand())
	return c
}

// readTrace opens a file and the history of one device in it: of the only one that has a history, unless device says
// which.
func readTrace(path string, device int) (*snapshot.Trace, error) {
	t, err := snapshot.ReadTrace(path, func(with []int) (int, error) {
		if device >= 0 {
			return device, nil
		}
		return onlyDevice(with)
	})
	if errors.Is(err, snapshot.ErrNoHistory) {
		err = remedy.Add(err, recordHint)
	}
	return t, err
}

const recordHint = "call torch.cuda.memory._record_memory_history() before the steps, and torch.cuda.memory._dump_snapshot(FILE) after them"

// onlyDevice returns the device that has a history of allocations, if exactly one has.
func onlyDevice(with []int) (int, error) {
	switch len(with) {
	case 0:
		return 0, remedy.Add(errors.New("no device has a history of allocations"), recordHint)
	case 1:
		return with[0], nil
	}
	return 0, app.Usage(remedy.Add(fmt.Errorf("devices %s have a history", listed(with)), "say which with --device"))
}

// listed shows a list as people write one.
func listed[T any](list []T) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ", ")
}

// percent shows a share that may lie above one, or below zero.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
