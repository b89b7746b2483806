package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

const statusText = "Name:\tpython\nState:\tS (sleeping)\nNSpid:\t4711\t23\t7\nVmSize:\t  102400 kB\n" +
	"VmLck:\t       4 kB\nVmPin:\t       8 kB\n" +
	"VmHWM:\t   51200 kB\nVmRSS:\t   40960 kB\nRssAnon:\t   30720 kB\nRssFile:\t    8192 kB\n" +
	"RssShmem:\t    2048 kB\nVmPTE:\t     128 kB\nVmSwap:\t      16 kB\n"

func TestStatus(t *testing.T) {
	s, err := parseStatus([]byte(statusText))
	want := Status{Size: 100 << 20, Locked: 4 << 10, Pinned: 8 << 10, HWM: 50 << 20, RSS: 40 << 20, Anon: 30 << 20,
		File: 8 << 20, Shmem: 2 << 20, PageTables: 128 << 10, Swap: 16 << 10, HugeTLB: Unknown, NSPID: 7}
	if err != nil || s != want {
		t.Errorf("%+v %v, want %+v", s, err, want)
	}
	// cut short: a number without its end is not believed, and neither is what would have followed
	cut := statusText[:strings.Index(statusText, "RssAnon")+12]
	if s, err := parseStatus([]byte(cut)); err != nil || s.RSS != 40<<20 || s.Anon != Unknown || s.Swap != Unknown {
		t.Errorf("cut: %+v %v", s, err)
	}
	if s, err := parseStatus([]byte("Name:\tkthread\n")); err != nil || s.RSS != Unknown {
		t.Errorf("a kernel thread: %+v %v", s, err)
	}
	if _, err := parseStatus([]byte("<html>")); !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v", err)
	}
}

// TestOwnMemory holds our readings of a live process against procfs and against each other.
func TestOwnMemory(t *testing.T) {
	live, pid := New("/proc"), os.Getpid()
	p, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	s, err := live.Status(pid)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := p.NewStatus()
	if err != nil || s.Size != int64(theirs.VmSize) || s.HWM < s.RSS || s.RSS != s.Anon+s.File+s.Shmem {
		t.Errorf("%+v, procfs says %+v %v", s, theirs, err)
	}
	r, err := live.Rollup(pid)
	if err != nil || r.PSS <= 0 || r.PSS > r.RSS || r.PSSAnon+r.PSSFile+r.PSSShmem > r.PSS+1<<16 {
		t.Errorf("%+v %v", r, err)
	}
	maps, err := live.Maps(pid)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.ProcMaps()
	if err != nil || len(maps) < len(list)/2 || len(maps) == 0 {
		t.Errorf("%d maps, procfs finds %d, %v", len(maps), len(list), err)
	}
	var pss int64
	named := false
	for _, m := range maps {
		pss += m.PSS
		named = named || strings.HasSuffix(m.Path, filepath.Base(os.Args[0]))
	}
	if !named || pss < r.PSS/2 || pss > 2*r.PSS {
		t.Errorf("the maps add up to %d, the rollup says %d; our program among them: %v", pss, r.PSS, named)
	}
	u, err := live.Usage(pid)
	if err != nil || u.MinorFaults == 0 || u.Threads < 1 {
		t.Errorf("%+v %v", u, err)
	}
	if _, _, err := live.IO(pid); err != nil {
		t.Errorf("io: %v", err)
	}
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pages, ok := Resident(f); !ok || pages <= 0 {
		t.Errorf("%d pages, %v", pages, ok)
	}
}

