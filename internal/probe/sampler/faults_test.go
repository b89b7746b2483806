package sampler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// machine is a tree of a root process 10 with a child 11 in a cgroup with a limit.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	m := &machine{t, t.TempDir()}
	m.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
	m.write("proc/vmstat", "oom_kill 3\n")
	m.write("proc/uptime", "1000.00 1.00\n")
	m.write("proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	m.process(10, 1, 100, 50)
	m.process(11, 10, 101, 20)
	m.cgroup(0)
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) process(pid, parent int, start, rss int64) {
	dir := fmt.Sprintf("proc/%d/", pid)
	m.write(dir+"stat", fmt.Sprintf("%d (python) S %d %s7 0 %d 0 0\n", pid, parent, strings.Repeat("0 ", 15), start))
	m.write(dir+"status",
		fmt.Sprintf("Name:\tpython\nVmHWM:\t%d kB\nVmRSS:\t%d kB\nRssAnon:\t%d kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\n",
			rss, rss, rss))
	m.write(dir+"statm", fmt.Sprintf("100 %d 0 0 0 0 0\n", rss/4))
	m.write(dir+"cgroup", "0::/job\n")
	m.write(dir+"cmdline", "python\x00train.py\x00")
}

func (m *machine) cgroup(kills int) {
	m.write("sys/fs/cgroup/job/memory.current", "80000\n")
	m.write("sys/fs/cgroup/job/memory.max", "100000\n")
	m.write("sys/fs/cgroup/job/memory.stat", "anon 60000\nfile 0\nshmem 0\n")
	m.write("sys/fs/cgroup/job/memory.events", fmt.Sprintf("oom %d\noom_kill %d\n", kills, kills))
}

func (m *machine) remove(name string) {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) sampler() *Sampler {
	at := time.Unix(5000, 0)
	s := New(Options{Root: m.root, Roots: func() []int { return []int{10} },
		Now: func() time.Time { at = at.Add(time.Second); return at }})
	m.t.Cleanup(s.Close)
	return s
}

func pidsOf(rows []model.ProcessMemory) (list []int32) {
	for _, r := range rows {
		list = append(list, r.PID)
	}
	return list
}

// Each fault loses only the rows that depend on what fails.
func TestFaultsCostNoMoreThanTheyMust(t *testing.T) {
	for name, c := range map[string]struct {
		spoil                  func(*machine)
		memory, cgroups, hosts int
	}{
		"nothing":                    {func(*machine) {}, 2, 1, 1},
		"a process that dies":        {func(m *machine) { m.remove("proc/11") }, 1, 1, 1},
		"between two of its files":   {func(m *machine) { m.remove("proc/11/status") }, 1, 1, 1},
		"a stat file cut short":      {func(m *machine) { m.write("proc/11/stat", "11 (pyth") }, 2, 1, 1},
		"a status cut short":         {func(m *machine) { m.write("proc/11/status", "Name:\tpy") }, 1, 1, 1},
		"no smaps_rollup, io, wchan": {func(*machine) {}, 2, 1, 1},
		"a cgroup that is gone":      {func(m *machine) { m.remove("sys/fs/cgroup/job") }, 2, 0, 1},
		"a cgroup file with garbage": {func(m *machine) { m.write("sys/fs/cgroup/job/memory.current", "\x00\xff") },
			2, 0, 1},
		"no meminfo":          {func(m *machine) { m.remove("proc/meminfo") }, 2, 1, 0},
		"a number used again": {func(m *machine) { m.process(11, 1, 999, 20) }, 1, 1, 1},
		"a zombie": {func(m *machine) {
			m.write("proc/11/stat", "11 (python) Z 10 "+strings.Repeat("0 ", 15)+"1 0 101 0 0\n")
		}, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := m.sampler()
			if first := s.Sample(); len(first.Memory) != 2 || len(first.Cgroups) != 1 || len(first.Hosts) != 1 {
				t.Fatalf("at first %+v", first)
			}
			s.Glance()
			c.spoil(m)
			s.Glance()
			out := s.Sample()
			if len(out.Memory) != c.memory || len(out.Cgroups) != c.cgroups || len(out.Hosts) != c.hosts {
				t.Errorf("%d processes %v, %d cgroups, %d hosts; want %d, %d, %d", len(out.Memory), pidsOf(out.Memory),
					len(out.Cgroups), len(out.Hosts), c.memory, c.cgroups, c.hosts)
			}
		})
	}
}

// A cgroup to which the job is moved is followed, with its own limit.
func TestCgroupThatMoves(t *testing.T) {
	m := newMachine(t)
	s := m.sampler()
	s.Sample()
	m.write("sys/fs/cgroup/new/memory.current", "1\n")
	m.write("sys/fs/cgroup/new/memory.max", "555\n")
	m.write("sys/fs/cgroup/new/memory.stat", "anon 1\n")
	m.write("proc/10/cgroup", "0::/new\n")
	if out := s.Sample(); len(out.Cgroups) != 1 || out.Cgroups[0].Path != "/new" || out.Cgroups[0].Limit != 555 {
		t.Errorf("%+v", out.Cgroups)
	}
}

