package ptrace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxStop bounds the wait for a thread to stop. One that computes stops within a scheduling interval; one in an
// uninterruptible system call (state D) may take as long as its device.
const maxStop = time.Second

// maxSpin is how long we poll for the stop without a pause. A thread that has a processor stops within some µs; during
// a pause it would stay stopped for longer.
const maxSpin = time.Millisecond

// Errors of a thread that was released untouched.
var (
	ErrGone    = errors.New("the thread has ended")
	ErrStopped = errors.New("the process is stopped by a signal")
	ErrBusy    = errors.New("the thread does not stop (uninterruptible in the kernel)")
)

// Held is a stopped thread. It is valid only inside the function given to Hold.
type Held struct {
	TID   int
	Regs  Regs
	Mask  uint64 // its signal mask
	since time.Time
	aside bool // it is on another processor than ours
	space *space
}

// space is memory that is needed while a thread is stopped. It is allocated and written beforehand: a page fault takes
// as long as all that is done with the thread.
type space struct {
	state   [MaxChain]byte
	chain   [MaxChain]byte
	stack   [MaxStack]byte
	signals [maxPending]siginfo
	archSpace
}

// MaxStack bounds how much of a stopped thread's stack can be read.
const MaxStack = 64 << 10

// Stack reads the thread's memory at an address, up to len(space.stack) bytes. The result is valid while the thread is
// stopped.
func (h *Held) Stack(mem io.ReaderAt, at uint64, n uint64) ([]byte, error) {
	b := h.space.stack[:min(n, MaxStack)]
	if _, err := mem.ReadAt(b, int64(at)); err != nil {
		return nil, fmt.Errorf("read stack: %w", err)
	}
	return b, nil
}

// Hold stops a thread, calls f, and releases the thread. It returns how long the thread was stopped. What f has not
// changed through Enter is as it was.
func Hold(tid int, f func(*Held) error) (stopped time.Duration, err error) {
	done := make(chan struct{})
	go onOwnThread(func() {
		defer close(done)
		stopped, err = hold(tid, f)
	})
	<-done
	return stopped, err
}

// onOwnThread runs f on an operating system thread that ends with it. Only the thread that has seized a tracee may make
// requests about it (ptrace(2)). And the end of that thread releases even a tracee that never stopped, which
// PTRACE_DETACH can't. Go never ends the process's first thread, so that one is not used.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

func hold(tid int, f func(*Held) error) (time.Duration, error) {
	h := &Held{TID: tid, space: new(space)}
	h.space.touch()
	hurry()
	h.aside = stepAside(tid)
	quietChildren()
	if err := unix.PtraceSeize(tid); err != nil {
		if err == unix.ESRCH {
			err = ErrGone
		}
		return 0, fmt.Errorf("seize thread %d: %w", tid, err)
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return 0, fmt.Errorf("interrupt thread %d: %w", tid, err)
	}
	if err := h.wait(); err != nil {
		return 0, fmt.Errorf("stop thread %d: %w", tid, err)
	}
	err := h.read()
	if err == nil {
		err = f(h)
	}
	detach := unix.PtraceDetach(tid)
	return time.Since(h.since), errors.Join(err, detach)
}

// touch has the kernel give memory for the space, and Go room on this goroutine's stack.
//
//go:noinline
func (s *space) touch() {
	var room [8 << 10]byte
	for i := range s.stack {
		s.stack[i] = room[i%len(room)] | 1
	}
	for i := range s.state {
		s.state[i], s.chain[i] = 1, 1
	}
	clear(s.signals[:])
	s.archSpace.touch()
}

// hurry keeps others from taking our processor while a thread is stopped. Without the right to do so (CAP_SYS_NICE)
// nothing changes; the thread ends with the hold.
func hurry() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	// ns: without the right above, a pause lasts 50 µs longer than requested
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// quietChildren keeps the kernel from sending us a SIGCHLD for every stop: the stopping thread would have to send it
// (kernel/signal.c, do_notify_parent_cldstop). The end of a child is still reported.
var quietChildren = sync.OnceFunc(func() {
	var action struct {
		handler, flags, restorer, mask uint64
	}
	const size = 8 // of the kernel's signal set
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD),
		0, uintptr(unsafe.Pointer(&action)), size, 0, 0); errno != 0 {
		return
	}
	action.flags |= 1 // SA_NOCLDSTOP
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, size,
		0, 0)
})

// stepAside moves us away from the processor of a thread, which needs that processor to reach its stop; false where
// there is no other.
func stepAside(tid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
	if err != nil {
		return false
	}
	const processor = 39 - 2 // proc(5) counts from 1, and the first two end with the last bracket
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < processor {
		return false
	}
	cpu, err := strconv.Atoi(string(fields[processor-1]))
	var set unix.CPUSet
	if err != nil || unix.SchedGetaffinity(0, &set) != nil {
		return false
	}
	set.Clear(cpu)
	return set.Count() > 0 && unix.SchedSetaffinity(0, &set) == nil
}

