package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestSlurmProlog: the prolog starts a node as the job's owner with the job's name, and the epilog ends it. Neither
// fails where memgauge is not set up: Slurm would drain the machine.
func TestSlurmProlog(t *testing.T) {
	t.Parallel()
	env.Root(t)
	for _, program := range []string{"setsid", "setpriv", "getent"} {
		if _, err := exec.LookPath(program); err != nil {
			env.Missing(t, program, err)
		}
	}
	// not below the test's own directory, which is root's alone
	dir, err := os.MkdirTemp("", "memgauge-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	stand := "#!/bin/sh\necho \"$(id -u) $HOME $*\" >" + dir + "/said.new && mv " + dir + "/said.new " + dir +
		"/said\nexec sleep 600\n"
	if err := os.WriteFile(filepath.Join(dir, "memgauge"), []byte(stand), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(name string, vars ...string) {
		t.Helper()
		cmd := exec.Command("sh", filepath.Join("../../deploy/slurm", name))
		cmd.Env = append([]string{"PATH=" + dir + ":/usr/sbin:/usr/bin:/sbin:/bin",
			"MEMGAUGE_SLURM_RUN=" + dir + "/run", "MEMGAUGE_SLURM_DEFAULTS=/nonexistent"}, vars...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("prolog.sh", "SLURM_JOB_ID=1") // without a hub
	run("epilog.sh", "SLURM_JOB_ID=1")
	job := []string{"MEMGAUGE_HUB=hub:4222", "SLURM_JOB_ID=991", "SLURM_JOB_UID=65534", "SLURM_JOB_NAME=llama"}
	run("prolog.sh", job...)
	pidFile := filepath.Join(dir, "run", "991.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	until(t, "the node to start", func() bool { return exists(filepath.Join(dir, "said")) })
	said, _ := os.ReadFile(filepath.Join(dir, "said"))
	if got := strings.Fields(string(said)); len(got) < 3 || got[0] != "65534" ||
		strings.Join(got[2:], " ") != "node --join hub:4222 --token-file /etc/memgauge/join.token --job llama-991" {
		t.Errorf("%s", said)
	}
	run("epilog.sh", job...)
	until(t, "the node to end", func() bool { // one that nobody has waited for has no command line any more
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		return len(text) == 0
	})
	if exists(pidFile) {
		t.Error("the epilog has left the pid's file")
	}
}
