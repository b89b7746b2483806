package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

var recorded = New("testdata/proc")

func TestStat(t *testing.T) {
	s, err := recorded.Stat(20)
	if want := (Stat{PID: 20, PPID: 1, Comm: "a) R 1 (b) Z", State: 'S', Threads: 12, Start: 98765}); err != nil ||
		s != want {
		t.Errorf("%+v %v, want %+v", s, err, want)
	}
	if _, err := recorded.Stat(99); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a process that is not there", err)
	}
}

func TestAliveRecorded(t *testing.T) {
	for _, c := range []struct {
		pid   int
		start uint64
		want  bool
	}{
		{20, 98765, true},
		{20, 98764, false},  // the PID was used again
		{21, 98770, false},  // a zombie
		{300, 98780, true},  // a zombie whose other threads run
		{4000, 1234, false}, // nobody
	} {
		if got := recorded.Alive(c.pid, c.start); got != c.want {
			t.Errorf("Alive(%d, %d) = %v", c.pid, c.start, got)
		}
	}
}

func TestTree(t *testing.T) {
	if tree, err := recorded.Tree(1); err != nil || !slices.Equal(tree, []int{1, 20, 21, 300}) {
		t.Errorf("%v %v", tree, err)
	}
	if chain := recorded.Ancestors(300); !slices.Equal(chain, []int{20, 1}) {
		t.Errorf("%v", chain)
	}
	if _, err := recorded.Tree(77); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestMemoryAndCommand(t *testing.T) {
	page := uint64(os.Getpagesize())
	if m, err := recorded.RSS(20); err != nil || m != (RSS{500 * page, 200 * page}) {
		t.Errorf("%+v %v", m, err)
	}
	if args, err := recorded.Cmdline(20); err != nil || !slices.Equal(args, []string{"python3", "train.py", "--lr"}) {
		t.Errorf("%q %v", args, err)
	}
	if id, err := recorded.BootID(); err != nil || id != "0f3b1f6e-6a55-4d3e-9d61-0c7b1ce2a9f4" {
		t.Errorf("%q %v", id, err)
	}
}

// TestLifeOfAChild watches a real process from start to reaping, and holds our reading against procfs.
func TestLifeOfAChild(t *testing.T) {
	live := New("/proc")
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	start, err := live.StartTicks(pid)
	if err != nil || !live.Alive(pid, start) || live.Alive(pid, start+1) {
		t.Errorf("start %d, error %v, alive %v", start, err, live.Alive(pid, start))
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err := p.Stat(); err != nil || theirs.Starttime != start || theirs.PPID != os.Getpid() {
		t.Errorf("procfs says %+v %v", theirs, err)
	}
	if tree, err := live.Tree(os.Getpid()); err != nil || !slices.Contains(tree, pid) {
		t.Errorf("tree %v %v", tree, err)
	}
	if chain := live.Ancestors(pid); len(chain) == 0 || chain[0] != os.Getpid() {
		t.Errorf("ancestors %v", chain)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if live.Alive(pid, start) {
		t.Error("alive after it was reaped")
	}
	if id, err := live.BootID(); err != nil || len(id) != 36 {
		t.Errorf("boot id %q %v", id, err)
	}
}

func TestNetworkFS(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xFF534D42: "CIFS", 0x0BD00BD0: "Lustre",
		0x47504653: "GPFS", 0x00C36400: "Ceph",
		0x5346414F: "AFS", 0x01021997: "9p", 0x19830326: "BeeGFS"} {
		if kind, network := classify(magic); kind != want || !network {
			t.Errorf("%#x: %s %v", magic, kind, network)
		}
	}
	// ext, XFS, btrfs, tmpfs, overlay
	for _, local := range []uint32{0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630} {
		if kind, network := classify(local); network {
			t.Errorf("%#x is %s", local, kind)
		}
	}
	for fsType, want := range map[string]bool{"fuse.sshfs": true, "fuse": true, "virtiofs": true,
		"fuse.glusterfs": true, "fuseblk": false, "fuse.mergerfs": false} {
		if _, network := classifyFUSE(fsType); network != want {
			t.Errorf("%s: network %v", fsType, network)
		}
	}
	const mounts = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n" +
		"37 35 0:52 / /data rw,relatime shared:1 master:2 - fuse.sshfs me@there:/ rw,user_id=0\n"
	if fsType, ok := mountedAs(mounts, "0:52"); fsType != "fuse.sshfs" || !ok {
		t.Errorf("device 0:52 is %q %v", fsType, ok)
	}
	if fsType, ok := mountedAs(mounts, "0:5"); ok {
		t.Errorf("device 0:5 is %q", fsType)
	}
	if _, _, err := NetworkFS("/no/such/place"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if kind, network, err := NetworkFS("/proc"); err != nil || network {
		t.Errorf("/proc: %s %v %v", kind, network, err)
	}
}

func FuzzStat(f *testing.F) {
	for _, pid := range []int{1, 20, 21, 300} {
		b, err := os.ReadFile(fmt.Sprintf("testdata/proc/%d/stat", pid))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("1 ()"))
	f.Add([]byte(")1("))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseStat(b)
		if err != nil {
			if s != (Stat{}) || !errors.Is(err, ErrMalformed) {
				t.Fatalf("%+v with error %v", s, err)
			}
			return
		}
		flags := map[bool]int{true: exiting}[s.Exiting]
		back := fmt.Sprintf("%d (%s) %c %d 0 0 0 0 %d %s%d 0 %d", s.PID, s.Comm, s.State, s.PPID, flags,
			strings.Repeat("0 ", 10), s.Threads, s.Start)
		if again, err := parseStat([]byte(back)); err != nil || again != s {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}

func BenchmarkStat(b *testing.B) {
	live, pid := New("/proc"), os.Getpid()
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			live.Stat(pid)
		}
	})
	b.Run("procfs", func(b *testing.B) {
		p, _ := procfs.NewProc(pid)
		for b.Loop() {
			p.Stat()
		}
	})
}
