package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// seedLines are a document's command lines that begin so.
func seedLines(t *testing.T, begin string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(toolsDocument)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range toolLine.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(line[1], begin) {
			lines = append(lines, strings.Fields(strings.ReplaceAll(line[1], "<master_ip>", "192.168.1.100")))
		}
	}
	return lines
}

const workerProgram = `
import json, memgauge
monitor = memgauge.DistributedMemoryMonitor(role="worker", master_host="192.168.1.100", port=29500)
monitor.start_monitoring()
print("started", flush=True)
input()
monitor.stop_monitoring()
print(json.dumps(monitor.generate_report()), flush=True)
`

// TestSeedsCluster: the document's own words start a master and a worker on machines of their own, each with its own
// name. The master's report has both, with figures that they have told; a machine with another token is not in it.
func TestSeedsCluster(t *testing.T) {
	t.Parallel()
	masters, workers := seedLines(t, "distributed --role master"), seedLines(t, "distributed --role worker")
	if len(masters) < 2 || len(workers) < 2 {
		t.Fatalf("%d masters, %d workers in the document", len(masters), len(workers))
	}
	m := newMachines(t, 4)
	boss, far, python, stranger := newWorld(t), newWorld(t), newWorld(t), newWorld(t)
	on := func(w *world, i int, args ...string) *background {
		name, rest := m.in(i, args...)
		return w.start(name, rest...)
	}
	master := on(boss, 0, append(append([]string{"memgauge"}, masters[0]...), "--json", "--interval", "0.2")...)
	until(t, "the master to listen", func() bool { return strings.Contains(master.err.String(), "[MASTER]") })
	if r := stranger.do("memgauge", workers[0]...); r.code != 1 || !strings.Contains(r.stderr, "--token-file") {
		t.Errorf("a worker without a token: exit %d, %s", r.code, r.stderr)
	}
	copyToken(t, boss, far, nil)
	copyToken(t, boss, python, nil)
	copyToken(t, boss, stranger, func(s string) string { return s[:len(s)-4] + "AAAA" })
	worker := on(far, 1, append([]string{"memgauge"}, workers[0]...)...)
	thief := on(stranger, 3, append([]string{"memgauge"}, workers[0]...)...)
	python.env = append(python.env, "PYTHONPATH="+filepath.Join(env.Checkout(), "python"),
		"MEMGAUGE_BINARY="+filepath.Join(python.home, "bin", "memgauge"))
	name, rest := m.in(2, "python3", "-c", workerProgram)
	program := python.command(name, rest...)
	input, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	class := python.begin(program)
	until(t, "both workers at the master", func() bool {
		return strings.Contains(master.err.String(), "[CLUSTER] 3 nodes: m0, m1, m2")
	})
	until(t, "the worker with another token to be refused", func() bool {
		return strings.Contains(thief.err.String(), "refused")
	})
	_ = thief.Process.Signal(syscall.SIGINT)
	if code := thief.wait(t); code != 1 || thief.out.String() != "" || strings.Contains(master.err.String(), "m3") {
		t.Errorf("a worker with another token: exit %d, %q\n%s%s", code, thief.out, thief.err, master.err)
	}
	input.Close()
	if code := class.wait(t); code != 1 { // input() met the end: nobody stopped it
		t.Errorf("the program ended with %d\n%s", code, class.err)
	}
	until(t, "the master to miss the program's machine", func() bool {
		return strings.Contains(master.err.String(), "m2 (gone)")
	})
	_ = worker.Process.Signal(syscall.SIGINT)
	if code := worker.wait(t); code != 0 || !strings.Contains(worker.out.String(), "m1") {
		t.Errorf("the worker ended with %d\n%s%s", code, worker.out, worker.err)
	}
	_ = master.Process.Signal(syscall.SIGINT)
	if code := master.wait(t); code != 0 && code != 3 {
		t.Fatalf("the master ended with %d\n%s", code, master.err)
	}
	wholeCluster(t, master.out.String())
}

// copyToken brings the master's token to another machine's home, where a worker looks for it by itself.
func copyToken(t *testing.T, from, to *world, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from.home, "state", "hub", "join.token"))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		text = []byte(change(strings.TrimSpace(string(text))) + "\n")
	}
	if err := os.Chmod(to.file("state/hub/join.token", string(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wholeCluster checks the master's report.
func wholeCluster(t *testing.T, text string) {
	t.Helper()
	var d struct {
		Info struct {
			Total     int `json:"total_nodes"`
			Watched   int `json:"watched_nodes"`
			Connected int `json:"connected_nodes"`
		} `json:"cluster_info"`
		Nodes map[string]struct {
			Devices map[string]struct {
				Usage struct{ Allocated, Total int64 } `json:"current_usage"`
			}
		} `json:"node_details"`
		Memory *struct {
			Used  int64 `json:"used_bytes"`
			Total int64 `json:"total_bytes"`
		} `json:"memory_analysis"`
		OOM    *[]any `json:"oom_events"`
		Advice *[]any `json:"recommendations"`
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if d.Info.Total != 3 || d.Info.Watched < 2 || d.OOM == nil || d.Advice == nil || d.Memory == nil {
		t.Fatalf("%s", text)
	}
	var used, total int64
	for name, n := range d.Nodes {
		if name == "m2" && len(n.Devices) == 0 {
			continue // it ended by itself, maybe before it was asked
		}
		host := n.Devices["host"].Usage
		if host.Allocated <= 0 || host.Total <= host.Allocated {
			t.Errorf("%s: %+v", name, host)
		}
		for _, device := range n.Devices {
			used, total = used+device.Usage.Allocated, total+device.Usage.Total
		}
	}
	if d.Memory.Used != used || d.Memory.Total != total {
		t.Errorf("the sums are not those of the nodes: %+v, %d of %d", d.Memory, used, total)
	}
}
