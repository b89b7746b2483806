package proc

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxDepth ends a chain of parents: PIDs that are reused while we read could make it a circle.
const maxDepth = 128 // deeper than shells in shells in containers go

const maxCmdline = 1 << 20 // a shell may hand over 2 MiB of file names; nobody reads the second

// Ancestors lists the parents of a process, nearest first, without the process itself.
func (f FS) Ancestors(pid int) []int {
	var chain []int
	for len(chain) < maxDepth {
		s, err := f.Stat(pid)
		if err != nil || s.PPID == 0 || slices.Contains(chain, s.PPID) {
			break
		}
		chain = append(chain, s.PPID)
		pid = s.PPID
	}
	return chain
}

// PIDs lists all processes.
func (f FS) PIDs() ([]int, error) {
	entries, err := os.ReadDir(f.root)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil { // not /proc/self, /proc/meminfo …
			pids = append(pids, n)
		}
	}
	return pids, nil
}

// Tree lists a process and all its descendants, parents before their children. A process whose parent has ended is a
// child of another process (man 2 prctl, PR_SET_CHILD_SUBREAPER) and is not found.
func (f FS) Tree(pid int) ([]int, error) {
	pids, err := f.PIDs()
	if err != nil {
		return nil, err
	}
	children, found := map[int][]int{}, false
	for _, n := range pids {
		s, err := f.Stat(n)
		if err != nil {
			continue // ended since the directory was read
		}
		found = found || s.PID == pid
		children[s.PPID] = append(children[s.PPID], s.PID)
	}
	if !found {
		return nil, fmt.Errorf("read the processes under %d: %w", pid, os.ErrNotExist)
	}
	tree := []int{pid}
	for i := 0; i < len(tree) && i <= len(pids); i++ { // the bound: a circle, made by PIDs used again
		slices.Sort(children[tree[i]])
		tree = append(tree, children[tree[i]]...)
	}
	return tree, nil
}

// RSS is a process's resident memory in bytes: all of it, and the part that it may share with others.
type RSS struct{ Resident, Shared uint64 }

// RSS reads /proc/PID/statm.
func (f FS) RSS(pid int) (RSS, error) {
	var buf [256]byte // seven numbers
	path := f.path(pid, "statm")
	text, err := readText(path, buf[:0])
	if err != nil {
		return RSS{}, err
	}
	var size, resident, shared uint64 // pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return RSS{}, fmt.Errorf("read %s: %w: %.40q", path, ErrMalformed, text)
	}
	page := uint64(os.Getpagesize())
	return RSS{Resident: resident * page, Shared: shared * page}, nil
}

// Cmdline is the command with its arguments; empty for a kernel thread or a zombie.
func (f FS) Cmdline(pid int) ([]string, error) {
	file, err := os.Open(f.path(pid, "cmdline"))
	if err != nil {
		return nil, err // os names the operation and the path
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCmdline))
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"), nil
}

// BootID differs between machines, and between two boots of one machine.
func (f FS) BootID() (string, error) {
	text, err := os.ReadFile(f.root + "/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if len(id) != 36 { // a UUID as text; drivers/char/random.c, proc_do_uuid
		return "", fmt.Errorf("read boot id: %w: %q", ErrMalformed, id)
	}
	return id, nil
}
