package attach

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

// Way is a way into an interpreter.
type Way string

const (
	// NewThread starts a thread from one that is blocked in a system call, or computes outside the C library; the new
	// one waits for the GIL like any other.
	NewThread Way = "new thread"
	// RemoteDebug is CPython's own door (PEP 768), from 3.14 on, for targets that are traced already.
	RemoteDebug Way = "remote debugging"
)

// Options bound an injection.
type Options struct {
	// Timeout is how long to wait for a good moment and for the source to end; 0 means 10 s. Past it the source is
	// called back: it has then not run and will not run, unless the error says that it is running.
	Timeout time.Duration
	// Force enters a process whatever its seccomp filters do: one of them may kill it.
	Force bool
	// Way, unless empty, is the only one to try.
	Way Way
}

// Result tells how the source got in.
type Result struct {
	Way     Way
	Stopped time.Duration // how long one thread of the target did our work or stood still for it
	Doing   string        // what the target was doing, such as "main thread in select(2)"
	Python  string        // its version, such as "3.11.7", or "3.8" where it doesn't tell more
	Value   string        // what the source left in its global name `result`, if that is a str
}

// MaxValue bounds what comes back from the source, in bytes of UTF-8: a backtrace of 1,000 threads is 500 KiB.
const MaxValue = 1 << 20

// Errors that a caller may want to tell apart. Those of the target's kind (not Python, another user's, …) carry a hint.
var (
	ErrTimeout = errors.New("no way in before the timeout")              // the source has not run and will not run
	ErrRunning = errors.New("the code has not ended before the timeout") // it goes on in the target
	// the error's text ends with type, message and line
	ErrRaised = errors.New("the code raised an exception")
)

// Inject runs source in the main interpreter of the process pid, from a thread of its own there that ends with it, and
// waits for its end. All signals but the C library's own are blocked in that thread; it has fresh globals, in which
// `__name__` is "__memgauge__"; a str that it leaves in the global name `result` comes back as Result.Value. What it
// raises is caught and comes back as ErrRaised; nothing is printed there. A target that can't be entered stays
// untouched.
func Inject(ctx context.Context, pid int, source string, opts Options) (Result, error) {
	if opts.Timeout <= 0 {
		opts.Timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	// a collection could begin while a thread of the target is held, and hold us up
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	program, err := wrap(source)
	if err != nil {
		return Result{}, err
	}
	t, err := inspect(&Target{PID: pid, Force: opts.Force})
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	i := &injection{Target: t, source: program, only: opts.Way, result: Result{Python: t.Python.String()}}
	return i.run(ctx)
}

func (i *injection) run(ctx context.Context) (Result, error) {
	i.doing = "main thread " + i.glance(i.PID).doing
	switch {
	case i.only == RemoteDebug && i.readFilters:
		return i.result, filtered("only a thread that is held lets them be read")
	case i.held != nil, i.only == RemoteDebug:
		return i.knock(ctx)
	}
	if err := i.mapBlock(ctx); err != nil {
		return i.result, err
	}
	err := i.write()
	if err == nil {
		err = i.enter(ctx)
	}
	if err != nil {
		i.unmap(ctx)
		return i.result, err
	}
	out, err := i.await(ctx)
	if err == nil {
		i.result.Value, err = unwrap(out)
	}
	return i.result, err
}
