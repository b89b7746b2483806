package attach

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
)

// injection is one piece of source on its way into the target.
type injection struct {
	*Target
	source string // wrapped
	at     uint64 // its address in the target; 0 before it is mapped
	only   Way
	result Result
	doing  string // what the target did at the last check
}

// errNotNow means that the thread can't be borrowed in its present state; it was released untouched.
var errNotNow = errors.New("not now")

// Pauses between two tries. They are short at first, since most threads are ready within a millisecond. Later they are
// so long that a thread which is never ready loses less than a thousandth of its time to us.
const (
	minPause = 200 * time.Microsecond
	maxPause = 20 * time.Millisecond
)

// retry calls f until it succeeds or fails for good.
func (i *injection) retry(ctx context.Context, f func() error) error {
	for pause := minPause; ; pause = min(pause*3/2, maxPause) {
		err := f()
		if !errors.Is(err, errNotNow) {
			return err
		}
		select {
		case <-ctx.Done():
			return i.tooLate(ctx)
		case <-time.After(pause):
		}
	}
}

// tooLate says what the target was doing when the time was up.
func (i *injection) tooLate(ctx context.Context) error {
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return remedy.Add(fmt.Errorf("%w: process %d, %s", ErrTimeout, i.PID, i.doing),
		"try again later, or with a longer --timeout; nothing was changed in the process")
}

// borrow stops the main thread, and makes it run the chain that prepare makes for its present moment.
func (i *injection) borrow(prepare func(moment) (ptrace.Chain, error)) error {
	if m := i.glance(i.PID); !m.ready {
		i.doing = "main thread " + m.doing
		return errNotNow
	}
	stopped, err := ptrace.Hold(i.PID, func(h *ptrace.Held) error {
		m, err := i.examine(h)
		if err != nil {
			return err
		}
		i.doing, m.mask = "main thread "+m.doing, h.Mask
		if !m.ready {
			return errNotNow
		}
		if err := i.admits(h); err != nil {
			return fmt.Errorf("process %d: %w", i.PID, err)
		}
		chain, err := prepare(m)
		if err != nil {
			return err
		}
		chain.Gadgets, chain.EINTR, chain.Repeat = i.gadgets, m.python, m.again
		chain.Mask = reservedBy(i.libc).inChain()
		return h.Enter(i.mem, chain)
	})
	i.result.Stopped += stopped
	switch {
	case errors.Is(err, ptrace.ErrStopped):
		return remedy.Add(fmt.Errorf("process %d: %w", i.PID, ErrSuspended),
			fmt.Sprintf("kill -CONT %d lets it go on; then attach", i.PID))
	case errors.Is(err, ptrace.ErrBusy):
		i.doing = "main thread in the kernel, uninterruptibly"
		return errNotNow
	case errors.Is(err, ptrace.ErrNoRoom):
		i.doing = "main thread has no room on its stack"
		return errNotNow
	}
	return err
}

func (i *injection) syscall(nr uint64, args ...uint64) ptrace.Call {
	c := ptrace.Call{PC: i.gadgets.Syscall, Number: nr}
	copy(c.Args[:], args)
	return c
}

// mapBlock makes the target map memory for the code (which only we can write) and for the data (which can't be
// executed), at an address that was free. If it isn't free any more, the kernel refuses, and another address is tried.
func (i *injection) mapBlock(ctx context.Context) error {
	size := blockSize(i.source)
	return i.retry(ctx, func() error {
		maps, err := i.readMaps()
		if err != nil {
			return err
		}
		i.maps = maps
		at := maps.Hole(size)
		if at == 0 {
			return fmt.Errorf("process %d: no free addresses for %d bytes", i.PID, size)
		}
		const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE | unix.MAP_NORESERVE
		none := ^uint64(0)
		err = i.borrow(func(moment) (ptrace.Chain, error) {
			return ptrace.Chain{Calls: []ptrace.Call{
				i.syscall(unix.SYS_MMAP, at, pageSize, unix.PROT_READ|unix.PROT_EXEC, flags, none),
				i.syscall(unix.SYS_MMAP, at+pageSize, size-pageSize, unix.PROT_READ|unix.PROT_WRITE, flags, none),
			}}, nil
		})
		if err != nil {
			return err
		}
		return i.awaitMapping(ctx, at, size)
	})
}

