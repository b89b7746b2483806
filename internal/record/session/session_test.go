package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", dir)
	return dir
}

func create(t *testing.T, o Options) *Session {
	t.Helper()
	s, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sleeper starts a process that lives until the test has ended.
func sleeper(t *testing.T) Pid {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	start, err := proc.New("/proc").StartTicks(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return Pid{cmd.Process.Pid, start}
}

func TestCreateIsPrivateAndReadBack(t *testing.T) {
	home(t)
	s := create(t, Options{Command: []string{"python", "x/train.py"}, Version: "1"})
	if !strings.HasPrefix(s.Meta.Name, "train-") {
		t.Errorf("name %q", s.Meta.Name)
	}
	for _, dir := range []string{s.Dir, s.Rings(), filepath.Dir(s.Dir)} {
		st, err := os.Stat(dir)
		if err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, %v", dir, st.Mode(), err)
		}
	}
	back, err := Open(s.Dir)
	if err != nil || back.Meta.ID != s.Meta.ID || back.Meta.Dir != s.Meta.Dir {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestNames(t *testing.T) {
	for want, command := range map[string][]string{
		"train": {"python", "-u", "/x/train.py", "a"}, "pkg-main": {"python", "-m", "pkg.main"},
		"torchrun": {"/bin/torchrun"}, "session": {"..."},
	} {
		if got := nameOf(command); got != want {
			t.Errorf("nameOf(%v) = %q, want %q", command, got, want)
		}
	}
	for _, bad := range []string{"-x", "a/b", "a b", "12", "rank=3", strings.Repeat("x", 65)} {
		if CheckName(bad) == nil {
			t.Errorf("name %q was taken", bad)
		}
	}
}

func TestResolve(t *testing.T) {
	home(t)
	elsewhere := filepath.Join(t.TempDir(), "mine")
	old := create(t, Options{Name: "old"})
	if err := old.SetEnd(End{State: "exited", PIDs: []int{99999999}}); err != nil {
		t.Fatal(err)
	}
	live := create(t, Options{Name: "live", Dir: elsewhere})
	p := sleeper(t)
	if err := live.SetProcess(p); err != nil {
		t.Fatal(err)
	}
	three := 3
	for w, want := range map[Wanted]*Session{
		{}: live, {Name: "live"}: live, {Name: live.Meta.ID}: live, {Name: "liv"}: live, {Dir: elsewhere}: live,
		{PID: p.PID}: live, {Rank: &three}: live, {Name: "old"}: old, {PID: 99999999}: old,
	} {
		got, err := Resolve(w)
		if err != nil || got.Session.Dir != want.Dir {
			t.Errorf("Resolve(%+v) = %v, %v; want %s", w, got.Session, err, want.Meta.Name)
		}
	}
	if got, _ := Resolve(Wanted{Name: "live", Rank: &three}); got.Rank != 3 {
		t.Errorf("rank 3 gave rank %d", got.Rank)
	}
	for _, w := range []Wanted{{Name: "nothing"}, {PID: 1}, {Dir: "/no/such/dir"}} {
		if _, err := Resolve(w); err == nil {
			t.Errorf("Resolve(%+v) found something", w)
		}
	}
	second := create(t, Options{Name: "second"})
	if err := second.SetProcess(p); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(Wanted{}); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "second") ||
		!strings.Contains(err.Error(), "live") {
		t.Errorf("two live sessions: %v", err)
	}
}

// TestAnIDIsNoPID: an id of digits alone would be mistaken for a PID; one that an earlier version made is still found.
func TestAnIDIsNoPID(t *testing.T) {
	for range 1000 {
		if id := newID(); isNumber(id) {
			t.Fatalf("id %s", id)
		}
	}
	home(t)
	s := create(t, Options{Name: "earlier"})
	s.Meta.ID = "902822"
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	if got, err := Resolve(Wanted{PID: 902822}); err != nil || got.Session.Dir != s.Dir {
		t.Errorf("%v, %v", got.Session, err)
	}
}

func TestFinishedIsNewestAndSaysSo(t *testing.T) {
	home(t)
	if _, err := Resolve(Wanted{}); !errors.Is(err, ErrNone) {
		t.Errorf("no session: %v", err)
	}
	for _, n := range []string{"one", "two"} {
		if err := create(t, Options{Name: n}).SetEnd(End{State: "exited"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Resolve(Wanted{})
	if err != nil || got.Meta.Name != "two" || !strings.Contains(got.Note, "two") {
		t.Errorf("%v, note %q, %v", got.Session, got.Note, err)
	}
}

func TestCopyIsNeverLive(t *testing.T) {
	home(t)
	s := create(t, Options{Name: "a"})
	if err := s.SetProcess(sleeper(t)); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", s.Dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, err := Open(to)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Live() || c.Live() || !c.Copied() {
		t.Errorf("original live %v, copy live %v", s.Live(), c.Live())
	}
}

func TestNetworkHomeGetsALocalRuntime(t *testing.T) {
	dir := home(t)
	t.Setenv("TMPDIR", t.TempDir())
	real := networkFS
	t.Cleanup(func() { networkFS = real })
	networkFS = func(path string) (string, bool, error) { return "nfs", strings.HasPrefix(path, dir), nil }
	s := create(t, Options{Name: "net"})
	if strings.HasPrefix(s.Rings(), dir) || !strings.HasPrefix(s.Database(), dir) {
		t.Errorf("rings at %s, database at %s", s.Rings(), s.Database())
	}
	networkFS = func(string) (string, bool, error) { return "nfs", true, nil }
	if _, err := Create(Options{Name: "all"}); err == nil || !strings.Contains(err.Error(), "nfs") {
		t.Errorf("everything on NFS: %v", err)
	}
}

// TestPreparedRuntime: the place for rings beside a network file system has a name that everybody can guess. What
// others prepared there, or can exchange, is not used, and nothing is made in it.
func TestPreparedRuntime(t *testing.T) {
	dir, theirs := open(t)
	t.Setenv("MEMGAUGE_HOME", filepath.Join(dir, "home"))
	real := networkFS
	t.Cleanup(func() { networkFS = real })
	networkFS = func(path string) (string, bool, error) {
		return "nfs", strings.HasPrefix(path, filepath.Join(dir, "home")), nil
	}
	name := "memgauge-" + strconv.Itoa(os.Geteuid())
	target := filepath.Join(dir, "target")
	prepared := map[string]func(base string) error{
		"theirs": func(base string) error {
			return errors.Join(os.Mkdir(base, 0o700), os.Chown(base, stranger, stranger))
		},
		"a link": func(base string) error { return os.Symlink(theirs, base) },
		"a link to ours": func(base string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.Symlink(target, base))
		},
		"for all": func(base string) error { return errors.Join(os.Mkdir(base, 0o700), os.Chmod(base, 0o777)) },
		"a file":  func(base string) error { return os.WriteFile(base, nil, 0o600) },
		"exchangeable": func(base string) error {
			return errors.Join(os.Mkdir(base, 0o700), os.Chmod(filepath.Dir(base), 0o777))
		},
	}
	for what, prepare := range prepared {
		tmp := filepath.Join(dir, "tmp-"+strings.ReplaceAll(what, " ", "-"))
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", tmp)
		if err := prepare(filepath.Join(tmp, name)); err != nil {
			t.Fatal(err)
		}
		if s, err := Create(Options{}); err == nil {
			t.Errorf("%s: the rings are at %s", what, s.Rings())
		}
	}
	for _, at := range []string{theirs, target} {
		if made, err := os.ReadDir(at); err != nil || len(made) > 0 {
			t.Errorf("%s has %v, %v", at, made, err)
		}
	}
}

func TestLocks(t *testing.T) {
	home(t)
	s := create(t, Options{Name: "a"})
	l, err := s.TryLock(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.TryLock(false); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	l.Release()
	a, err := s.Lock(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.TryLock(false)
	if err != nil {
		t.Fatalf("two readers: %v", err)
	}
	a.Release()
	b.Release()
}

func TestDamagedFilesAreNamed(t *testing.T) {
	home(t)
	s := create(t, Options{Name: "a"})
	for text, want := range map[string]string{"{": "session.json: unexpected end of JSON input, at byte 1",
		`{"version": 9}`: "version 9", "{\"id\": \"\n\"}": "at byte 9", `{"version": 1, "uid": "x"}`: "at byte 25"} {
		if err := os.WriteFile(filepath.Join(s.Dir, metaFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s.Dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestManyProcesses: the end of a job with more processes than there may be pids can be read again.
func TestManyProcesses(t *testing.T) {
	home(t)
	s := create(t, Options{Name: "a"})
	pids := make([]int, 1<<18)
	for i := range pids {
		pids[i] = 1<<22 - i // the largest that the kernel has (PID_MAX_LIMIT)
	}
	if err := s.SetEnd(End{State: "exited", PIDs: pids}); err != nil {
		t.Fatal(err)
	}
	if e, ok, err := s.End(); err != nil || !ok || len(e.PIDs) != maxEndPIDs || e.PIDs[0] != pids[0] {
		t.Errorf("%d processes, %v", len(e.PIDs), err)
	}
}

// A file that is no ring does not keep a session from being finished, nor does a ring that was refused and recorded as
// such.
func TestUnfinished(t *testing.T) {
	home(t)
	s := create(t, Options{Name: "a"})
	files := map[string]string{s.Database(): "x", filepath.Join(s.Rings(), "1.2.3.tmp"): "x"}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetEnd(End{State: "exited", Recorded: true}); err != nil {
		t.Fatal(err)
	}
	if s.Unfinished() || len(s.Processes()) > 0 {
		t.Errorf("1.2.3.tmp passes for a ring: unfinished %v, processes %v", s.Unfinished(), s.Processes())
	}
	if err := os.WriteFile(filepath.Join(s.Rings(), "1.2.3.ring"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !s.Unfinished() {
		t.Error("a ring that nobody has looked at is left")
	}
	if err := s.SetEnd(End{State: "exited", Recorded: true, Refused: []string{"1.2.3.ring"}}); err != nil {
		t.Fatal(err)
	}
	if s.Unfinished() {
		t.Error("a refused ring makes every command recover the session")
	}
}

func TestMayReplace(t *testing.T) {
	home(t)
	s := create(t, Options{Name: "a"})
	for _, path := range []string{s.Database(), filepath.Join(s.Dir, metaFile), filepath.Join(s.Rings(), "1.2.0.ring"),
		filepath.Join(t.TempDir(), "1.2.0.ring")} {
		if MayReplace(path) == nil {
			t.Errorf("an answer may be written to %s", path)
		}
	}
	for _, path := range []string{filepath.Join(s.Dir, "out.csv"), filepath.Join(t.TempDir(), metaFile), "out.json"} {
		if err := MayReplace(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The newest ring shows whether an agent is in a process: an older one may wait for its last records to be stored.
func TestObserved(t *testing.T) {
	home(t)
	s, p := create(t, Options{Name: "job"}), sleeper(t)
	ring, err := os.ReadFile("../../../testdata/rings/v1.1.ring")
	if err != nil {
		t.Fatal(err)
	}
	write := func(generation int, state byte) {
		t.Helper()
		ring[wire.OffState] = state
		name := fmt.Sprintf("%d.%d.%d%s", p.PID, p.Start, generation, wire.RingSuffix)
		if err := os.WriteFile(filepath.Join(s.Rings(), name), ring, filePerm); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		generation int
		state      byte
		want       bool
	}{{0, wire.StateLive, true}, {0, wire.StateClosed, true}, {1, wire.StateLive, true},
		{1, wire.StateDetached, false}} {
		write(c.generation, c.state)
		if _, err := Observed(p.PID); (err == nil) != c.want {
			t.Errorf("ring %d in state %d: %v, want %v", c.generation, c.state, err, c.want)
		}
	}
}

// TestCauseOfAnEnd: a session of an earlier version says in words that memory ran out; it is read as the code that is
// written now.
func TestCauseOfAnEnd(t *testing.T) {
	for text, want := range map[string]Cause{"an OOM kill": OOMKill, "oom_kill": OOMKill,
		"an out-of-memory error": OOMError, "oom_error": OOMError, "": "", "later": "later"} {
		var e End
		end := fmt.Appendf(nil, `{"state":"exited","code":3,"oom":%q}`, text)
		if err := json.Unmarshal(end, &e); err != nil || e.OOM != want {
			t.Errorf("%q is read as %q (%v)", text, e.OOM, err)
		}
	}
	if text := (End{State: "exited", Code: 3, OOM: OOMError}).String(); text !=
		"exit 3 after an out-of-memory error" {
		t.Error(text)
	}
}
