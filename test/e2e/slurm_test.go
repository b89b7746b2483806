package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// started is when a process started, in the kernel's ticks; "" for one that has ended.
func started(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// spares lets the epilog run with notes of processes that are not meant, and wants them and the node, which began then,
// to live on.
func spares(t *testing.T, dir string, run func(name string, vars ...string), pid int, began string) {
	t.Helper()
	bystander := exec.Command("sleep", "600") // root's
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	since := started(t, bystander.Process.Pid)
	for _, forged := range []string{
		fmt.Sprint(bystander.Process.Pid, " ", since, " 65534"), // another user's process
		fmt.Sprint(pid, " 1 65534"),                             // one that has the number later
	} {
		other := filepath.Join(dir, "run", "992.pid")
		if err := os.WriteFile(other, []byte(forged+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		run("epilog.sh", "SLURM_JOB_ID=992", "SLURM_JOB_UID=65534")
		if exists(other) || started(t, pid) != began || started(t, bystander.Process.Pid) != since {
			t.Errorf("%s: a process that was not meant was ended", forged)
		}
	}
}

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
	stand := "#!/bin/sh\necho \"$(id -u) $HOME$SECRET $*\" >" + dir + "/said.new && mv " + dir + "/said.new " + dir +
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
	job := []string{"MEMGAUGE_HUB=hub:4222", "SLURM_JOB_ID=991", "SLURM_JOB_UID=65534", "SLURM_JOB_NAME=llama",
		"SECRET=of-root"}
	run("prolog.sh", job...)
	pidFile := filepath.Join(dir, "run", "991.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	noted := strings.Fields(string(text)) // its pid, when it started, and whose it is
	if len(noted) != 3 || noted[2] != "65534" {
		t.Fatalf("%q", text)
	}
	pid, err := strconv.Atoi(noted[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	until(t, "the node to start", func() bool { return exists(filepath.Join(dir, "said")) })
	said, _ := os.ReadFile(filepath.Join(dir, "said"))
	if got := strings.Fields(string(said)); len(got) < 3 || got[0] != "65534" || strings.Contains(got[1], "root") ||
		strings.Join(got[2:], " ") != "node --join hub:4222 --token-file /etc/memgauge/join.token --job llama-991" {
		t.Errorf("%s", said)
	}
	spares(t, dir, run, pid, noted[1])
	run("epilog.sh", job...)
	until(t, "the node to end", func() bool { // one that nobody has waited for has no command line any more
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		return len(text) == 0
	})
	if exists(pidFile) {
		t.Error("the epilog has left the pid's file")
	}
}
