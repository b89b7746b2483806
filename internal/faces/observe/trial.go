package observe

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Trial is a command that runs under observation until its verdict is known.
type Trial struct {
	RunOptions
	Steps   int64         // that it makes before "healthy" counts; 0: all that it makes
	Lasting time.Duration // that it runs before "healthy" counts, where there are no steps; 0: as long as it runs
	Leaks   bool          // it is ended as soon as it is seen to leak
}

// Tried is what a trial has shown.
type Tried struct {
	Ended
	Stopped bool // by us, when the verdict was known
	Report  detect.Report
	Peaks   []questions.Highest
	Losses  []string // that it printed, as it printed them
	Tail    string   // of what it printed
	Seconds float64
}

// Failed reports whether the command ended by itself, and not well: its memory says nothing.
func (t Tried) Failed() bool { return t.Code != 0 && !t.Stopped }

const (
	trialPoll = time.Second      // how often a trial is judged: judging takes some tens of milliseconds
	trialEnd  = 10 * time.Second // how long a command may take to end when it is asked to, before it is killed
	trialPipe = 2 * time.Second  // how long its output is read behind its end: children of it may hold that open
	standing  = 1.25             // times as long as when a leak was first seen, until it is believed
	patient   = 2                // times as many steps as were asked for, until an undecided verdict is taken as it is
)

// Try runs a command under observation. What it prints is not shown: its losses and its end are kept.
func Try(ctx context.Context, o Trial) (Tried, error) {
	said, err := listen(nil)
	if err != nil {
		return Tried{}, err
	}
	o.Stdout, o.Stderr = said.in, said.in
	begun := time.Now()
	r, err := Start(o.RunOptions)
	said.in.Close()
	if err != nil {
		said.end()
		return Tried{}, err
	}
	defer r.Close()
	t := Tried{}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { t.Stopped = o.watch(ctx, r, begun, over) })
	ended := r.Wait(ctx)
	close(over)
	for ended.Pending && ctx.Err() == nil { // a verdict on what has been stored by now would be one on a part
		var err error
		if ended.Summary, ended.Pending, err = finish(ctx, r.session, finishTimeout); err != nil {
			ended.Trouble = errors.Join(ended.Trouble, err)
		}
	}
	watching.Wait()
	t.Ended, t.Seconds = ended, time.Since(begun).Seconds()
	t.Losses, t.Tail = said.end()
	if err := ctx.Err(); err != nil {
		return t, err
	}
	door := ask.Open(r.session)
	defer door.Close()
	if t.Report, err = door.Leak(ctx, api.LeakRequest{}); err != nil {
		return t, err
	}
	t.Peaks, err = api.Ask(ctx, door, questions.Peaks)
	return t, err
}

// watch ends the command when enough is known of it, and says whether it did.
func (o Trial) watch(ctx context.Context, r *Run, begun time.Time, over <-chan struct{}) (stopped bool) {
	door := ask.Open(r.session)
	defer door.Close()
	every := time.NewTicker(trialPoll)
	defer every.Stop()
	seen := 0.0 // when it was first called a leak, in steps or seconds; 0: it is not called one
	for {
		select {
		case <-over:
			return false
		case <-ctx.Done():
			r.stop(over)
			return true
		case <-every.C:
		}
		report, err := door.Leak(ctx, api.LeakRequest{})
		if err != nil {
			continue
		}
		switch at := max(report.Steps, report.Seconds); {
		case report.Verdict != detect.Leak:
			seen = 0
		case seen == 0:
			seen = at
		case o.Leaks && at >= standing*seen:
			return r.stop(over)
		}
		if o.enough(report, time.Since(begun)) {
			return r.stop(over)
		}
	}
}

// enough reports whether a verdict may stand.
func (o Trial) enough(r detect.Report, lasted time.Duration) bool {
	share := 0.0
	switch {
	case o.Steps > 0:
		share = r.Steps / float64(o.Steps)
	case o.Lasting > 0:
		share = lasted.Seconds() / o.Lasting.Seconds()
	}
	return share >= patient || share >= 1 && (r.Verdict == detect.Healthy || r.Verdict == detect.Leak && !o.Leaks)
}

