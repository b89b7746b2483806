package cell

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// kept is the only capability that root's cells keep, as a bit: to read files of any owner, which the fence narrows.
const kept = 1 << unix.CAP_DAC_READ_SEARCH

// dropRights takes root's capabilities from the calling thread, and from what it executes (capabilities(7)). With them
// a cell could look into any process in spite of Landlock (kernel/fork.c, may_access_mm).
func dropRights() error {
	const noRoot = 1<<0 | 1<<1 // SECBIT_NOROOT and its lock (linux/securebits.h): uid 0 alone gives no capability
	err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0)
	if errors.Is(err, unix.EPERM) { // no root, or that of a container without CAP_SETPCAP
		err = nil
	}
	if err != nil {
		return fmt.Errorf("give up root's rights: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return fmt.Errorf("give up root's rights: %w", err)
	}
	stays := have[0].Permitted & kept
	all := [2]unix.CapUserData{{Effective: stays, Permitted: stays, Inheritable: stays}}
	if err := unix.Capset(&head, &all[0]); err != nil {
		return fmt.Errorf("give up root's rights: %w", err)
	}
	if stays == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_DAC_READ_SEARCH, 0, 0); err != nil {
		return fmt.Errorf("keep the right to read: %w", err)
	}
	return nil
}
