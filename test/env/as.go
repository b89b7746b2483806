package env

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// As runs do with another user's rights, on a thread of its own: Go's own calls change all threads. It needs root, and
// do may start no goroutines, nor end the test.
func As(t testing.TB, uid int, do func()) {
	t.Helper()
	Root(t)
	var wait sync.WaitGroup
	wait.Go(func() {
		runtime.LockOSThread() // a thread that can't come back ends with this goroutine
		if effective(t, unix.SYS_SETRESGID, uid) && effective(t, unix.SYS_SETRESUID, uid) {
			do()
		}
		if effective(t, unix.SYS_SETRESUID, 0) && effective(t, unix.SYS_SETRESGID, 0) {
			runtime.UnlockOSThread()
		}
	})
	wait.Wait()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // such changes take it from the process
		t.Error(err)
	}
}

// effective changes one of this thread's effective ids.
func effective(t testing.TB, call uintptr, id int) bool {
	keep := ^uintptr(0)
	if _, _, e := syscall.RawSyscall(call, keep, uintptr(id), keep); e != 0 {
		t.Errorf("become %d: %v", id, e)
		return false
	}
	return true
}
