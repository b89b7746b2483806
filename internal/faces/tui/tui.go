// Package tui shows sessions and this machine on a terminal: `memgauge top`, and what the prompt shows in full screen.
// It owns the screens, their keys and their drawing, and reads a session through api.Session alone. What else it needs
// of the world is an interface that its caller fills: Doors. Nothing that comes from elsewhere reaches the terminal
// before package plain has made it safe. It is the only importer of bubbletea.
package tui

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/probe/inventory"
)

// Doors are the ways out of the terminal. Each may take seconds, ends with its context, and is called by one goroutine
// at a time.
type Doors interface {
	// Sessions lists the live sessions; with finished the others too.
	Sessions(ctx context.Context, finished bool) ([]api.Listed, error)
	// Open makes the door to the session in a directory.
	Open(ctx context.Context, dir string) (api.Session, error)
	// Machine looks at this machine.
	Machine(ctx context.Context) (inventory.View, error)
	// Attach brings a process under observation and tells the session.
	Attach(ctx context.Context, pid int) (session, dir string, err error)
}

// Options of a run.
type Options struct {
	Doors    Doors
	Session  api.Session // to begin with; nil: the machine. It is closed at the end.
	PID      int         // a process of it to point at; 0: none
	Interval time.Duration
	Speed    float64 // of the replay of a finished session that begins at once; 0: it stands at its end
	Mouse    bool
	Location *time.Location // of the times that are shown

	In, Out *os.File
	Environ []string
	now     func() time.Time // nil: the clock
}

// framesPerSecond is how often the screen may change: a key is answered within 100 ms, and an idle terminal costs a
// timer that fires so often.
const framesPerSecond = 10

// Run shows the screens until the user leaves or ctx ends. The terminal is as before when it returns, also after a
// panic of ours, which comes back as an error with its stack.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	p := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithEnvironment(o.Environ), tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, p.Quit) // bubbletea's own way to end with ctx leaves its reader behind
	_, err := p.Run()
	stop()
	cancel()
	m.jobs.wait()
	m.close()
	if err = cmp.Or(err, m.crash); err != nil {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// Once writes the first frame of a size as text without colours, after everything for it has been read.
func Once(ctx context.Context, o Options, wide, high int, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	defer m.close()
	m.wide, m.high = wide, high
	if err := m.settle(m.top().start(m)); err != nil {
		return err
	}
	for _, line := range m.lines() {
		if _, err := fmt.Fprintln(w, strings.TrimRight(strip(line), " ")); err != nil {
			return err
		}
	}
	return nil
}

// jobs are the questions under way; none outlives Run.
type jobs struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

func (j *jobs) enter() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false
	}
	j.group.Add(1)
	return true
}

func (j *jobs) wait() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.group.Wait()
}
