package sampler

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// TestLiveTree watches real processes come and go: a shell, its child, and a grandchild that outlives its parent.
func TestLiveTree(t *testing.T) {
	cmd := exec.Command("sh", "-c", "cat >/dev/null <&3 & exec 3<&-; read x; exit 0")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{r}
	cmd.Env = append(os.Environ(), "MY_API_KEY=abc", "PLAIN=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	s := New(Options{Roots: func() []int { return []int{cmd.Process.Pid} }, About: func(pid int) About {
		return About{Rank: 3, Trainer: pid == cmd.Process.Pid, HeapInUse: 5, HeapHeld: 7}
	}})
	defer s.Close()
	tree := map[int32]model.TreeProcess{}
	envs := map[string]string{}
	sample := func() *model.Samples {
		out := s.Sample()
		for _, p := range out.Tree {
			tree[p.PID] = p
		}
		for _, e := range out.Envs {
			envs[e.Name] = e.Value
		}
		return out
	}
	var out *model.Samples
	eventually(t, "a child", func() bool { out = sample(); return len(out.Memory) == 2 && out.Memory[1].RSS > 0 })
	root := out.Memory[0]
	if int(root.PID) != cmd.Process.Pid && int(out.Memory[1].PID) != cmd.Process.Pid {
		t.Errorf("rows of %+v", out.Memory)
	}
	if root.Rank != 3 || root.HeapInUse != 5 || root.Anon <= 0 || root.File <= 0 || root.HWM < root.RSS ||
		root.PageTables <= 0 {
		t.Errorf("%+v", root)
	}
	if envs["MY_API_KEY"] != secret.Hidden || envs["PLAIN"] != "1" {
		t.Errorf("environment %v", envs)
	}
	if len(out.Hosts) != 1 || out.Hosts[0].Total < 1<<28 || out.Hosts[0].Available <= 0 || out.Hosts[0].ShmTotal <= 0 {
		t.Errorf("host %+v", out.Hosts)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	out = sample()
	if p := tree[int32(cmd.Process.Pid)]; !p.Ended || p.Role != RoleTrainer || p.PeakRSS <= 0 ||
		!strings.Contains(p.Command, "read x") {
		t.Errorf("the shell's last row is %+v", p)
	}
	if len(out.Memory) != 1 {
		t.Errorf("the grandchild is lost: %+v", out.Memory)
	}
	w.Close()
	eventually(t, "the grandchild's end", func() bool { return len(sample().Memory) == 0 })
	if rows := s.Overheads(time.Now()); len(rows) < 5 || rows[0].NS <= 0 || rows[0].CoveredNS <= 0 {
		t.Errorf("overheads %+v", rows)
	}
}

func BenchmarkSample(b *testing.B) {
	s := New(Options{Roots: func() []int { return []int{os.Getpid()} }})
	for b.Loop() {
		s.Sample()
	}
	for _, o := range s.Overheads(time.Now()) {
		b.ReportMetric(float64(o.NS)/float64(o.Count)/1e3, strings.ReplaceAll(strings.TrimPrefix(o.Part, "sampler: "),
			" ", "_")+"-µs")
	}
}
