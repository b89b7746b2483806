package proc

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Usage is what /proc/PID/stat reports about a process or a thread besides its identity.
type Usage struct {
	Stat
	MinorFaults, MajorFaults uint64 // since it started
	UserTicks, SystemTicks   uint64 // of 1/100 s, since it started
}

// Usage reads /proc/PID/stat.
func (f FS) Usage(pid int) (Usage, error) { return readUsage(f.path(pid, "stat")) }

// ThreadUsage reads /proc/PID/task/TID/stat.
func (f FS) ThreadUsage(pid, tid int) (Usage, error) {
	return readUsage(f.path(pid, "task/"+strconv.Itoa(tid)+"/stat"))
}

func readUsage(path string) (Usage, error) {
	var buf [maxStat]byte
	text, err := readText(path, buf[:0])
	if err != nil {
		return Usage{}, err
	}
	u, err := parseUsage(text)
	if err != nil {
		return Usage{}, fmt.Errorf("read %s: %w", path, err)
	}
	return u, nil
}

// Fields after the comm, as in parseStat.
const (
	fieldMinorFaults = 7
	fieldMajorFaults = 9
	fieldUser        = 11
	fieldSystem      = 12
)

func parseUsage(line []byte) (Usage, error) {
	s, err := parseStat(line)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Stat: s}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:]) // parseStat has seen enough of them
	for i, p := range map[int]*uint64{fieldMinorFaults: &u.MinorFaults, fieldMajorFaults: &u.MajorFaults,
		fieldUser: &u.UserTicks, fieldSystem: &u.SystemTicks} {
		if *p, err = strconv.ParseUint(string(fields[i]), 10, 64); err != nil {
			return Usage{}, fmt.Errorf("%w: number %q", ErrMalformed, fields[i])
		}
	}
	return u, nil
}

// Status is what memgauge uses of /proc/PID/status. Sizes are bytes; Unknown where there is no such line (kernel
// threads and zombies have none of them).
type Status struct {
	Size, Locked, Pinned, HWM, RSS int64
	Anon, File, Shmem              int64 // parts of RSS
	PageTables, Swap, HugeTLB      int64
	NSPID                          int // its PID in its innermost PID namespace; 0 unknown
}

