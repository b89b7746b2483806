package env

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Exchange exchanges two names as fast as it can, until stop: one that is looked at becomes a link at the last moment.
func Exchange(a, b string) (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	})
	return func() { close(done); wait.Wait() }
}
