package node

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// Hold says to other nodes of this machine that this process answers for a session: until release, or its own end.
func Hold(dir string) (release func(), err error) {
	f, err := rootdir.EditFile(filepath.Join(dir, holdFile))
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