// Status reads /proc/PID/status. From Linux 6.2 on, RSS and its parts may be off by some 100 KiB a CPU: the kernel
// counts them on each CPU and adds up now and then (fs/proc/task_mmu.c, task_mem).
func (f FS) Status(pid int) (Status, error) {
	var buf [4096]byte
	path := f.path(pid, "status")
	text, err := readText(path, buf[:0])
	if err != nil {
		return Status{}, err
	}
	s, err := parseStatus(text)
	if err != nil {
		return Status{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

func parseStatus(text []byte) (Status, error) {
	if !bytes.HasPrefix(text, []byte("Name:")) {
		return Status{}, fmt.Errorf("%w: no name in the first line", ErrMalformed)
	}
	s := emptyStatus()
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			break // truncated: the last line may end in half a number
		}
		i := bytes.IndexByte(line, ':')
		if i < 5 {
			continue
		}
		s.take(line[:i], bytes.TrimLeft(line[i+1:], " \t"))
	}
	return s, nil
}

func emptyStatus() Status {
	return Status{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, 0}
}

func (s *Status) take(key, value []byte) {
	var p *int64
	switch string(key) {
	case "VmSize":
		p = &s.Size
	case "VmLck":
		p = &s.Locked
	case "VmPin":
		p = &s.Pinned
	case "VmHWM":
		p = &s.HWM
	case "VmRSS":
		p = &s.RSS
	case "RssAnon":
		p = &s.Anon
	case "RssFile":
		p = &s.File
	case "RssShmem":
		p = &s.Shmem
	case "VmPTE":
		p = &s.PageTables
	case "VmSwap":
		p = &s.Swap
	case "HugetlbPages":
		p = &s.HugeTLB
	case "NSpid":
		if list := bytes.Fields(value); len(list) > 0 {
			s.NSPID, _ = natural(list[len(list)-1])
		}
		return
	default:
		return
	}
	if n, ok := leadingNumber(value); ok {
		*p = n
	}
}

// Rollup is /proc/PID/smaps_rollup: the memory that a process has mapped, where pages that several processes share are
// divided among them (PSS). Bytes; Unknown where the kernel has no such line (Pss_Anon and similar lines: since 5.9).
type Rollup struct {
	RSS, PSS, PSSAnon, PSSFile, PSSShmem     int64
	SharedClean, SharedDirty                 int64
	PrivateClean, PrivateDirty               int64
	Anonymous, LazyFree, Swap, SwapPSS       int64
	Locked, PrivateHuge, SharedHuge, AnonTHP int64
}

// Rollup reads smaps_rollup. The kernel walks all page tables for it: some 10 to 50 ns a page, holding the lock on the
// address space (it lets waiting writers in: fs/proc/task_mmu.c, show_smaps_rollup).
func (f FS) Rollup(pid int) (Rollup, error) {
	var buf [2048]byte
	path := f.path(pid, "smaps_rollup")
	text, err := readText(path, buf[:0])
	if err != nil {
		return Rollup{}, err
	}
	r, ok := parseRollup(text)
	if !ok {
		return Rollup{}, fmt.Errorf("read %s: %w: no Pss", path, ErrMalformed)
	}
	return r, nil
}

func parseRollup(text []byte) (r Rollup, ok bool) {
	pick(text, map[string]*int64{
		"Rss": &r.RSS, "Pss": &r.PSS, "Pss_Anon": &r.PSSAnon, "Pss_File": &r.PSSFile, "Pss_Shmem": &r.PSSShmem,
		"Shared_Clean": &r.SharedClean, "Shared_Dirty": &r.SharedDirty, "Private_Clean": &r.PrivateClean,
		"Private_Dirty": &r.PrivateDirty, "Anonymous": &r.Anonymous, "LazyFree": &r.LazyFree, "Swap": &r.Swap,
		"SwapPss": &r.SwapPSS, "Locked": &r.Locked, "Private_Hugetlb": &r.PrivateHuge, "Shared_Hugetlb": &r.SharedHuge,
		"AnonHugePages": &r.AnonTHP,
	})
	return r, r.RSS != Unknown && r.PSS != Unknown
}

// IO reads how many bytes a process has read from and written to storage since it started. The kernel reports it only
// to those who may trace the process.
func (f FS) IO(pid int) (read, written int64, err error) {
	var buf [512]byte
	text, err := readText(f.path(pid, "io"), buf[:0])
	if err != nil {
		return Unknown, Unknown, err
	}
	pick(text, map[string]*int64{"read_bytes": &read, "write_bytes": &written})
	return read, written, nil
}

// Wchan is the kernel function in which a thread sleeps; "" if it runs or the kernel does not report it.
func (f FS) Wchan(pid, tid int) string {
	var buf [128]byte
	text, err := readText(f.path(pid, "task/"+strconv.Itoa(tid)+"/wchan"), buf[:0])
	if err != nil || len(text) == 1 && text[0] == '0' {
		return ""
	}
	return string(text)
}

// Environ is the environment that a process was started with; a process may have overwritten it (setproctitle).
func (f FS) Environ(pid int) ([]string, error) {
	text, err := readText(f.path(pid, "environ"), nil)
	if err != nil {
		return nil, err
	}
	var list []string
	for e := range bytes.SplitSeq(text, []byte{0}) {
		if len(e) > 0 {
			list = append(list, string(e))
		}
	}
	return list, nil
}

// Resident reads the resident pages of a process from its open statm. The descriptor stays the process's own even when
// its PID is reused.
func Resident(statm io.ReaderAt) (pages int64, ok bool) {
	var buf [128]byte
	n, _ := statm.ReadAt(buf[:], 0)
	fields := bytes.Fields(buf[:n])
	if len(fields) < 2 {
		return 0, false // it has ended
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages, err == nil && pages >= 0
}
