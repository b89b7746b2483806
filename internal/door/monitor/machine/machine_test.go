package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// tree writes a machine with cgroup v2: 64 GiB, and a process in a cgroup whose parent has the limit.
func tree(t *testing.T) (root string, pid int) {
	t.Helper()
	root, pid = t.TempDir(), 300
	stat := "300 (python) S 1 300 300 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 18446744073709551615 0 0 0 0 " +
		"0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal: 67108864 kB\nMemFree: 1048576 kB\n" +
			"MemAvailable: 52428800 kB\n",
		"proc/self/mountinfo":                   "30 20 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/300/stat":                         stat,
		"proc/300/cgroup":                       "0::/job/task\n",
		"sys/fs/cgroup/job/memory.max":          "8589934592\n",
		"sys/fs/cgroup/job/task/memory.max":     "max\n",
		"sys/fs/cgroup/job/task/memory.current": "4294967296\n",
		"sys/fs/cgroup/job/task/memory.stat": "anon 3000000000\nfile 1073741824\ninactive_file 805306368\n" +
			"active_file 268435456\nfile_dirty 0\nfile_writeback 0\nslab_reclaimable 1048576\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, pid
}

// gpus are two, of which one was lost.
type gpus struct{}

func (gpus) Close()                  {}
func (gpus) SetVisible(string, bool) {}
func (gpus) Sample(at time.Time, _ func(int) bool, into *model.Samples) time.Duration {
	into.Devices = append(into.Devices[:0], model.GPUDevice{Device: 0, Name: "A"},
		model.GPUDevice{Device: 1, Name: "B"})
	into.GPUs = append(into.GPUs, model.GPUUtilization{Time: at.UnixMicro(), Device: 0, Used: 5, Total: 10,
		State: "ok"},
		model.GPUUtilization{Time: at.UnixMicro(), Device: 1, Used: model.Null, Total: model.Null,
			State: "lost: no answer"})
	return 0
}

func TestReadsARecordedTree(t *testing.T) {
	root, pid := tree(t)
	m, err := New(Options{Root: root, PID: pid, GPUs: gpus{}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	devices, err := m.Devices(t.Context())
	if err != nil || len(devices) != 3 || devices[0].Name != "cgroup /job" ||
		devices[2] != (monitor.Device{ID: "1", Name: "B"}) {
		t.Fatalf("%v %v", devices, err)
	}
	got, err := m.Read(t.Context(), nil)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v %v", got, err)
	}
	if h := got[0]; h.Used != 4<<30-1<<30-1<<20 || h.Total != 8<<30 || h.Kind != "cgroup" || h.Reserved != 4<<30 {
		t.Errorf("host %+v", h)
	}
	if g := got[1]; g.Used != 5 || g.Total != 10 || g.Err != "" {
		t.Errorf("GPU 0 %+v", g)
	}
	if g := got[2]; g.Err != "lost: no answer" {
		t.Errorf("GPU 1 %+v", g)
	}
	if err := os.RemoveAll(filepath.Join(root, "proc", strconv.Itoa(pid))); err != nil {
		t.Fatal(err)
	}
	got, err = m.Read(t.Context(), nil)
	if err != nil || got[0].Err != "the process has ended" || !m.Ended() {
		t.Errorf("after its end: %+v %v", got, err)
	}
}

func TestThisMachine(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Read(t.Context(), nil)
	if err != nil || len(got) != 1 || got[0].Used <= 0 || got[0].Total < got[0].Used || m.Ended() {
		t.Errorf("%+v %v", got, err)
	}
	if _, why, _ := m.Blocks(t.Context(), monitor.Host); why == "" {
		t.Error("blocks out of nothing")
	}
}

// What a reading of host and cgroup costs.
func BenchmarkRead(b *testing.B) {
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	var buf []monitor.Reading
	for b.Loop() {
		if buf, err = m.Read(b.Context(), buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
