// Package env tells tests what this machine has: the Pythons, as scripts/testenv found or made them, programs, rights.
// A test that needs what is not there is skipped with the reason; MEMGAUGE_REQUIRE=torch,root,… (or all) turns the skip
// into a failure on a machine that should have it: docs/HACKING.md lists the parts. Only tests may import it.
package env

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Python is an interpreter that tests can run.
type Python struct {
	Path string // under Root, if that is set
	Root string // the tree that is its root directory, or ""
}

// Name tells interpreters apart in a test's name.
func (p Python) Name() string {
	if p.Root != "" {
		return filepath.Base(p.Path)
	}
	return strings.Trim(strings.ReplaceAll(p.Path, "/", "-"), "-")
}

// Argv is the command line that runs this Python with the arguments. In another root the checkout and /tmp lie where
// they lie here; the process has the PID of the command that was started.
func (p Python) Argv(args ...string) []string {
	argv := []string{p.Path}
	if p.Root != "" {
		argv = []string{filepath.Join(Checkout(), "scripts", "inchroot"), p.Root, p.Path}
	}
	return append(argv, args...)
}

// Command runs this Python, stopped at the end of the test.
func (p Python) Command(t testing.TB, args ...string) *exec.Cmd {
	argv := p.Argv(args...)
	return exec.CommandContext(t.Context(), argv[0], argv[1:]...)
}

// Torch is a Python with torch 2 or newer.
func Torch(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "torch", "MEMGAUGE_TORCH_PYTHON")}
}

// Torch113 is a Python with torch 1.13, the oldest one supported.
func Torch113(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "torch113", "MEMGAUGE_TORCH113_PYTHON")}
}

// Learners is a Python with jax, Keras, XGBoost, LightGBM and NumPy, without torch.
func Learners(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "learners", "MEMGAUGE_LEARNERS_PYTHON")}
}

// Natives is a Python with numpy, PIL, OpenCV, Arrow, lxml, tokenizers and memray, without torch.
func Natives(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "natives", "MEMGAUGE_NATIVES_PYTHON")}
}

// Frameworks is a Python with torch, transformers, accelerate, Lightning, pytest and its plugins.
func Frameworks(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "frameworks", "MEMGAUGE_FRAMEWORKS_PYTHON")}
}

// Serving is a Python with FastAPI, uvicorn and transformers.
func Serving(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "serving", "MEMGAUGE_SERVING_PYTHON")}
}

// Notebooks is a Python with torch, JupyterLab, ipykernel, nbclient, matplotlib and ipywidgets.
func Notebooks(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "notebooks", "MEMGAUGE_NOTEBOOKS_PYTHON")}
}

// Readers is a Python that opens what memgauge export writes: it has tensorboard, pyarrow and perfetto.
func Readers(t testing.TB) Python {
	t.Helper()
	return Python{Path: need(t, "readers", "MEMGAUGE_READERS_PYTHON")}
}

// TraceRows has Perfetto's own trace processor open a trace, and returns the rows of each query, by column.
func TraceRows(t testing.TB, trace string, queries ...string) (rows [][]map[string]any) {
	t.Helper()
	dir := need(t, "trace_processor", "TRACE_PROCESSOR")
	node, err := exec.LookPath("node")
	if err != nil {
		Missing(t, "trace_processor", err)
	}
	script := filepath.Join(Checkout(), "test", "env", "testdata", "traceprocessor.mjs")
	cmd := exec.CommandContext(t.Context(), node, append([]string{script, dir, trace}, queries...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("trace processor: %v\n%s", err, stderr.String())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var r []map[string]any
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("trace processor: %v\n%s", err, out)
		}
		rows = append(rows, r)
	}
	return rows
}

// TraceErrors is a query for what the trace processor could not make sense of.
const TraceErrors = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"

// Prometheus is the path of one of its programs: prometheus or promtool.
func Prometheus(t testing.TB, program string) string {
	t.Helper()
	return filepath.Join(need(t, "prometheus", "MEMGAUGE_PROMETHEUS"), program)
}

