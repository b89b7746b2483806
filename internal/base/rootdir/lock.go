package rootdir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks an open file for whoever uses it (flock(2)), alone or with others, until Unlock or the end of the
// process. It does not wait: unix.EWOULDBLOCK says that somebody else has it.
func TryLock(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	return unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
}

// Unlock gives the lock back and closes the file. Closing alone would not do: a child that another goroutine is just
// starting has a copy of the descriptor until its exec, and with it the lock.
func Unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
