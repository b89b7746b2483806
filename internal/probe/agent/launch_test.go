package agent

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestFiles: every module is shipped, and nothing else that may lie beside them.
func TestFiles(t *testing.T) {
	want := []string{"boot/sitecustomize.py"}
	err := filepath.WalkDir("../../../python/memgauge", func(name string, d fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".py" {
			want = append(want, "lib/"+strings.TrimPrefix(name, "../../../python/"))
		}
		return err
	})
	if err != nil || len(want) < 10 {
		t.Fatalf("%d modules, %v", len(want), err)
	}
	slices.Sort(want)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("embedded files\n got %v\nwant %v", got, want)
	}
}

func TestInstall(t *testing.T) {
	home := t.TempDir()
	dir, err := Install(home)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(withBuild([]byte("VERSION = \"1\"\n"), "+g1")); got != "VERSION = \"1\"\nVERSION += \"+g1\"\n" ||
		len(source()[versionFile]) == 0 {
		t.Errorf("_version.py of a build is %q", got)
	}
	if dir != filepath.Join(home, "agent", Hash()) {
		t.Errorf("installed into %s", dir)
	}
	for _, d := range []string{filepath.Dir(dir), dir, filepath.Join(dir, "boot")} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", d, info.Mode(), err)
		}
	}
	checkSame(t, dir)
	left, _ := filepath.Glob(filepath.Join(home, "agent", ".new-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallKeepsWhatIsGood(t *testing.T) {
	home := t.TempDir()
	dir, err := Install(home)
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "boot", "__pycache__")
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(home); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cache); err != nil {
		t.Errorf("Python's cache is gone: %v", err)
	}
}

func TestInstallRepairs(t *testing.T) {
	home := t.TempDir()
	dir, err := Install(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lib/memgauge/_agent/record/ring.py"), []byte("raise"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "boot")); err != nil {
		t.Fatal(err)
	}
	if again, err := Install(home); err != nil || again != dir {
		t.Fatalf("%s, %v", again, err)
	}
	checkSame(t, dir)
}

func TestInstallAtOnce(t *testing.T) {
	home := t.TempDir()
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			dir, err := Install(home)
			if err != nil {
				t.Error(err)
				return
			}
			checkSame(t, dir)
		})
	}
	group.Wait()
}

func TestInstallNamesTheOperation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{file, "/proc/nope", "/proc/nope/below"} { // /proc denies that it is there itself
		if _, err := Install(home); err == nil || !strings.HasPrefix(err.Error(), "install agent: ") {
			t.Errorf("%s: %v", home, err)
		}
	}
}

func checkSame(t *testing.T, dir string) {
	t.Helper()
	for name, want := range source() {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
}

func TestEnv(t *testing.T) {
	outer, err := Install(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	check := func(base, want string) {
		t.Helper()
		got := Env(strings.Fields(base), "/h/agent/X", "/s", Options{Budget: 0.01, Trace: "auto"})
		if strings.Join(got, " ") != want {
			t.Errorf("from %q\n got %q\nwant %q", base, got, want)
		}
	}
	ours := "MEMGAUGE_BUDGET=0.01 MEMGAUGE_RUNTIME=/s MEMGAUGE_TRACE=auto PYTHONPATH=/h/agent/X/boot"
	check("", ours)
	check("A=1 PYTHONPATH= B=2", "A=1 B=2 "+ours)
	check("PYTHONPATH=/a:/b/boot A=x=y", "A=x=y "+ours+":/a:/b/boot")
	check("MEMGAUGE_RUNTIME=/other PYTHONPATH=/a:"+outer+"/boot:/b", ours+":/a:/b")
}

// TestPythonStartsWithIt is the whole way: install, environment, a Python that finds the agent and gives its hash.
func TestPythonStartsWithIt(t *testing.T) {
	python := env.Program(t, "python3")
	dir, err := Install(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c",
		"from memgauge._agent import state as s; print(s.agent_hash(), s.settings.budget, s.settings.trace)")
	cmd.Env = Env(os.Environ(), dir, t.TempDir(), Options{Budget: 0.025, Trace: "all"})
	out, err := cmd.CombinedOutput()
	if want := Hash() + " 0.025 all\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}
