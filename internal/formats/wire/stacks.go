package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Stacks are a process's Python stacks.
type Stacks struct {
	Threads []Thread
	Left    int // threads that were left out for lack of room
	Agent   int // number of the agent's own thread, which is not among them; 0 unknown
}

// Thread is one thread's Python stack.
type Thread struct {
	TID    int    // as its own process sees it; 0 where Python does not know it
	Name   string // "" where Python does not know it
	Daemon bool
	Frames []StackFrame // innermost first
	Cut    int          // frames left out of the middle of a deep recursion, before frame CutAt
	CutAt  int
}

// StackFrame is a call that a thread is in.
type StackFrame struct {
	Func   string
	File   string
	Line   int // that it executes
	Locals []Local
}

// Local is a variable of a frame with a short text of its value.
type Local struct{ Name, Value string }

// ParseStacks reads a Stacks frame's payload.
func ParseStacks(p []byte) (s Stacks, err error) {
	for n, line := range strings.Split(strings.TrimSuffix(string(p), "\n"), "\n") {
		if line == "" {
			continue
		}
		fields := strings.Split(line, "\t")
		for i, f := range fields {
			fields[i] = infoUnescape.Replace(valid([]byte(f)))
		}
		switch kind := fields[0]; {
		case kind == "left" && len(fields) >= 2:
			s.Left, err = strconv.Atoi(fields[1])
		case kind == "agent" && len(fields) >= 2:
			s.Agent, err = strconv.Atoi(fields[1])
		case kind == "thread":
			s.Threads, err = addThread(s.Threads, fields[1:])
		case len(s.Threads) == 0:
			err = fmt.Errorf("%s before any thread", kind)
		default:
			err = s.Threads[len(s.Threads)-1].add(kind, fields[1:])
		}
		if err != nil {
			return Stacks{}, fmt.Errorf("%w: stacks, line %d: %w", ErrCorrupt, n+1, err)
		}
	}
	return s, nil
}

func addThread(threads []Thread, f []string) ([]Thread, error) {
	if len(f) < 4 {
		return nil, fmt.Errorf("a thread of %d fields, want 4", len(f))
	}
	tid, err := strconv.Atoi(f[0])
	return append(threads, Thread{TID: tid, Name: f[2], Daemon: f[3] == "1"}), err
}

// add takes a line that belongs to the thread. Lines of a kind that a newer agent writes are skipped.
func (t *Thread) add(kind string, f []string) (err error) {
	switch {
	case kind == "frame" && len(f) >= 3:
		frame := StackFrame{Func: f[0], File: f[1]}
		frame.Line, err = strconv.Atoi(f[2])
		t.Frames = append(t.Frames, frame)
	case kind == "cut" && len(f) >= 1:
		t.CutAt = len(t.Frames)
		t.Cut, err = strconv.Atoi(f[0])
	case kind == "local" && len(f) >= 2 && len(t.Frames) > 0:
		last := &t.Frames[len(t.Frames)-1]
		last.Locals = append(last.Locals, Local{f[0], f[1]})
	case kind == "frame", kind == "cut", kind == "local":
		err = fmt.Errorf("%s of %d fields", kind, len(f))
	}
	return err
}

// Depth is the distance of Frames[i] from the innermost call, the frames that were left out counted.
func (t *Thread) Depth(i int) int {
	if t.Cut > 0 && i >= t.CutAt {
		return i + t.Cut
	}
	return i
}
