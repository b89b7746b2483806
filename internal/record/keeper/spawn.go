package keeper

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/record/session"
)

// SpawnCollector starts a collector for the session as a process of its own, which survives the terminal and its
// parent. If a collector exists already, the new one ends at once.
func SpawnCollector(s *session.Session) (*exec.Cmd, error) {
	return spawn(s, "collector", "--session", s.Dir)
}

func spawn(s *session.Session, args ...string) (*exec.Cmd, error) {
	defer session.PrivateFiles()()
	log, err := rootdir.AppendFile(s.Log())
	if err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	defer log.Close()
	cutLog(log)
	cmd := exec.Command(program(), args...)
	cmd.Args[0] = "memgauge" // what ps shows, and by which a test binary recognises its role
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	// mallopt(3): with an arena for each thread, each would keep the most that it ever held
	cmd.Env = append(os.Environ(), "MALLOC_ARENA_MAX=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start collector: %w", err)
	}
	return cmd, nil
}

// program is this very program. Where its file was removed, another user may have put one in its place, in a directory
// like /tmp. By its path it has its name in ps and in the picture of a job's processes.
func program() string {
	const self = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return self
	}
	there, err := os.Stat(path)
	if err != nil {
		return self
	}
	if us, err := os.Stat(self); err != nil || !os.SameFile(there, us) {
		return self
	}
	return path
}

// Spawn starts a keeper as a process of its own, for a session that no other process stays with.
func Spawn(s *session.Session) error {
	cmd, err := spawn(s, "collector", "--keep", "--session", s.Dir)
	if err != nil {
		return err
	}
	return cmd.Process.Release()
}
