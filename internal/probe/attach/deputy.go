package attach

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// deputy is an OS thread of ours with the target's rights to files and none of root's. What it is asked for, the kernel
// grants or refuses as it would the target, whatever the target has linked or mounted there. Only the user and group
// for files are the target's (credentials(7)): with those of the process, its user could send us signals.
type deputy struct {
	calls   chan func() error
	results chan error // closed when the thread ends
}

// newDeputy starts a thread with the rights of the process whose status this is.
func newDeputy(s status) (*deputy, error) {
	d := &deputy{make(chan func() error), make(chan error)}
	go d.run(s)
	if err := <-d.results; err != nil {
		<-d.results
		return nil, fmt.Errorf("take the rights of user %d: %w", s.fsuid, err)
	}
	return d, nil
}

func (d *deputy) run(s status) {
	runtime.LockOSThread() // never unlocked: the thread ends here, and nothing else gets to run with its rights
	defer close(d.results)
	err := assume(s)
	d.results <- err
	if err != nil {
		return
	}
	for f := range d.calls {
		d.results <- f()
	}
}

// do runs f on the thread and waits for its end.
func (d *deputy) do(f func() error) error {
	d.calls <- f
	return <-d.results
}

func (d *deputy) end() {
	close(d.calls)
	<-d.results
}

// assume changes the calling thread's rights for good. Unless we are root, a target has ours.
func assume(s status) error {
	if s.fsuid == os.Geteuid() {
		return nil
	}
	if err := unix.Setgroups(s.groups); err != nil { // x/sys's: of this thread alone
		return fmt.Errorf("set groups: %w", err)
	}
	// these two report no errors: setfsuid(2) wants another call, which changes nothing and tells the present one
	_, _ = unix.SetfsgidRetGid(s.fsgid)
	_, _ = unix.SetfsuidRetUid(s.fsuid)
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != s.fsgid || uid != s.fsuid {
		return fmt.Errorf("set user and group for files: %w", unix.EPERM)
	}
	var none [2]unix.CapUserData // the securebit no_setuid_fixup would have left us those for files
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
