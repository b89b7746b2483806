package sampler

import (
	"testing"

	"github.com/memgauge/memgauge/internal/probe/proc"
)

// TestRoles: a process that makes steps is a trainer; one that a trainer started and that makes none is a worker,
// whatever it has loaded.
func TestRoles(t *testing.T) {
	const train = "python train.py"
	type process struct {
		ppid          int
		comm, command string
		torch, steps  bool
		want          string
	}
	for name, list := range map[string]map[int]process{
		"loader's workers that have loaded PyTorch": {
			1: {0, "python", train, true, true, RoleTrainer}, 2: {1, "pt_data_worker", train, true, false, RoleWorker},
			3: {1, "python", train, true, false, RoleWorker},
			4: {1, "python", "python -c from multiprocessing.spawn import …", true, false, RoleWorker}},
		"before the first step": {1: {0, "python", train, true, false, RoleTrainer},
			2: {1, "pt_data_worker", train, true, false, RoleWorker}},
		"ranks of torchrun": {1: {0, "torchrun", "torchrun train.py", true, false, RoleLauncher},
			2: {1, "python", train, true, true, RoleTrainer},
			3: {1, "python", train, true, true, RoleTrainer}, 4: {3, "python", train, true, false, RoleWorker}},
		"ranks that were spawned": {1: {0, "python", train, true, false, RoleLauncher},
			2: {1, "python", "python -c from multiprocessing.spawn import …", true, true, RoleTrainer}},
		"a service": {1: {0, "gunicorn", "gunicorn app", false, false, RoleMain},
			2: {1, "gunicorn", "gunicorn app", false, false, RoleOther}},
		"a forked worker that trains itself": {1: {0, "python", train, true, true, RoleTrainer},
			2: {1, "python", train, true, true, RoleTrainer}},
	} {
		m := newMembers(proc.New("/proc"))
		for pid, p := range list {
			about := Nothing
			about.Trainer, about.Steps = p.torch, p.steps
			m.byPID[pid] = &member{usage: usage(pid, p.ppid, p.comm), command: p.command, about: about}
		}
		m.assignRoles()
		for pid, p := range list {
			if got := m.byPID[pid].role; got != p.want {
				t.Errorf("%s: process %d is %s, want %s", name, pid, got, p.want)
			}
		}
	}
}

func usage(pid, ppid int, comm string) (u proc.Usage) {
	u.PID, u.PPID, u.Comm = pid, ppid, comm
	return u
}