// An exiting process is shown in the root cgroup: the cgroup where it lived stays the job's.
func TestExitingProcessIsNotFollowed(t *testing.T) {
	m := newMachine(t)
	s := m.sampler()
	s.Sample()
	s.Kills(false)
	m.write("sys/fs/cgroup/memory.current", "1\n")
	m.write("sys/fs/cgroup/memory.stat", "anon 1\n")
	m.write("proc/10/cgroup", "0::/\n")
	m.write("proc/10/status", "Name:\tpython\n")
	m.cgroup(1)
	s.Glance()
	if out := s.Sample(); len(out.Cgroups) != 1 || out.Cgroups[0].Path != "/job" {
		t.Errorf("%+v", out.Cgroups)
	}
	if k := s.Kills(true); len(k) != 1 || k[0].Path != "/job" {
		t.Errorf("%+v", k)
	}
}

// A kill is reported once, with its victim and the minute before.
func TestKill(t *testing.T) {
	m := newMachine(t)
	s := m.sampler()
	s.Sample()
	for range 5 {
		s.Glance()
	}
	if k := s.Kills(false); len(k) != 0 {
		t.Fatalf("%v", k)
	}
	m.process(11, 10, 101, 40)
	s.Glance()
	m.remove("proc/11")
	m.cgroup(1)
	s.Sample()
	kills := s.Kills(false)
	if len(kills) != 1 || kills[0].Scope != "cgroup" || kills[0].Path != "/job" || kills[0].Limit != 100000 ||
		len(kills[0].Victims) != 1 ||
		kills[0].Victims[0].PID != 11 || kills[0].Victims[0].Bytes != 40<<10 || len(kills[0].Largest) != 1 ||
		kills[0].Largest[0].PID != 10 {
		t.Fatalf("%+v", kills)
	}
	if text := kills[0].String(); !strings.Contains(text, "/job reached its limit") ||
		!strings.Contains(text, "11 with 40 KiB") {
		t.Errorf("it says %q", text)
	}
	rows := s.Window(kills[0].Time)
	if len(rows) != 6*3 || rows[0].Event != kills[0].Time || rows[0].Time > rows[len(rows)-1].Time {
		t.Errorf("%d rows in the window: %+v", len(rows), rows)
	}
	s.Sample()
	if k := s.Kills(false); len(k) != 0 {
		t.Errorf("told again: %v", k)
	}
	if again := s.Window(1); len(again) != 0 {
		t.Errorf("the window is told again: %d rows", len(again))
	}
}

// A victim whose memory is still being released when its kill is counted is named once it has ended; one that never
// ends, after a while.
func TestVictimThatTakesItsTime(t *testing.T) {
	m := newMachine(t)
	s := m.sampler()
	s.Sample()
	s.Kills(false)
	m.cgroup(1)
	s.Sample()
	if k := s.Kills(false); len(k) != 0 {
		t.Fatalf("told before anybody has gone: %v", k)
	}
	m.remove("proc/11")
	s.Sample()
	if k := s.Kills(false); len(k) != 1 || len(k[0].Victims) != 1 || k[0].Victims[0].PID != 11 {
		t.Errorf("%+v", k)
	}
	m.cgroup(2)
	told := 0
	for range 8 {
		s.Sample()
		told += len(s.Kills(false))
	}
	if told != 1 {
		t.Errorf("a kill outside of the tree was told %d times", told)
	}
}

// The host's counter includes every container's kills. One is ours only when the host was short of memory and a process
// of ours has ended.
func TestKillOfTheHost(t *testing.T) {
	for _, c := range []struct {
		available string
		gone      bool
		want      int
	}{{"4194304", true, 0}, {"4194304", false, 0}, {"1024", false, 0}, {"1024", true, 1}} {
		m := newMachine(t)
		m.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: "+c.available+" kB\n")
		s := m.sampler()
		s.Sample()
		s.Kills(false)
		m.write("proc/vmstat", "oom_kill 4\n")
		if c.gone {
			m.remove("proc/11")
		}
		s.Sample()
		if k := s.Kills(false); len(k) != c.want || c.want == 1 && k[0].Scope != "host" {
			t.Errorf("available %s, gone %v: %v", c.available, c.gone, k)
		}
	}
}

// A kill between two collectors, perhaps of the first itself, is not missed.
func TestKillSinceAnEarlierSampler(t *testing.T) {
	m := newMachine(t)
	m.cgroup(7)
	s := m.sampler()
	s.SetKills("/job", 5)
	s.Sample()
	if k := s.Kills(true); len(k) != 1 || k[0].Count != 2 {
		t.Errorf("%+v", k)
	}
}
