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
	// NewThread starts a new thread from one that is blocked in a system call, or that computes outside the C library.
	// The new thread waits for the GIL like any other.
	NewThread Way = "new thread"
	// RemoteDebug is CPython's own remote debugging (PEP 768), from 3.14 on, for targets that are traced already.
	RemoteDebug Way = "remote debugging"
)

// Options bound an injection.
type Options struct {
	// Timeout is how long to wait for a good moment and for the source to end; 0 means 10 s. After it the source is
	// cancelled: it has not run and will not run, unless the error says that it is running.
	Timeout time.Duration
	// Force enters a process despite its seccomp filters, even if one of them may kill it.
	Force bool
	// Way, unless empty, is the only one to try.
	Way Way
}

// Result describes how the source got in.
type Result struct {
	Way     Way
	Stopped time.Duration // how long one thread of the target was stopped or did our work
	Doing   string        // what the target was doing, such as "main thread in select(2)"
	Python  string        // its version, such as "3.11.7", or "3.8" where the patch number is unknown
	Value   string        // what the source left in its global name `result`, if that is a str
}

// MaxValue bounds the value that the source returns, in bytes of UTF-8: a backtrace of 1,000 threads is 500 KiB.
const MaxValue = 1 << 20

// Errors that a caller may want to distinguish. Those about the target's kind (not Python, another user's, …) carry a
// hint.
var (
	ErrTimeout = errors.New("no way in before the timeout")              // the source has not run and will not run
	ErrRunning = errors.New("the code has not ended before the timeout") // it continues in the target
	// the error's text ends with type, message and line
	ErrRaised = errors.New("the code raised an exception")
)

// Inject runs source in the main interpreter of the process pid and waits for its end. The source runs on a thread of
// its own, which ends with it. All signals but the C library's own are blocked in that thread. It has fresh globals, in
// which `__name__` is "__memgauge__"; a str that it leaves in the global name `result` is returned as Result.Value. An
// exception is caught and returned as ErrRaised; nothing is printed there. A target that can't be entered stays
// untouched.
func Inject(ctx context.Context, pid int, source string, opts Options) (Result, error) {
	if opts.Timeout <= 0 {
		opts.Timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	// a garbage collection of ours could begin while a thread of the target is stopped, and delay us
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
		return i.viaRemoteDebug(ctx)
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
