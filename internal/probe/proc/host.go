package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Meminfo is /proc/meminfo in bytes, and the count of OOM kills in /proc/vmstat. Unknown where there is no such line.
type Meminfo struct {
	Total, Available, Free, Buffers, Cached            int64
	Anon, Mapped, Shmem, Slab, SlabReclaimable         int64
	KernelStack, PageTables, Dirty, Writeback, Mlocked int64
	SwapTotal, SwapFree, Committed, CommitLimit        int64
	HugePages, HugeFree, HugeSize                      int64 // pages, pages, bytes
	OOMKills                                           int64 // since boot, on the whole machine (Linux 4.13)
}

// Meminfo reads the machine's memory.
func (f FS) Meminfo() (Meminfo, error) {
	var buf [4096]byte
	path := filepath.Join(f.root, "meminfo")
	text, err := readText(path, buf[:0])
	if err != nil {
		return Meminfo{}, err
	}
	m, ok := parseMeminfo(text)
	if !ok {
		return Meminfo{}, fmt.Errorf("read %s: %w: no MemTotal", path, ErrMalformed)
	}
	m.OOMKills = Unknown
	if text, err := readText(filepath.Join(f.root, "vmstat"), make([]byte, 0, 8192)); err == nil {
		pick(text, map[string]*int64{"oom_kill": &m.OOMKills})
	}
	return m, nil
}

func parseMeminfo(text []byte) (m Meminfo, ok bool) {
	pick(text, map[string]*int64{
		"MemTotal": &m.Total, "MemAvailable": &m.Available, "MemFree": &m.Free, "Buffers": &m.Buffers,
		"Cached":    &m.Cached,
		"AnonPages": &m.Anon, "Mapped": &m.Mapped, "Shmem": &m.Shmem, "Slab": &m.Slab,
		"SReclaimable": &m.SlabReclaimable,
		"KernelStack":  &m.KernelStack, "PageTables": &m.PageTables, "Dirty": &m.Dirty, "Writeback": &m.Writeback,
		"Mlocked": &m.Mlocked, "SwapTotal": &m.SwapTotal, "SwapFree": &m.SwapFree, "Committed_AS": &m.Committed,
		"CommitLimit": &m.CommitLimit, "HugePages_Total": &m.HugePages, "HugePages_Free": &m.HugeFree,
		"Hugepagesize": &m.HugeSize,
	})
	return m, m.Total != Unknown
}

// Pressure is the machine's PSI for memory.
func (f FS) Pressure() Pressure { return ReadPressure(filepath.Join(f.root, "pressure", "memory")) }

// Space is what a file system holds, in bytes.
func Space(path string) (total, used int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Unknown, Unknown, fmt.Errorf("statfs %s: %w", path, err)
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Blocks-st.Bfree) * st.Bsize, nil
}

// Uptime is the time since boot, including sleep: start ticks count from boot.
func (f FS) Uptime() (time.Duration, error) {
	var buf [64]byte
	path := filepath.Join(f.root, "uptime")
	text, err := readText(path, buf[:0])
	if err != nil {
		return 0, err
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	seconds, err := strconv.ParseFloat(string(first), 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return 0, fmt.Errorf("read %s: %w: %.40q", path, ErrMalformed, text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Self is this process's number in the proc file system. In a recording it differs from os.Getpid.
func (f FS) Self() int {
	target, err := os.Readlink(filepath.Join(f.root, "self"))
	if err != nil {
		return os.Getpid()
	}
	pid, err := strconv.Atoi(target)
	if err != nil {
		return os.Getpid()
	}
	return pid
}

// LoadAverage is the load average of the last minute.
func (f FS) LoadAverage() (float64, error) {
	var buf [128]byte
	path := filepath.Join(f.root, "loadavg")
	text, err := readText(path, buf[:0])
	if err != nil {
		return 0, err
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	load, err := strconv.ParseFloat(string(first), 64)
	if err != nil || !(load >= 0) {
		return 0, fmt.Errorf("read %s: %w: %.40q", path, ErrMalformed, text)
	}
	return load, nil
}
