package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// torchSnapshots has the newest PyTorch write snapshots by its own allocators and picklers, on a CUDA runtime without a
// GPU: test/fakecuda.
func torchSnapshots(t *testing.T, w *world) []string {
	t.Helper()
	env.Program(t, "cc")
	python, dir := env.Torch(t).Path, t.TempDir()
	r := w.do(python, "-c", "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))")
	lib := strings.TrimSpace(r.stdout)
	if _, err := os.Stat(filepath.Join(lib, "libtorch_cuda.so")); err != nil {
		t.Skipf("this PyTorch is built without CUDA: %v", err)
	}
	source := filepath.Join(env.Checkout(), "test", "fakecuda")
	if r := w.do("sh", filepath.Join(source, "build.sh"), lib, dir); r.code != 0 {
		t.Fatal(r.stderr)
	}
	out := t.TempDir()
	for _, conf := range []string{"", "expandable_segments:True"} {
		r = w.do("env", "LD_LIBRARY_PATH="+dir, "LD_PRELOAD="+filepath.Join(dir, "libfakecudart.so"),
			"PYTORCH_CUDA_ALLOC_CONF="+conf, python, filepath.Join(source, "snapshots.py"), out)
		if r.code != 0 {
			t.Fatalf("%q: exit %d\n%s%s", conf, r.code, r.stdout, r.stderr)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(out, "*.pickle"))
	if len(paths) < 12 { // each: protocols 2 to 5, C++'s pickler and an overrun buffer
		t.Fatalf("made %v", paths)
	}
	return paths
}

// What memgauge reads is what pickle.load and a naive replay read, of PyTorch's own files and of mosaic's.
func TestSnapshotsEqualNaiveReplay(t *testing.T) {
	env.Long(t, "a replay in Python of every event; internal/formats/snapshot compares the rows of files")
	t.Parallel()
	w := newWorld(t)
	paths := append(torchSnapshots(t, w), filepath.Join(env.Checkout(), "testdata", "snapshots", "mosaic.pickle"))
	args := append([]string{filepath.Join(env.Checkout(), "test", "bench", "snapshot_equal.py"), "--memgauge",
		"memgauge"}, paths...)
	pythons := env.CPythons(t)
	if r := w.do(pythons[len(pythons)-1].Path, args...); r.code != 0 ||
		strings.Count(r.stdout, "equal ") != len(paths) {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// Each command works on each kind of file.
func TestSnapshotCommandsOnEveryKind(t *testing.T) {
	env.Long(t, "snapshots of all that PyTorch can allocate; golden files have the commands' output")
	t.Parallel()
	w := newWorld(t)
	out := t.TempDir()
	for _, path := range append(torchSnapshots(t, w), filepath.Join(env.Checkout(), "testdata", "snapshots",
		"mosaic.pickle")) {
		for _, args := range [][]string{
			{path}, {"--json", path}, {"query", path, "SELECT count(*) FROM blocks"}, {"tables", path},
			{"diff", path, path},
			{"flame", "--device", "0", path, "-o", filepath.Join(out, "x.svg")},
			{"flame", "--device", "0", path, "--by", "segment", "-o", filepath.Join(out, "x.html")},
			{"stages", path, "--each"}, {"categories", path, "--by", "metadata", "--category", "kept=weights"},
			{"categories", path, "--by", "metadata", "-o", filepath.Join(out, "x.png")},
			{"timeline", path, "-o", filepath.Join(out, "timeline.html")},
			{"export", path, "--parquet", filepath.Join(out, "tables"), "--perfetto", filepath.Join(out, "x.json.gz"),
				"--protocol4", filepath.Join(out, "x.pickle")},
			{filepath.Join(out, "x.pickle")},
		} {
			if r := w.do("memgauge", append([]string{"snapshot"}, args...)...); r.code != 0 && r.code != 3 {
				t.Errorf("%s: %v: exit %d\n%s", filepath.Base(path), args, r.code, r.stderr)
			}
		}
	}
}
