package inventory

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Leftovers(m) }

// A real Python process is found with its memory, command line and share of a core; what runs no Python is not.
func TestMachine(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		env.Missing(t, "python3", err)
	}
	cmd := exec.Command(python, "-c", "print('ready', flush=True)\nwhile True: pass", "a label")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	m, err := Open("/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	now := time.Now()
	for range 2 {
		v, err := m.Read(now)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(v.Processes, func(p Process) bool { return p.PID == cmd.Process.Pid })
		if i < 0 {
			t.Fatalf("process %d is not among %+v", cmd.Process.Pid, v.Processes)
		}
		p := v.Processes[i]
		if p.RSS < 1<<20 || p.Label()[:2] != "-c" || v.Host.Total < p.RSS || (p.CPU < 0) != (m.views == 1) {
			t.Errorf("%+v of %+v", p, v.Host)
		}
		now = now.Add(time.Second)
	}
}