// Versitygw is the path of an S3 service over a directory.
func Versitygw(t testing.TB) string {
	t.Helper()
	return need(t, "versitygw", "MEMGAUGE_VERSITYGW")
}

// BashCompletion is bash's file of completion; zsh and fish are there as well.
func BashCompletion(t testing.TB) string {
	t.Helper()
	return need(t, "shells", "MEMGAUGE_SHELLS")
}

// Trino is the directory of an unpacked Trino server.
func Trino(t testing.TB) string {
	t.Helper()
	return need(t, "trino", "MEMGAUGE_TRINO_HOME")
}

// Torches are all Pythons with torch, at least one; the short lane's only one is the newest.
func Torches(t testing.TB) []Python {
	t.Helper()
	all := []Python{Torch(t)}
	if !InLong() {
		return all
	}
	if path, _ := lookup("torch113", "MEMGAUGE_TORCH113_PYTHON"); path != "" || required("torch113") {
		all = append(all, Torch113(t))
	}
	return all
}

// CPythons are CPython 3.8 to 3.13, as many as there are, in that order; most have no torch. The short lane has the
// oldest and the newest.
func CPythons(t testing.TB) []Python {
	t.Helper()
	var all []Python
	for _, path := range filepath.SplitList(need(t, "pythons", "MEMGAUGE_PYTHONS")) {
		all = append(all, Python{Path: path})
	}
	return Ends(all)
}

// ChrootCPythons are CPython 3.14 and 3.15 with another C library and another root; the short lane has the newest.
func ChrootCPythons(t testing.TB) []Python {
	t.Helper()
	var all []Python
	for _, entry := range filepath.SplitList(need(t, "chroot", "MEMGAUGE_CHROOT_PYTHONS")) {
		tree, name, _ := strings.Cut(entry, "|")
		all = append(all, Python{Path: name, Root: tree})
	}
	if !InLong() {
		all = all[len(all)-1:]
	}
	return all
}

// Sysroot is the C compiler that wheels are built with (scripts/sysroot).
func Sysroot(t testing.TB) string {
	t.Helper()
	return need(t, "sysroot", "MEMGAUGE_SYSROOT_CC")
}

// Auditwheel is the command that tells with which machines a wheel works.
func Auditwheel(t testing.TB) string {
	t.Helper()
	return need(t, "auditwheel", "MEMGAUGE_AUDITWHEEL")
}

// Chromium is the browser that pages are opened in.
func Chromium(t testing.TB) string {
	t.Helper()
	return need(t, "chromium", "MEMGAUGE_CHROMIUM")
}

// Page skips the test, or fails it where MEMGAUGE_REQUIRE has web, if the page of memgauge web was not built in.
func Page(t testing.TB, bundled bool) {
	t.Helper()
	if !bundled {
		Missing(t, "web", "the tests were built without the page: go run ./scripts/web makes it")
	}
}

// Axe is the source of axe-core, which judges how accessible a page is.
func Axe(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(need(t, "web", "MEMGAUGE_AXE"), "axe.min.js"))
	if err != nil {
		Missing(t, "web", err)
	}
	return string(source)
}

// Allocators are the paths of jemalloc, mimalloc and tcmalloc.
func Allocators(t testing.TB) (paths []string) {
	t.Helper()
	dir := need(t, "allocators", "MEMGAUGE_ALLOCATORS")
	for _, name := range []string{"libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			Missing(t, "allocators", err)
		}
		paths = append(paths, path)
	}
	return paths
}

// Has tells whether a part is here; for a TestMain, which can't skip.
func Has(part, key string) bool {
	value, _ := lookup(part, key)
	return value != ""
}

// Trees are systems that scripts/testenv makes only when it is asked for them: the part "debian" or "arm64".
func Trees(t testing.TB, part string) (all []Python) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(Checkout(), "scripts", "testenv"), "--only", part)
	out, err := cmd.Output()
	if err != nil {
		Missing(t, part, "scripts/testenv --only "+part+" tells why")
	}
	for _, entry := range filepath.SplitList(strings.TrimSpace(string(out))) {
		tree, name, _ := strings.Cut(entry, "|")
		all = append(all, Python{Path: name, Root: tree})
	}
	return all
}

