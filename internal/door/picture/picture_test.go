package picture

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/memgauge/memgauge/internal/probe/proc"
)

const (
	leader = 11772 // of the recording
	mib    = 1 << 20
)

// unpack writes the recorded machine out; change may add or remove files.
func unpack(t *testing.T, change map[string]string) (root string, heaps map[int]*Heap) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/v1.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		text := string(f.Data)
		if strings.HasSuffix(f.Name, "/cmdline") {
			text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), `\0`, "\x00")
		}
		files[f.Name] = text
	}
	for name, text := range change {
		files[name] = text
		if text == "" {
			delete(files, name)
		}
	}
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reports := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(files["heaps.json"]), &reports); err != nil {
		t.Fatal(err)
	}
	heaps = map[int]*Heap{}
	for pid, r := range reports {
		n, _ := strconv.Atoi(pid)
		heaps[n] = ParseHeap(strings.ReplaceAll(string(r), `"`, "'"))
	}
	return root, heaps
}

// takeRecorded takes the picture of the recorded job.
func takeRecorded(t *testing.T, change map[string]string, withHeaps bool) Picture {
	t.Helper()
	root, heaps := unpack(t, change)
	fs := proc.New(filepath.Join(root, "proc"))
	tree, err := fs.Tree(leader)
	if err != nil {
		t.Fatal(err)
	}
	var members []Member
	for _, pid := range tree {
		m := Member{PID: pid, Role: "other", Rank: -1}
		if withHeaps {
			m.Heap = heaps[pid]
		}
		members = append(members, m)
	}
	mounts, err := fs.CgroupMounts(root)
	if err != nil {
		t.Fatal(err)
	}
	cg, err := fs.Cgroup(leader, mounts)
	if err != nil {
		t.Fatal(err)
	}
	info, err := fs.Meminfo()
	if err != nil {
		t.Fatal(err)
	}
	return Take(fs, members, &cg, info.Total)
}

func near(t *testing.T, what string, got *int64, want, tolerance float64) {
	t.Helper()
	if got == nil || math.Abs(float64(*got)-want) > tolerance {
		t.Errorf("%s is %v, want %.0f ± %.0f", what, Num(got), want, tolerance)
	}
}

// Num is a number that may be unknown as text.
func Num(n *int64) string {
	if n == nil {
		return "nil"
	}
	return fmt.Sprint(*n)
}

// The recorded program's memory is known: a block of 32 MiB; 5 MiB of small blocks, of which each child copied 2 MB; as
// much freed between them; 8 MiB shared.
func checkKnown(t *testing.T, p Picture) {
	t.Helper()
	c := p.Host.Classes
	near(t, "heap in use", c.HeapInUse, 33959936+(42489344-33959936)+2*2e6, 2*mib)
	// some of the freed memory shares pages with memory in use
	near(t, "heap free", c.HeapFree, 49414144-42489344, 3*mib)
	near(t, "Python's arenas", c.PythonArenas, 7340032, 2*mib)
	near(t, "shared", c.Shared, 8388608, 4096*4)
	if c.Stacks == nil || *c.Stacks <= 0 || *c.Stacks > mib {
		t.Errorf("stacks %s", Num(c.Stacks))
	}
	if len(p.Processes) != 3 || p.Processes[0].PID != leader || p.Processes[0].PSS == nil {
		t.Errorf("processes %+v", p.Processes)
	}
	for _, x := range p.Processes {
		if sum := x.Classes.named(); math.Abs(float64(sum-*x.PSS-*x.Classes.PageTables)) > 0.01*float64(*x.PSS) {
			t.Errorf("process %d: classes add up to %d, PSS and page tables to %d", x.PID, sum,
				*x.PSS+*x.Classes.PageTables)
		}
	}
	if h := p.Host; h.NamedShare == nil || *h.NamedShare < 0.98 || h.LimitKind != "cgroup" || *h.Limit != 256*mib {
		t.Errorf("host %+v, named %v", h, *h.NamedShare)
	}
	if k := p.Host.Kernel; math.Abs(float64(k.Processes-k.Anonymous)) > 0.02*float64(k.Anonymous) {
		t.Errorf("anonymous: %+v", k)
	}
}

func TestRecordedV1(t *testing.T) { checkKnown(t, takeRecorded(t, nil, true)) }

// v2 has no memory controller on the machine of the recording: the same job as cgroup v2 would report it.
func TestSameJobInV2(t *testing.T) {
	checkKnown(t, takeRecorded(t, v2Files(), true))
}

func v2Files() map[string]string {
	const dir = "sys/fs/cgroup/jobs/one/"
	files := map[string]string{
		"proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 " +
			"cgroup2 rw\n",
		dir + "memory.current":          "73650176\n",
		dir + "memory.max":              "max\n",
		"sys/fs/cgroup/jobs/memory.max": "268435456\n",
		dir + "memory.high":             "max\n",
		dir + "memory.events":           "low 0\nhigh 0\nmax 2\noom 0\noom_kill 0\n",
		dir + "cgroup.procs":            "11772\n11830\n11831\n",
		dir +
			"memory.stat": "anon 62640128\nfile 8392704\nkernel 2617344\nkernel_stack 65536\npagetables 724992\n" +
			"sock 0\nshmem 8388608\nslab 1500000\n",
	}
	for _, pid := range []string{"11772", "11830", "11831"} {
		files["proc/"+pid+"/cgroup"] = "0::/jobs/one\n"
	}
	return files
}

