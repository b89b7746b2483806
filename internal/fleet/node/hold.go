package node

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Hold says to other nodes of this machine that this process answers for a session: until release, or its own end.
func Hold(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, holdFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold the session: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("hold the session: %w", err)
	}
	return func() { f.Close() }, nil
}

// tryLock says whether nobody holds the file exclusively. The lock ends with the file.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}