// Checkout is the root of the repository. A test begins in its package's directory; the source's own path would not do,
// since scripts/runtests builds with -trimpath, as make build does, so that all it compiles is compiled once.
func Checkout() string { return checkout }

var checkout = above("go.mod")

// above is the nearest directory, from the working directory up, that has the file.
func above(file string) string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

func need(t testing.TB, part, key string) string {
	t.Helper()
	value, reason := lookup(part, key)
	if value == "" {
		Missing(t, part, reason)
	}
	return value
}

// Main is the TestMain of tests that start memgauge: their binary is memgauge where it is started under that name, by
// the program's own entry. What a developer has set must not reach the tests.
func Main(m *testing.M, program func(args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	if filepath.Base(os.Args[0]) == "memgauge" {
		os.Exit(program(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	for _, name := range []string{"MEMGAUGE_TARGET", "MEMGAUGE_RUNTIME", "PYTHONPATH"} {
		os.Unsetenv(name)
	}
	code := m.Run()
	if left := leftBehind(); len(left) > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "FAIL: processes outlive the tests that started them: %s\n", strings.Join(left, "; "))
		code = 1
	}
	os.Exit(code)
}

// leftBehind are the command lines of processes that run this test's binary, after they have had time to end. They are
// killed.
func leftBehind() (left []string) {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		late := time.Now().After(end)
		links, _ := filepath.Glob("/proc/[0-9]*/exe")
		for _, link := range links {
			dir := filepath.Dir(link)
			pid, _ := strconv.Atoi(filepath.Base(dir))
			if exe, err := os.Readlink(link); err != nil || exe != self || pid == os.Getpid() {
				continue
			}
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			left = append(left, strings.ReplaceAll(strings.TrimSpace(string(line)), "\x00", " "))
			if late {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if late || len(left) == 0 {
			return left
		}
	}
}

// Memgauge makes the name memgauge in a directory, for a binary whose TestMain is Main, and returns its path.
func Memgauge(t testing.TB, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "memgauge")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Program is the path of a program on PATH, a part by its own name.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, err)
	}
	return path
}

// Root is needed to mount, to become another user, and for cgroups.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root", "this test needs root's rights")
	}
}

// Missing ends a test that lacks a part of its surroundings: a skip, or a failure where MEMGAUGE_REQUIRE names the
// part.
func Missing(t testing.TB, part string, reason any) {
	t.Helper()
	if required(part) {
		t.Fatalf("MEMGAUGE_REQUIRE wants %s: %v", part, reason)
	}
	t.Skipf("no %s: %v", part, reason)
}

func required(part string) bool {
	list := strings.Split(os.Getenv("MEMGAUGE_REQUIRE"), ",")
	return slices.Contains(list, part) || slices.Contains(list, "all")
}

// lookup takes the environment's word before the list's.
func lookup(part, key string) (value, reason string) {
	if v := os.Getenv(key); v != "" {
		return v, ""
	}
	values, err := list()
	if err != nil {
		return "", err.Error()
	}
	if v := values[key]; v != "" {
		return v, ""
	}
	if reason := values["MEMGAUGE_MISSING_"+strings.ToUpper(part)]; reason != "" {
		return "", reason
	}
	return "", "scripts/testenv has not looked for it"
}

var errNoList = errors.New("run scripts/testenv first")

// list reads the file that scripts/testenv wrote.
var list = sync.OnceValues(func() (map[string]string, error) {
	cache := os.Getenv("MEMGAUGE_TEST_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		cache = filepath.Join(home, ".cache", "memgauge-test")
	}
	f, err := os.Open(filepath.Join(cache, "env"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoList
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values := map[string]string{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if key, value, ok := strings.Cut(scan.Text(), "="); ok {
			values[key] = value
		}
	}
	return values, scan.Err()
})