// stop asks the command to end, and kills it where it does not. It says whether the command still ran.
func (r *Run) stop(over <-chan struct{}) bool {
	if r.cmd.Process.Signal(syscall.SIGTERM) != nil {
		return false
	}
	select {
	case <-over:
	case <-time.After(trialEnd):
		_ = r.cmd.Process.Kill() // an error means that it is gone
	}
	return true
}

// listener keeps what a command prints, as far as it is wanted.
type listener struct {
	in, out *os.File
	done    chan struct{}
	mu      sync.Mutex
	losses  []string
	tail    []string
	heard   func(losses int)
}

const (
	maxLosses = 10_000
	maxTail   = 12    // lines of a command's end that are shown
	maxSaid   = 2_000 // bytes of a line
)

// listen makes a pipe for a command to print to. heard is told how many losses there are by now; it may be nil.
func listen(heard func(losses int)) (*listener, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l := &listener{in: in, out: out, done: make(chan struct{}), heard: heard}
	go func() {
		defer close(l.done)
		l.read()
	}()
	return l, nil
}

// loss is a loss as trainings print it: "loss 0.25", "loss=1e-3", "'train_loss': 0.4".
var loss = pattern.Of(`(?i)loss\w*["']?\s*[:= ]\s*(?:tensor\()?([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf))`)

func (l *listener) read() {
	for lines := bufio.NewReaderSize(l.out, maxSaid); ; {
		line, err := lines.ReadSlice('\n')
		for _, part := range strings.Split(strings.TrimRight(string(line), "\r\n"), "\r") { // of a bar of progress
			l.hear(part)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *listener) hear(line string) {
	if line == "" {
		return
	}
	l.mu.Lock()
	if l.tail = append(l.tail, line); len(l.tail) > maxTail {
		l.tail = slices.Delete(l.tail, 0, len(l.tail)-maxTail)
	}
	if m := loss().FindStringSubmatch(line); m != nil && len(l.losses) < maxLosses {
		l.losses = append(l.losses, m[1])
	}
	n := len(l.losses)
	l.mu.Unlock()
	if l.heard != nil {
		l.heard(n)
	}
}

// end ends the reading, and returns what was kept.
func (l *listener) end() (losses []string, tail string) {
	l.in.Close()
	_ = l.out.SetReadDeadline(time.Now().Add(trialPipe))
	<-l.done
	l.out.Close()
	return l.losses, strings.Join(l.tail, "\n")
}

// Losses runs a command as it is, without observation, until it has printed so many losses, or for a time at most.
func Losses(ctx context.Context, o RunOptions, many int, most time.Duration) ([]string, error) {
	path, err := lookPath(o.Command[0], o.Cwd, o.Env)
	if err != nil {
		return nil, notStarted(o.Command[0], err)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	said, err := listen(func(n int) {
		if n >= many {
			cancel()
		}
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, o.Command[1:]...)
	cmd.Args[0], cmd.Dir, cmd.Stdout, cmd.Stderr = o.Command[0], o.Cwd, said.in, said.in
	cmd.Env = append(append(os.Environ(), o.Env...), "MEMGAUGE_DISABLE=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = trialEnd
	_ = cmd.Run() // what it printed is all that counts
	losses, _ := said.end()
	return losses[:min(many, len(losses))], nil
}

// lookPath finds a command's program: in the PATH that it will have, and below the directory in which it will run.
func lookPath(name, cwd string, env []string) (string, error) {
	if cwd != "" && strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(cwd, name)
	}
	for _, e := range slices.Backward(env) {
		dirs, ok := strings.CutPrefix(e, "PATH=")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		for _, dir := range filepath.SplitList(dirs) {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
				return path, nil
			}
		}
		break
	}
	return exec.LookPath(name)
}