// wait waits for the stop that PTRACE_INTERRUPT causes. A signal that arrives before it is passed on.
func (h *Held) wait() error {
	began := time.Now()
	h.since = began
	for {
		looked := time.Now()
		pid, ws, errno := look(h.TID)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return errno
		case pid == 0:
			h.since = looked // it stops after this
			waited := looked.Sub(began)
			if waited > maxStop {
				return ErrBusy
			}
			if waited > maxSpin || !h.aside {
				pause(20 * time.Microsecond)
			}
		case ws.Exited() || ws.Signaled():
			return ErrGone
		case ws>>16 == unix.PTRACE_EVENT_STOP && ws.StopSignal() == unix.SIGTRAP:
			return nil
		case ws>>16 == unix.PTRACE_EVENT_STOP: // a group stop, in which it remains after we release it
			return errors.Join(ErrStopped, unix.PtraceDetach(h.TID))
		case ws.Stopped():
			if err := unix.PtraceCont(h.TID, int(ws.StopSignal())); err != nil {
				return err
			}
		}
	}
}

// look polls for a stop, and pause sleeps, without letting Go give our turn to another goroutine. To get the turn back
// may need a thread of ours that waits for a processor and is not prioritised.
func look(tid int) (int, unix.WaitStatus, unix.Errno) {
	var status uint32
	pid, _, errno := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(tid), uintptr(unsafe.Pointer(&status)),
		unix.WALL|unix.WNOHANG, 0, 0, 0)
	return int(pid), unix.WaitStatus(status), errno
}

func pause(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// read reads what tells whether this is a good moment; Enter reads the rest.
func (h *Held) read() error {
	if err := h.Regs.get(h.TID); err != nil {
		return err
	}
	const getSigMask = 0x420a // PTRACE_GETSIGMASK; where a system call has its own mask, the one to return to
	if err := request(getSigMask, h.TID, unsafe.Sizeof(h.Mask), unsafe.Pointer(&h.Mask)); err != nil {
		return fmt.Errorf("read signal mask: %w", err)
	}
	h.readMore()
	return nil
}

// SignalPending reports whether a signal is pending that the thread does not block. The kernel must deliver it in the
// context of the interrupted system call, since it decides there whether that call ends or continues.
func (h *Held) SignalPending() (bool, error) {
	const shared = 1 // PTRACE_PEEKSIGINFO_SHARED
	for _, flags := range []uint32{0, shared} {
		infos := &h.space.signals
		args := struct {
			off   uint64
			flags uint32
			nr    int32
		}{0, flags, maxPending}
		n, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_PEEKSIGINFO, uintptr(h.TID),
			uintptr(unsafe.Pointer(&args)), uintptr(unsafe.Pointer(infos)), 0, 0)
		if errno != 0 {
			return false, fmt.Errorf("read pending signals: %w", errno)
		}
		for _, info := range infos[:n] {
			if info.signo > 0 && info.signo <= 64 && h.Mask&(1<<(info.signo-1)) == 0 {
				return true, nil
			}
		}
		if n == maxPending {
			return true, nil // more than we read: take no risk
		}
	}
	return false, nil
}

// maxPending is how many pending signals are read. Normal signals queue once each, so more means real-time signals.
const maxPending = 4

// siginfo is the head of the kernel's 128-byte siginfo_t.
type siginfo struct {
	signo int32
	_     [124]byte
}

// InCriticalSection tells whether the thread is inside a restartable sequence (rseq(2)), which a return from a signal
// frame would resume in its middle.
func (h *Held) InCriticalSection(mem io.ReaderAt) bool {
	const getRseq = 0x420f // PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13
	var conf struct {
		area             uint64
		size, sig, flags uint32
		_                uint32
	}
	if err := request(getRseq, h.TID, unsafe.Sizeof(conf), unsafe.Pointer(&conf)); err != nil || conf.area == 0 {
		return false // an older kernel, or a thread without a registered area
	}
	var cs [8]byte
	if _, err := mem.ReadAt(cs[:], int64(conf.area)+8); err != nil { // struct rseq: rseq_cs lies at byte 8
		return true
	}
	return cs != [8]byte{}
}

// maxFilters bounds what is read of a thread's filters: with 4 instructions counted on top of each, the kernel takes
// 32,768 instructions in all (kernel/seccomp.c, MAX_INSNS_PER_PATH).
const maxFilters = 32768 / 5

// Filters reads the thread's seccomp filters. The kernel allows it to CAP_SYS_ADMIN without filters of its own.
func (h *Held) Filters() ([][]unix.SockFilter, error) {
	var filters [][]unix.SockFilter
	for n := range uintptr(maxFilters) {
		length, err := h.filter(n, nil)
		if err == unix.ENOENT { // there is no n-th
			return filters, nil
		}
		if err != nil {
			return nil, err
		}
		program := make([]unix.SockFilter, length)
		if _, err := h.filter(n, program); err != nil {
			return nil, err
		}
		filters = append(filters, program)
	}
	return nil, unix.E2BIG
}

// filter reads the n-th program, or, into nothing, its length.
func (h *Held) filter(n uintptr, program []unix.SockFilter) (int, error) {
	length, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(h.TID), n,
		uintptr(unsafe.Pointer(unsafe.SliceData(program))), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(length), nil
}

func request(op, tid int, addr uintptr, data unsafe.Pointer) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(op), uintptr(tid), addr, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
