package observe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/probe/attach"
	"github.com/memgauge/memgauge/internal/probe/native"
	"github.com/memgauge/memgauge/internal/record/session"
)

// nativeInterval reads how many bytes lie between two samples; 0 for no samples.
func nativeInterval(command, text string) (units.Bytes, error) {
	if text == "" {
		return 0, nil
	}
	size, err := units.ParseBytes(text)
	if err != nil || size < native.MinInterval || size > native.MaxInterval {
		return 0, wrongOption("%s: --native=%s: not a size between %s and %s", command, text, native.MinInterval,
			native.MaxInterval)
	}
	return size, nil
}

// installNative unpacks the library beside the sessions, if it is wanted: a session that can't have what was asked for
// is not begun.
func installNative(command string, interval units.Bytes) (path string, err error) {
	if interval == 0 {
		return "", nil
	}
	home, err := session.Home()
	if err == nil {
		err = native.Refuse(command, os.Getenv("LD_PRELOAD"))
	}
	if err == nil {
		path, err = native.Install(home)
	}
	if err != nil {
		return "", fmt.Errorf("run --native: %w", err)
	}
	return path, nil
}

// withNative is the command's environment with the library, or without that of a session around this one.
func withNative(env []string, s *session.Session, library string, interval units.Bytes) ([]string, error) {
	if library == "" {
		return native.Without(env), nil
	}
	if err := s.MakeNative(); err != nil {
		return nil, fmt.Errorf("run --native: %w", err)
	}
	return native.Env(env, library, s.Native(), interval), nil
}

// sampling is what brings the library into processes that run already; without an interval it brings none.
type sampling struct {
	interval units.Bytes
	force    bool
	library  string
	unseen   []Unseen
}

// Unseen are the allocators that are linked into modules of a process, with these: no sample sees what they hand out.
type Unseen struct {
	PID        int    `json:"pid"`
	Allocators string `json:"allocators"`
}

// admit refuses a process that can't be sampled, before anything is done to it, and unpacks the library for it.
func (n *sampling) admit(s *session.Session, pid int) error {
	if n.interval == 0 {
		return nil
	}
	home, err := session.Home()
	if err == nil {
		err = native.RefuseRunning(pid)
	}
	if err == nil && !n.force {
		err = attach.Unfiltered(pid)
	}
	if err == nil {
		n.library, err = native.Install(home)
	}
	if err == nil {
		err = s.MakeNative()
	}
	if err == nil && (!sees(pid, s.Native()) || !sees(pid, filepath.Dir(n.library))) {
		err = remedy.Add(errors.New("it doesn't see the session's directory, where its samples would lie"),
			"attach as its own user, from inside its container, or without --native")
	}
	if err != nil {
		return fmt.Errorf("--native: process %d: %w", pid, err)
	}
	return nil
}

// begin has the agent that is in a process bring the library in.
func (n *sampling) begin(ctx context.Context, s *session.Session, pid int) error {
	if n.interval == 0 {
		return nil
	}
	c, err := dialIn(ctx, s, pid)
	if err != nil {
		return fmt.Errorf("--native: process %d: %w", pid, err)
	}
	defer c.Close()
	unseen := native.Unseen(pid)
	err = c.Settings(ctx, map[string]string{"native": fmt.Sprintf("%d\t%s\t%s", n.interval, n.library, unseen)})
	if err != nil {
		return remedy.Add(fmt.Errorf("--native: process %d: %w", pid, err),
			"attach without --native, which tells how much native memory grows, or start it with memgauge run --native")
	}
	if unseen != "" {
		n.unseen = append(n.unseen, Unseen{PID: pid, Allocators: unseen})
	}
	return nil
}

// dialIn connects to the agent in a process of a session.
func dialIn(ctx context.Context, s *session.Session, pid int) (*agent.Client, error) {
	processes := s.Processes()
	i := slices.IndexFunc(processes, func(p session.Process) bool { return p.PID == pid && p.Alive })
	if i < 0 {
		return nil, errors.New("it has ended")
	}
	return agent.Dial(ctx, processes[i].Socket)
}