// Without agents nothing is invented: the heap is anonymous memory, in use and free are unknown.
func TestWithoutAgents(t *testing.T) {
	p := takeRecorded(t, nil, false)
	c := p.Host.Classes
	if c.HeapInUse != nil || c.HeapFree != nil || c.PythonArenas != nil || *c.Anonymous < 50*mib ||
		*p.Host.NamedShare < 0.98 {
		t.Errorf("%+v, named %v", c, *p.Host.NamedShare)
	}
}

// A process that dies while it is read is left out; for one whose maps may not be read, its status is used.
func TestProcessesThatVanish(t *testing.T) {
	p := takeRecorded(t, map[string]string{"proc/11831/status": "", "proc/11830/smaps": ""}, true)
	if len(p.Processes) != 2 {
		t.Fatalf("%+v", p.Processes)
	}
	for _, x := range p.Processes {
		if x.PID == 11830 && (x.Note == "" || x.PSS != nil || x.Classes.Anonymous == nil) {
			t.Errorf("%+v", x)
		}
	}
}

// Other processes in the same cgroup without a limit: the picture is of the job alone.
func TestSharedCgroupWithoutLimit(t *testing.T) {
	p := takeRecorded(t,
		map[string]string{"sys/fs/cgroup/memory/memgauge-record/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memgauge-record/memory.stat": "total_rss 1\n" +
				"hierarchical_memory_limit 9223372036854771712\n",
			"sys/fs/cgroup/memory/memgauge-record/cgroup.procs": "11772\n11830\n11831\n99\n",
			"proc/99/stat":   "99 (other) S 1 " + strings.Repeat("0 ", 30) + "\n",
			"proc/99/status": "Name:\tother\nVmRSS:\t1024 kB\nRssAnon:\t1024 kB\n"}, true)
	if p.Host.LimitKind != "host" || len(p.Processes) != 3 || *p.Host.NamedShare < 0.99 {
		t.Errorf("%+v with %d processes", p.Host, len(p.Processes))
	}
}

// answers returns recorded rows for queries that contain a piece of text.
type answers map[string]string

func (a answers) query(_ context.Context, sql string, into any) error {
	for piece, rows := range a {
		if strings.Contains(sql, piece) {
			return json.Unmarshal([]byte("["+strings.Join(strings.Fields(rows), ",")+"]"), into)
		}
	}
	return fmt.Errorf("not expected: %s", sql)
}

// A GPU with 50 GiB in use: 30 live and 8 cached in the allocator, 0.5 of context, 2.5 outside, 8 of other processes, 1
// of the driver.
func TestDevices(t *testing.T) {
	const gib = 1 << 30
	row := fmt.Sprintf(`{"device_id":0,"name":"A100","total":%d,"used":%d,"job":%d,"others":%d,"unknown":0,"live":%d,`+
		`"reserved":%d,"context":%d,"now":%d}
{"device_id":1,"name":"A100","total":%d,"used":%d,"job":0,"others":0,"unknown":1,"live":null,"reserved":null,`+
		`"context":null,"now":null}
`, 80*gib, 50*gib, 41*gib, 8*gib, 30*gib, 38*gib, gib/2, 3*gib, 80*gib, 5*gib)
	d, err := Devices(t.Context(), answers{"gpu.utilization": row}.query, false)
	if err != nil {
		t.Fatal(err)
	}
	one := d["0"]
	for what, c := range map[string]struct {
		got  *int64
		want int64
	}{"live": {one.Live, 30 * gib}, "cached": {one.Cached, 8 * gib}, "context": {one.Context, gib / 2},
		"outside": {one.Outside, 5 * gib / 2},
		"others":  {one.Others, 8 * gib}, "driver": {one.Driver, gib}} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s is %s, want %d", what, Num(c.got), c.want)
		}
	}
	if two := d["1"]; two.Others != nil || two.Driver != nil || two.Live != nil || two.Outside != nil ||
		*two.Used != 5*gib {
		t.Errorf("%+v", two)
	}
}

// The kernel's counts for a job that grows while its processes are read are averaged over that time.
func TestBetween(t *testing.T) {
	before := proc.CgroupMemory{Current: 100, Anon: 80, File: 10, Shmem: proc.Unknown, Sock: proc.Unknown, Limit: 500}
	after := proc.CgroupMemory{Current: 120, Anon: 100, File: 10, Shmem: 4, Sock: proc.Unknown, Limit: 400}
	between(&before, &after)
	if after.Current != 110 || after.Anon != 90 || after.File != 10 || after.Shmem != 4 || after.Sock != proc.Unknown ||
		after.Limit != 400 {
		t.Errorf("%+v", after)
	}
}

func TestParseHeap(t *testing.T) {
	h := ParseHeap("{'in_use': 5, 'held': 9, 'mapped': 1, 'arenas': None}")
	if h == nil || h.InUse != 5 || h.Held != 9 || h.Mapped != 1 || h.Arenas != nil {
		t.Errorf("%+v", h)
	}
	for _, bad := range []string{"", "None", "{'in_use': None, 'held': None, 'mapped': None, 'arenas': 3}",
		"{'in_use': 'x'}", "[]"} {
		if h := ParseHeap(bad); h != nil {
			t.Errorf("%q is %+v", bad, h)
		}
	}
}
