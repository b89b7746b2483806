package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestRunForwardsSignals: what is sent to `memgauge run` alone reaches the command, each kind of signal that means
// something there.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := w.file("signals.py", `import os, signal
os.write(1, b"process %d\n" % os.getpid())
for n in signal.valid_signals():
    if n not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
        signal.signal(n, lambda n, frame: print("got %d" % n, flush=True))
print("ready", flush=True)
while True: signal.pause()
`)
	// under nohup the hang-up is ignored, here and in what is started: not while it is asked for
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(heard)
	run := w.start("memgauge", "run", "--quiet", "--", "python3", script)
	until(t, "the command", func() bool { return strings.Contains(run.out.String(), "ready") })
	signals := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTERM,
		syscall.SIGSTKFLT, syscall.SIGCONT, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGVTALRM, syscall.SIGWINCH,
		syscall.SIGIO, syscall.SIGPWR, 35, 50, 64}
	for _, sig := range signals {
		if err := run.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		until(t, sig.String(), func() bool {
			return strings.Contains(run.out.String(),
				fmt.Sprintf("got %d\n", int(sig)))
		})
	}
	line, _, _ := strings.Cut(run.out.String(), "\n") // written before a signal could come between
	child, err := strconv.Atoi(strings.TrimPrefix(line, "process "))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(child, syscall.SIGKILL)
	if code := run.wait(t); code != 128+9 {
		t.Errorf("exit %d, want 137", code)
	}
}

// TestRunLeavesIgnoredSignals: after nohup a hangup means nothing, to us and to the command.
func TestRunLeavesIgnoredSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := w.file("nohup.py", `import signal, time
print("ready" if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else "changed", flush=True)
time.sleep(1)
print("done", flush=True)
`)
	run := w.start("sh", "-c", "trap '' HUP; exec memgauge run --quiet -- python3 "+script)
	until(t, "the command", func() bool { return run.out.String() != "" })
	if err := run.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := run.wait(t); code != 0 || run.out.String() != "ready\ndone\n" {
		t.Errorf("exit %d, %q", code, run.out.String())
	}
}
