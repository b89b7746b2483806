// Package cell owns child processes that answer questions from outside: the same program once more, which may read what
// it is given, write its own scratch directory, and nothing else. The kernel bounds its memory and its files, and it
// can be killed at any moment: when the question is called off, when it takes too long, and with its parent. What it
// answers is package api's; which rows it has belongs to whoever starts it. A cell is one process, from Start to Close.
package cell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
)

// Command is the hidden command by which this program is a cell; its argument is the kind.
const Command = "cell"

// Spec says what a cell is for.
type Spec struct {
	Kind string   // which rows it answers for
	Task any      // what it is told about them, as JSON
	Read []string // files and directories that it may read
	Tmp  string   // where its scratch directory is made; "": the system's

	Files []*os.File   // open files that it may read, each at the path that File says; no path leads to them anew
	Work  *rootdir.Dir // a directory that it may write in place of its scratch directory; nil: none

	Memory int64 // bytes that it may take; 0: memory
	File   int64 // bytes that each file may have that it writes; 0: maxFile
}

// File is the path of Spec.Files[i] in the cell.
func File(i int) string { return descriptors + strconv.Itoa(listenerFD+1+i) }

// fence is what the spec leaves open. Descriptors lead where they did when they were opened, whatever was renamed.
func (s Spec) fence(scratch string) fence {
	f := fence{Read: slices.Clone(s.Read), Write: scratch, Memory: memory, File: maxFile, Parent: os.Getpid()}
	for i := range s.Files {
		f.Read = append(f.Read, File(i))
	}
	if s.Work != nil {
		f.Write = File(len(s.Files))
	}
	if s.Memory > 0 {
		f.Memory = uint64(s.Memory)
	}
	if s.File > 0 {
		f.File = uint64(s.File)
	}
	return f
}

// Cell is a running child. Its methods may be called at the same time.
type Cell struct {
	*api.Client
	dir   *scratch
	pid   int
	kill  context.CancelFunc
	ended chan struct{} // closed when the process has been waited for
	said  head          // of what it printed
	state string        // how it ended; likewise
}

// Start starts a cell. It answers as soon as it has opened what it is for; if it can't, its answer is why.
func Start(s Spec) (*Cell, error) {
	task, err := json.Marshal(s.Task)
	if err != nil {
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	dir, err := newScratch(s.Tmp)
	if err != nil {
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	path := filepath.Join(dir.path, "s")
	listener, err := sock.Hand(path)
	if err != nil {
		dir.remove()
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	defer listener.Close()
	ctx, kill := context.WithCancel(context.Background())
	c := &Cell{Client: api.NewClient(path), dir: dir, kill: kill, ended: make(chan struct{})}
	cmd := command(ctx, s.Kind, dir.path, s.fence(dir.path))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(task), &c.said, &c.said
	cmd.ExtraFiles = append([]*os.File{listener}, s.Files...)
	if s.Work != nil {
		work, err := s.Work.Handle()
		if err != nil {
			kill()
			dir.remove()
			return nil, fmt.Errorf("start a cell: %w", err)
		}
		defer work.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, work)
	}
	started := make(chan error, 1)
	go c.run(cmd, started)
	if err := <-started; err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	score := "/proc/" + strconv.Itoa(c.pid) + "/oom_score_adj"
	_ = os.WriteFile(score, []byte(strconv.Itoa(oomScore)), 0) // where that is not allowed it stays as it is
	return c, nil
}

// command is this program as a cell. Of the environment it gets where its libraries lie and the time zone: the rest may
// hold secrets.
func command(ctx context.Context, kind, dir string, f fence) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Command, kind) // also where the file was replaced meanwhile
	cmd.Args[0] = "memgauge"                                         // what ps shows, and tests know it by
	cmd.Dir = dir
	// mallopt(3): with an arena for each thread, each would keep the most that it ever held
	cmd.Env = []string{"TMPDIR=" + f.Write, "MALLOC_ARENA_MAX=2", "GOTRACEBACK=none", fenceKey + "=" + f.text()}
	for _, name := range []string{"LD_LIBRARY_PATH", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	// a session of its own: Ctrl-C is for the parent, which then ends it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// oomScore lets the kernel kill a cell before its parent when memory is short.
const oomScore = 500

// run starts the process and waits for it, all on one thread: a child is killed when the thread ends that started it
// (PR_SET_PDEATHSIG in prctl(2)), and Go ends idle ones.
func (c *Cell) run(cmd *exec.Cmd, started chan<- error) {
	defer close(c.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err != nil {
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	started <- nil
	_ = cmd.Wait() // the state says it
	c.state = cmd.ProcessState.String()
}

// PID is the process's.
func (c *Cell) PID() int { return c.pid }

// killTime is how long a killed process may take to end. One that waits for a file system that does not answer can't be
// ended before it does.
const killTime = 10 * time.Second

// Close kills the process, waits for it, and removes what it wrote.
func (c *Cell) Close() error {
	c.kill()
	select {
	case <-c.ended:
	case <-time.After(killTime):
		go func() {
			<-c.ended
			c.dir.remove()
		}()
		return errors.Join(c.Client.Close(), errors.New("the process that worked on it can't be ended: it waits for a "+
			"file system that does not answer"))
	}
	err := c.Client.Close()
	c.dir.remove()
	return err
}

// Gone reports whether the process has ended.
func (c *Cell) Gone() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// lastWords is how long the end of a process may take whose answer broke off.
const lastWords = 2 * time.Second

// Why explains an answer that broke off: the process has ended.
func (c *Cell) Why(err error) error {
	if !errors.Is(err, api.ErrBroken) {
		return err
	}
	select {
	case <-c.ended:
	case <-time.After(lastWords):
		return err
	}
	why := c.state
	if line := c.said.line(); line != "" {
		why += ", " + line
	}
	return remedy.Add(fmt.Errorf("query: the process that worked on it has ended (%s)", why),
		"the statement needs more memory than it may take: add a WHERE, a GROUP BY or a LIMIT")
}

// Killed reports whether somebody else has ended the process, the kernel when the machine is short of memory, say: that
// says nothing of what it worked on.
func (c *Cell) Killed() bool { return c.Gone() && c.state == killed }

var killed = "signal: " + syscall.SIGKILL.String() // of os.ProcessState

// slack is how long a cell may take beyond a question's own time limit before it is killed: its database gets a second
// to stop (store.Patience).
const slack = 2 * time.Second

// mostTime bounds a question whatever limit it has itself: then its process is to be killed.
const mostTime = 10 * time.Minute

// Within gives a question the time it may take, its own limit or mostTime where that is less, and explains why it has
// no answer. A cell that has failed one is to be closed.
func (c *Cell) Within(ctx context.Context, own time.Duration, ask func(context.Context) error) error {
	ctx, cancel := bound(ctx, own)
	defer cancel()
	err := ask(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, api.ErrTimeout) {
		return cause
	}
	return c.Why(err)
}

func bound(ctx context.Context, own time.Duration) (context.Context, context.CancelFunc) {
	limit, wait := mostTime, mostTime
	if own > 0 && own < mostTime {
		limit, wait = own, own+slack
	}
	return context.WithTimeoutCause(ctx, wait, fmt.Errorf("query: %w of %s", api.ErrTimeout, limit))
}

// maxSaid is how much of a cell's standard error is kept, in bytes: the line that says why it ended.
const maxSaid = 2 << 10

// head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, b[:min(len(b), maxSaid-len(h.text))]...)
	return len(b), nil
}

func (h *head) line() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(string(h.text)), "\n")
	return line
}
