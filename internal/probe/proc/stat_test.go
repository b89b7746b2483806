package proc

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A process that was killed is seen to die before its parent has waited for it; one that runs or has stopped is not.
func TestDying(t *testing.T) {
	fs := New("/proc")
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if fs.Dying(pid) {
		t.Error("a process that has stopped is not dying")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !fs.Dying(pid); runtime.Gosched() { // a moment lies between signal and end
		if time.Now().After(end) {
			t.Fatal("it was killed")
		}
	}
	_ = cmd.Wait()
	if fs.Dying(pid) || fs.Dying(os.Getpid()) {
		t.Error("one that is gone or lives is dying")
	}
	for text, want := range map[string]bool{
		"Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n": true,
		"Name:\tx\nSigPnd:\t0000000000000200\nShdPnd:\t0000000000000100\n": false,
		"Name:\tx\nSigPnd:\tnonsense":                                      false, "": false,
	} {
		if killed([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