// maxMapping bounds the wait for two system calls of a released thread, which may have to wait for a processor.
const maxMapping = 5 * time.Second

// awaitMapping checks that the memory is mapped and ours: two mappings of exactly these sizes and rights.
func (i *injection) awaitMapping(ctx context.Context, at, size uint64) error {
	var b [1]byte
	for start := time.Now(); ; {
		if _, err := i.mem.ReadAt(b[:], int64(at+pageSize)); err == nil {
			break
		}
		if time.Since(start) > maxMapping || ctx.Err() != nil {
			return remedy.Add(fmt.Errorf("process %d can't map %d bytes (an address-space limit, seccomp or SELinux)",
				i.PID, size), "start the training with memgauge run instead")
		}
		time.Sleep(20 * time.Microsecond)
	}
	maps, err := i.readMaps()
	if err != nil {
		return err
	}
	code, _ := maps.At(at)
	data, _ := maps.At(at + pageSize)
	if code.Lo != at || code.Hi != at+pageSize || code.Perm != "r-xp" || data.Lo != at+pageSize || data.Hi != at+size ||
		data.Perm != "rw-p" {
		return errNotNow // another mapping came first, or the kernel does not know MAP_FIXED_NOREPLACE (before 4.17)
	}
	i.maps, i.at = maps, at
	return nil
}

// write fills the mapped memory. The code page is not writable for the target: only a tracer's write gets through.
func (i *injection) write() error {
	b := newBlock(i.at, i.source, i.symbols, i.gadgets.Syscall, i.libc, i.Inner)
	if _, err := i.mem.WriteAt(b.code, int64(i.at)); err != nil {
		return fmt.Errorf("write code into process %d: %w", i.PID, err)
	}
	if _, err := i.mem.WriteAt(b.data, int64(i.at+pageSize)); err != nil {
		return fmt.Errorf("write data into process %d: %w", i.PID, err)
	}
	return nil
}

// enter makes the main thread start our thread.
func (i *injection) enter(ctx context.Context) error {
	_, entry := stubCode()
	data := i.at + pageSize
	return i.retry(ctx, func() error {
		return i.borrow(func(m moment) (ptrace.Chain, error) {
			if !m.open {
				return ptrace.Chain{}, errNotNow
			}
			i.result.Way, i.result.Doing = NewThread, i.doing
			call := ptrace.Call{PC: i.at + entry.spawn,
				Args: [6]uint64{data, ptrace.FinalFrame, i.status.caught &^ m.mask, ptrace.ResumePC}}
			return ptrace.Chain{Calls: []ptrace.Call{call}}, nil
		})
	})
}

// unmap removes the memory if no thread of ours has taken it over. If that isn't possible, it stays, unused.
func (i *injection) unmap(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the caller's may have ended
	defer cancel()
	_ = i.retry(ctx, func() error {
		return i.borrow(func(moment) (ptrace.Chain, error) {
			return ptrace.Chain{Calls: []ptrace.Call{i.syscall(unix.SYS_MUNMAP, i.at, blockSize(i.source))}}, nil
		})
	})
}

// word reads a word of the data page.
func (i *injection) word(off int) (uint64, error) {
	var b [8]byte
	_, err := i.mem.ReadAt(b[:], int64(i.at+pageSize)+int64(off))
	return binary.LittleEndian.Uint64(b[:]), err
}

func (i *injection) setWord(off int, v uint64) error {
	_, err := i.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, v), int64(i.at+pageSize)+int64(off))
	return err
}
