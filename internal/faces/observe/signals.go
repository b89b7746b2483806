package observe

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSignals bounds the signals that may arrive while the forwarding loop waits for a CPU.
const maxSignals = 256

// catchSignals keeps signals for the command from ending this process. A signal that was ignored at our start (nohup)
// stays ignored, for the command too.
func catchSignals() chan os.Signal {
	ch := make(chan os.Signal, maxSignals)
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if forwarded(sig) && !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch
}

const lastSignal = 64 // SIGRTMAX

// forwarded reports whether a signal to this process is forwarded to the command. These are not: signals that can't be
// caught; those about this process alone (our children, a write to a closed pipe, our faults, profiling); stops; those
// that C libraries send to their own threads; and SIGURG, which Go's runtime sends to its own threads many times a
// second (runtime/signal_unix.go, sigPreempt).
func forwarded(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN,
		syscall.SIGTTOU,
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT,
		syscall.SIGSYS,
		syscall.SIGPROF, syscall.SIGURG, 32, 33, 34:
		return false
	}
	return true
}

// waitFor waits for the command and forwards signals that it has not received itself.
func waitFor(cmd *exec.Cmd, signals <-chan os.Signal) *os.ProcessState {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // the state says it
	}()
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				_ = cmd.Process.Signal(sig) // an error means that it is gone
			}
		case <-done:
			return cmd.ProcessState
		}
	}
}

// fromTerminal reports whether a signal most likely came from the terminal's keyboard or its closing: then the kernel
// gave it to the whole foreground process group, the command included, and passing it on would deliver it twice.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGHUP && sig != syscall.SIGWINCH {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}