// A process that ended is an answer: its open statm reads nothing, its other files are gone.
func TestEndedProcess(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	statm, err := os.Open("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	defer statm.Close()
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, ok := Resident(statm); ok {
		t.Error("an ended process has memory")
	}
	live := New("/proc")
	if _, err := live.Maps(pid); err == nil {
		t.Error("an ended process has maps")
	}
	if _, err := live.Status(pid); err == nil {
		t.Error("an ended process has a status")
	}
}

func TestMaps(t *testing.T) {
	for line, want := range map[string]Map{
		"7f00-7f10 rw-p 00000000 00:00 0 \n": {Start: 0x7f00, End: 0x7f10, Perms: "rw-p"},
		"7f00-7f10 r-xs 00001000 fe:01 1234     /lib/a b (deleted)\n": {Start: 0x7f00, End: 0x7f10, Perms: "r-xs",
			Inode: 1234, Path: "/lib/a b (deleted)"},
		"7f0000000000-7f0000001000 ---p 0 0:0 0      [anon:name here]\n": {Start: 0x7f0000000000, End: 0x7f0000001000,
			Perms: "---p", Path: "[anon:name here]"},
	} {
		if m, ok := parseMapHeader([]byte(line)); !ok || m != want {
			t.Errorf("%q: %+v %v", line, m, ok)
		}
	}
	for _, bad := range []string{"", "\n", "Rss: 4 kB\n", "7f10-7f00 rw-p 0 0:0 0\n", "-1 x\n", "7f00-7f10 rw-p\n",
		"zz-7f rw-p 0 0:0 0\n", "1-2 rw 0 0:0 0\n"} {
		if m, ok := parseMapHeader([]byte(bad)); ok {
			t.Errorf("%q is taken for %+v", bad, m)
		}
	}
}

func TestMeminfoAndPressure(t *testing.T) {
	m,
		ok := parseMeminfo(
		[]byte("MemTotal:  100 kB\nMemAvailable: 50 kB\nCached:  7 kB\nHugePages_Total:  3\nHugepagesize: 2048 kB\n" +
			"Dirty: -4 kB\n"))
	if !ok || m.Total != 100<<10 || m.Available != 50<<10 || m.HugePages != 3 || m.HugeSize != 2<<20 ||
		m.SwapTotal != Unknown || m.Dirty != Unknown {
		t.Errorf("%+v %v", m, ok)
	}
	if _, ok := parseMeminfo(nil); ok {
		t.Error("nothing is a meminfo")
	}
	p := parsePressure(
		[]byte("some avg10=12.50 avg60=1.00 avg300=0.10 total=1234\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=99\n"))
	if want := (Pressure{true, 12.5, .5, 1234, 99}); p != want {
		t.Errorf("%+v", p)
	}
	if p := parsePressure([]byte("garbage")); p.Known {
		t.Errorf("%+v", p)
	}
}

// write makes files below a directory.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func cgroupOf(t *testing.T, root string) Cgroup {
	t.Helper()
	f := New(filepath.Join(root, "proc"))
	mounts, err := f.CgroupMounts(root)
	if err != nil {
		t.Fatal(err)
	}
	cg, err := f.Cgroup(5, mounts)
	if err != nil {
		t.Fatal(err)
	}
	return cg
}

const v2Mount = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

// The limit that binds is the lowest up the tree, and it is read anew each time.
func TestCgroupV2(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"proc/self/mountinfo": v2Mount, "proc/5/cgroup": "0::/pod/job\n",
		"sys/fs/cgroup/pod/memory.max": "1000000\n", "sys/fs/cgroup/pod/memory.high": "900000\n",
		"sys/fs/cgroup/pod/job/memory.max": "2000000\n", "sys/fs/cgroup/pod/job/memory.high": "max\n",
		"sys/fs/cgroup/pod/job/memory.current": "500000\n", "sys/fs/cgroup/pod/job/memory.swap.max": "0\n",
		"sys/fs/cgroup/pod/job/memory.stat": "anon 300000\nfile 150000\nshmem 50000\nkernel_stack 1000\n" +
			"pagetables 2000\nslab 3000\npgfault 100\npgmajfault 10\n",
		"sys/fs/cgroup/pod/job/memory.events": "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 0\n",
		"sys/fs/cgroup/pod/job/cgroup.procs":  "5\n6\n", "sys/fs/cgroup/pod/job/inner/cgroup.procs": "7\nx\n",
	})
	cg := cgroupOf(t, root)
	m, err := cg.Memory()
	if err != nil || m.Limit != 1000000 || m.LimitPath != "/pod" || m.High != 900000 || m.Max != 2000000 ||
		m.File != 100000 || m.Shmem != 50000 ||
		m.Kernel != 6000 || m.Faults != 90 || m.EventsOOMKill != 5 || m.SwapMax != 0 || m.Peak != Unknown ||
		m.Pressure.Known {
		t.Errorf("%+v %v", m, err)
	}
	if cg.OOMKills() != 5 {
		t.Errorf("%d kills", cg.OOMKills())
	}
	write(t, root, map[string]string{"sys/fs/cgroup/pod/memory.max": "max\n"})
	if m, _ := cg.Memory(); m.Limit != 2000000 || m.LimitPath != "/pod/job" {
		t.Errorf("after the limit above was lifted: %d of %s", m.Limit, m.LimitPath)
	}
	if pids, err := cg.Processes(); err != nil || len(pids) != 3 {
		t.Errorf("%v %v", pids, err)
	}
	write(t, root, map[string]string{"proc/5/cgroup": "0::/pod/other\n"}) // it was moved
	if moved := cgroupOf(t, root); moved.Path != "/pod/other" {
		t.Errorf("%+v", moved)
	}
	if _, err := cgroupOf(t, root).Memory(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v", err)
	}
	write(t, root, map[string]string{"sys/fs/cgroup/pod/other/memory.current": "12x\n"})
	if _, err := cgroupOf(t, root).Memory(); !errors.Is(err, ErrMalformed) ||
		!strings.Contains(err.Error(), "memory.current") {
		t.Errorf("error %v", err)
	}
}

