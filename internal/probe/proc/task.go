package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Task is what the kernel reports about one thread.
type Task struct {
	TID     int
	Inner   int // its TID in its own PID namespace
	Comm    string
	State   byte   // R, S, D, T, t, Z …
	Wchan   string // kernel function in which it sleeps; "" where it runs, or where we may not know
	Syscall int    // number of its system call; -1 for none, -2 where we may not know
}

// Values of Task.Syscall that are no system call.
const (
	NoSyscall      = -1
	UnknownSyscall = -2
)

// maxTasks bounds the threads that are read; a process of 10,000 threads would take a second.
const maxTasks = 10_000

// Tasks lists the threads of a process by their numbers. One that ends meanwhile is left out.
func (f FS) Tasks(pid int) ([]Task, error) {
	dir := f.path(pid, "task")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var tasks []Task
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil || len(tasks) == maxTasks {
			continue
		}
		if t, err := f.task(filepath.Join(dir, e.Name()), tid); err == nil {
			tasks = append(tasks, t)
		}
	}
	order.By(tasks, func(a, b Task) int { return a.TID - b.TID })
	return tasks, nil
}

func (f FS) task(dir string, tid int) (Task, error) {
	line, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Task{}, err
	}
	s, err := parseStat(line)
	if err != nil {
		return Task{}, fmt.Errorf("read %s/stat: %w", dir, err)
	}
	t := Task{TID: tid, Inner: innerTID(dir, tid), Comm: s.Comm, State: s.State, Syscall: UnknownSyscall}
	if b, err := os.ReadFile(filepath.Join(dir, "wchan")); err == nil && string(b) != "0" {
		t.Wchan = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile(filepath.Join(dir, "syscall")); err == nil {
		t.Syscall = parseSyscall(string(b))
	}
	return t, nil
}

// parseSyscall reads /proc/PID/syscall: "running", "-1 SP PC" for a thread that is blocked outside a system call, or
// the number, six arguments, SP and PC (fs/proc/base.c, proc_pid_syscall).
func parseSyscall(text string) int {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if first == "running" {
		return NoSyscall
	}
	n, err := strconv.Atoi(first)
	if err != nil || n < NoSyscall {
		return UnknownSyscall
	}
	return n
}

// innerTID is the last number of NSpid in status (proc(5)): what gettid(2) gives the thread itself.
func innerTID(dir string, tid int) int {
	b, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return tid
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if n, err := strconv.Atoi(f[len(f)-1]); err == nil {
					return n
				}
			}
		}
	}
	return tid
}
