package attach

// wait is a system call in which a thread may be borrowed. It blocks, ends by itself only when something happens, and
// no C library makes it while it holds one of the locks that starting a thread takes (malloc's, the stack cache's, the
// loader's). docs/attach.md gives the reasons one by one.
type wait struct {
	name string
	// fits checks the arguments where the number alone doesn't decide.
	fits func(args [6]uint64) bool
	// repeat returns the arguments with which the call can be repeated although the kernel would return EINTR or keep
	// the remaining time to itself; nil where only EINTR is possible.
	repeat func(args [6]uint64) *[6]uint64
	// begun, where it is true, says that EINTR means more to the caller than a repetition: that the kernel has written
	// the remaining time. On an architecture that doesn't tell whether the call has begun, it must be seen to.
	begun func(args [6]uint64) bool
}

const (
	futexWait       = 0
	futexWaitBitset = 9
	futexCommand    = 0x7f
	futexLowLevel   = 2 // the value of glibc's own locks while a thread waits for them (sysdeps/nptl/lowlevellock.h)
)

// lockFree accepts waits for semaphores, conditions and threads' ends, but none for a lock: for its own locks glibc
// waits with plain FUTEX_WAIT and the value 2, musl with a negative one.
func lockFree(args [6]uint64) bool {
	value := int32(args[2])
	switch args[1] & futexCommand {
	case futexWait:
		return value != futexLowLevel && value >= 0
	case futexWaitBitset:
		return true
	}
	return false
}

// absolute repeats a futex wait whose time limit is absolute (or missing).
func absolute(args [6]uint64) *[6]uint64 {
	if args[1]&futexCommand == futexWaitBitset || args[3] == 0 {
		return &args
	}
	return nil
}

// endless repeats a call whose argument i, a number of milliseconds, means that there is no limit.
func endless(i int) func([6]uint64) *[6]uint64 {
	return func(args [6]uint64) *[6]uint64 {
		if int32(args[i]) < 0 {
			return &args
		}
		return nil
	}
}