func TestCgroupV1(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		// a container without a cgroup namespace: the mount shows the container's own part
		"proc/self/mountinfo": "40 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup " +
			"cgroup rw,memory\n41 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		"proc/5/cgroup": "9:cpu,cpuacct:/x\n4:memory:/docker/abc/job\n0::/\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "700\n",
		"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4000\n",
		"sys/fs/cgroup/memory/job/memory.failcnt":        "6\n",
		"sys/fs/cgroup/memory/job/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"sys/fs/cgroup/memory/job/memory.stat": "cache 1\nrss 1\nhierarchical_memory_limit 3000\n" +
			"total_cache 300\ntotal_rss 350\ntotal_shmem 100\n",
	})
	cg := cgroupOf(t, root)
	m, err := cg.Memory()
	if err != nil || cg.Version != 1 || cg.Path != "/job" || m.Current != 700 || m.Max != 4000 || m.Limit != 3000 ||
		m.Anon != 350 || m.File != 200 || m.Shmem != 100 ||
		m.EventsMax != 6 || m.EventsOOMKill != 2 || m.High != Unknown {
		t.Errorf("%+v %+v %v", cg, m, err)
	}
	f := New(filepath.Join(root, "proc"))
	if _, err := f.Cgroup(5, CgroupMounts{}); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("without mounts: %v", err)
	}
}

// FuzzText gives all parsers of what the kernel writes the same garbage: none may panic, or make sizes up.
func FuzzText(f *testing.F) {
	f.Add([]byte(statusText))
	f.Add([]byte("Rss: 4 kB\nPss: 2 kB\n"))
	f.Add([]byte("some avg10=1.0 total=1\nfull avg10=nan total=9999999999999999999\n"))
	f.Add([]byte("9:memory:/a\n0::/b\n"))
	f.Add([]byte(v2Mount))
	f.Add([]byte("7f00-7f10 rw-p 00000000 00:00 0 [heap]\nRss: 9999999999999999999 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStatus(b); err == nil {
			for _, n := range []int64{s.RSS, s.Anon, s.Swap, s.Size, s.PageTables} {
				if n < 0 && n != Unknown {
					t.Fatalf("%d bytes", n)
				}
			}
		}
		if r, ok := parseRollup(b); ok && (r.PSS < 0 || r.RSS < 0) {
			t.Fatalf("%+v", r)
		}
		if m, ok := parseMeminfo(b); ok && m.Total < 0 {
			t.Fatalf("%+v", m)
		}
		if m, ok := parseMapHeader(b); ok && m.End < m.Start {
			t.Fatalf("%+v", m)
		}
		var m Map
		m.take(b)
		if m.RSS < 0 || m.PSS < 0 {
			t.Fatalf("%+v", m)
		}
		v1, v2 := parseCgroup(b)
		for _, p := range []string{v1, v2} {
			if p != "" && p[0] != '/' {
				t.Fatalf("cgroup %q", p)
			}
		}
		for _, mount := range parseMounts(b, "/").list {
			if rel := below(v1, mount.root); rel != "" && rel[0] != '/' {
				t.Fatalf("%q below %q is %q", v1, mount.root, rel)
			}
		}
		parsePressure(b)
		var stat CgroupMemory
		stat.statV1(b)
		stat.statV2(b)
		_, _ = parseUsage(b)
	})
}
