package attach

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Pauses between two reads of the target's memory, which cost the target nothing.
const (
	minLook = 50 * time.Microsecond
	maxLook = 2 * time.Millisecond
)

// maxRecall bounds the wait after a cancellation: the thread reads the word right before and right after it waits for
// the GIL.
const maxRecall = 100 * time.Millisecond

// await waits until the source has ended, and cancels it when the time is up.
func (i *injection) await(ctx context.Context) ([]byte, error) {
	var late <-chan time.Time
	done := ctx.Done()
	for look := minLook; ; look = min(look*5/4, maxLook) {
		state, err := i.word(dataState)
		if err != nil {
			return nil, i.lost(err)
		}
		switch state {
		case stateDone:
			return i.collect()
		case stateDeclined:
			i.end()
			return nil, i.tooLate(ctx)
		case stateNoPython, stateNoThread:
			return nil, i.refused(ctx, state)
		}
		select {
		case <-done:
			done, late = nil, time.After(maxRecall)
			_ = i.setWord(dataCancel, 1)
		case <-late:
			return nil, i.overdue(ctx, state)
		case <-time.After(look):
		}
	}
}

// collect reads the source's result, and lets the thread clean up.
func (i *injection) collect() ([]byte, error) {
	size, err := i.word(dataOutSize)
	if err != nil {
		return nil, i.lost(err)
	}
	out := make([]byte, min(size, MaxValue))
	at := i.at + blockSize(i.source) - MaxValue - pageSize
	if _, err := i.mem.ReadAt(out, int64(at)); err != nil {
		return nil, i.lost(err)
	}
	i.end()
	if size > MaxValue {
		return nil, fmt.Errorf("%w: its result has %d bytes, the most is %d", ErrRaised, size, MaxValue)
	}
	return out, nil
}

// end computes the times and lets the thread clean up. The thread does so when no other thread is in our code.
func (i *injection) end() {
	for start := time.Now(); i.clock(dataT1) == 0 && time.Since(start) < maxRecall; {
		time.Sleep(minLook) // the borrowed thread may not have left our code yet
	}
	i.result.Stopped += max(0, i.clock(dataT1)-i.clock(dataT0))
	_ = i.setWord(dataAck, 1)
}

func (i *injection) clock(off int) time.Duration {
	var b [16]byte
	if _, err := i.mem.ReadAt(b[:], int64(i.at+pageSize)+int64(off)); err != nil {
		return 0
	}
	return time.Duration(binary.LittleEndian.Uint64(b[:]))*time.Second +
		time.Duration(binary.LittleEndian.Uint64(b[8:]))
}

// refused explains a state in which nothing of ours runs in the target any more.
func (i *injection) refused(ctx context.Context, state uint64) error {
	if state == stateNoPython {
		i.end()
		return remedy.Add(fmt.Errorf("%w: process %d has no running interpreter (it is starting or ending)",
			ErrNotPython, i.PID), "try again in a moment")
	}
	errno, _ := i.word(dataErrno)
	i.leave(ctx)
	return remedy.Add(fmt.Errorf("process %d can't start a thread: %w", i.PID, unix.Errno(errno)),
		"look at its limits: ulimit -u, the cgroup's pids.max, address space")
}

// leave unmaps once the borrowed thread has left the code.
func (i *injection) leave(ctx context.Context) {
	for start := time.Now(); time.Since(start) < maxRecall; time.Sleep(minLook) {
		if i.clock(dataT1) > 0 {
			i.unmap(ctx)
			return
		}
	}
}

// overdue says where the source is when it could not be cancelled within maxRecall. The cancellation stays set: unless
// the source runs already, it ends as soon as it gets the GIL or its turn.
func (i *injection) overdue(ctx context.Context, state uint64) error {
	_ = i.setWord(dataAck, 1) // nobody will read its result
	switch state {
	case stateRunning:
		return remedy.Add(fmt.Errorf("%w: process %d", ErrRunning, i.PID), "give it more time with --timeout")
	case stateWaiting:
		i.doing = "another thread holds the GIL (native code that doesn't release it?)"
	case stateNone:
		i.doing = "the thread doesn't get to run"
	}
	return i.tooLate(ctx)
}

// lost explains why the target's memory can't be read any more.
func (i *injection) lost(err error) error {
	// EOF: the process has no memory any more
	if s, statErr := readStatus(i.path("status")); statErr != nil || s.state == 'Z' || s.state == 'X' ||
		errors.Is(err, io.EOF) {
		return remedy.Add(fmt.Errorf("process %d: %w", i.PID, ErrZombie),
			"memgauge list -a shows sessions that have ended")
	}
	return fmt.Errorf("process %d: what we mapped is gone: %w", i.PID, err)
}
