package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Map is a mapping of /proc/PID/smaps. Sizes are bytes of resident memory, unless stated otherwise.
type Map struct {
	Start, End                        uint64
	Perms                             string // rwxp or rwxs
	Inode                             uint64
	Path                              string // file, [heap], [stack], [anon:NAME], "" …
	RSS, PSS, Anonymous, Swap, Locked int64
}

// Size is the mapping's address space.
func (m Map) Size() uint64 { return m.End - m.Start }

// HasMapped reports whether a process has a file mapped whose path contains one of the parts. It reads /proc/PID/maps,
// which needs no walk over pages: some 0.2 µs for each mapping.
func (f FS) HasMapped(pid int, parts []string) bool {
	text, err := os.ReadFile(f.path(pid, "maps"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(parts, func(part string) bool { return bytes.Contains(text, []byte(part)) })
}

// maxMaps bounds what is kept: vm.max_map_count is 65,530 unless somebody has raised it.
const maxMaps = 1 << 20

// Maps reads /proc/PID/smaps: every mapping with its resident memory. The kernel walks the page tables for it, at 10 to
// 50 ns a page. So it is read on request, not every second.
func (f FS) Maps(pid int) ([]Map, error) {
	path := f.path(pid, "smaps")
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<16)
	var maps []Map
	for {
		line, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull { // no line is that long: a path has at most 4096 bytes, escaped fourfold
			return nil, fmt.Errorf("read %s: %w: a line of more than 64 KiB", path, ErrMalformed)
		}
		if err != nil {
			break // the end; a number in an incomplete last line may be cut
		}
		if m, ok := parseMapHeader(line); ok {
			if len(maps) == maxMaps {
				return maps, nil
			}
			maps = append(maps, m)
			continue
		}
		if len(maps) > 0 {
			maps[len(maps)-1].take(line)
		}
	}
	if len(maps) == 0 {
		return nil, fmt.Errorf("read %s: %w", path, os.ErrProcessDone) // a zombie, or a kernel thread
	}
	return maps, nil
}

// parseMapHeader reads "START-END PERMS OFFSET DEV INODE   PATH" (proc_pid_maps(5)).
func parseMapHeader(line []byte) (m Map, ok bool) {
	dash := bytes.IndexByte(line, '-')
	if dash < 1 || dash > 16 {
		return m, false
	}
	space := bytes.IndexByte(line, ' ')
	if space < dash {
		return m, false
	}
	var err error
	if m.Start, err = strconv.ParseUint(string(line[:dash]), 16, 64); err != nil {
		return m, false
	}
	if m.End, err = strconv.ParseUint(string(line[dash+1:space]), 16, 64); err != nil || m.End < m.Start {
		return Map{}, false
	}
	rest := line[space+1:]
	for field := range 4 { // perms, offset, device, inode
		rest = bytes.TrimLeft(rest, " ")
		i := bytes.IndexAny(rest, " \n")
		if i < 1 {
			return Map{}, false
		}
		switch word := string(rest[:i]); field {
		case 0:
			m.Perms = word
		case 3:
			if m.Inode, err = strconv.ParseUint(word, 10, 64); err != nil {
				return Map{}, false
			}
		}
		rest = rest[i:]
	}
	m.Path = string(bytes.TrimSpace(rest))
	return m, len(m.Perms) == 4
}

func (m *Map) take(line []byte) {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return
	}
	var p *int64
	switch string(line[:colon]) {
	case "Rss":
		p = &m.RSS
	case "Pss":
		p = &m.PSS
	case "Anonymous":
		p = &m.Anonymous
	case "Swap":
		p = &m.Swap
	case "Locked":
		p = &m.Locked
	default:
		return
	}
	if n, ok := leadingNumber(bytes.TrimSpace(line[colon+1:])); ok {
		*p = n
	}
}

// StackPointer is where a thread's stack was when it last entered the kernel; 0 while the thread runs, or when the
// kernel does not report it (it requires the right to trace the process): /proc/PID/task/TID/syscall.
func (f FS) StackPointer(pid, tid int) uint64 {
	var buf [256]byte
	text, err := readText(f.path(pid, "task/"+strconv.Itoa(tid)+"/syscall"), buf[:0])
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 3 { // "running"
		return 0
	}
	sp, err := strconv.ParseUint(string(bytes.TrimPrefix(fields[len(fields)-2], []byte("0x"))), 16, 64)
	if err != nil {
		return 0
	}
	return sp
}

// Threads lists the threads of a process.
func (f FS) Threads(pid int) (list []int) {
	entries, err := os.ReadDir(f.path(pid, "task"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, tid)
		}
	}
	return list
}

// Mapped reports whether a process has a file mapped whose name begins so. A process that may not be read has none.
func (f FS) Mapped(pid int, name string) bool {
	maps, err := os.Open(f.path(pid, "maps"))
	if err != nil {
		return false
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte("/"+name)) {
			return true
		}
	}
	return false
}
