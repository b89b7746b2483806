package wheel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestDebian installs the wheel as people do, with the Python and the pip of fresh Debian 11, 12 and 13.
func TestDebian(t *testing.T) {
	env.Long(t, "fresh systems are made")
	wheel(t)
	for _, p := range env.Trees(t, "debian") {
		t.Run(filepath.Base(p.Root), func(t *testing.T) {
			at := venv(t, p)
			link(t, wheel(t), at.dir)
			at.must(t, "sh", "-c", `rm -r "$0/venv" && python3 -m venv "$0/venv" &&
				"$0/venv/bin/pip" install --no-index "$0"/memgauge-*.whl`, at.dir)
			use(t, at)
		})
	}
}

// TestReadme runs the README's first example with PyTorch and the wheel, which lies in a folder of its own.
func TestReadme(t *testing.T) {
	env.Long(t, "fresh systems are made")
	torch := env.Torch(t)
	dir := t.TempDir()
	script := `set -e
python() { "$TORCH" "$@"; }
python -m pip install -q --no-index --target "$1/site" "$0"
export PATH="$1/site/bin:$PATH" PYTHONPATH="$1/site" MEMGAUGE_HOME="$1/home"
memgauge run --name outputs -- "$TORCH" examples/outputs.py 20 2>&1
memgauge outputs leak || [ $? = 3 ]
python -c 'from memgauge import feed; print(feed.binary())'`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script, wheel(t), dir)
	cmd.Dir, cmd.Env = env.Checkout(), append(os.Environ(), "TORCH="+torch.Path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"memgauge: LEAK host heap +", "held by Trainer.fit().self.step_outputs",
		"created   examples/outputs.py:28", dir + "/site/bin/memgauge\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("printed no %q:\n%s", want, out)
		}
	}
}

// TestAarch64 builds the other wheel and uses it in a Debian for that processor, which qemu emulates.
func TestAarch64(t *testing.T) {
	env.Long(t, "fresh systems are made")
	env.Sysroot(t)
	dir := t.TempDir()
	path, err := build(env.Checkout(), dir, "aarch64")
	if err != nil {
		t.Fatal(err)
	}
	auditwheel(t, path, "aarch64")
	if info, err := os.Stat(path); err != nil || info.Size() > most {
		t.Errorf("%v, %v: more than %d bytes", info.Size(), err, most)
	}
	tree := env.Trees(t, "arm64")[0]
	link(t, bundledPip(t, tree), dir)
	at := &place{python: tree, dir: dir, env: append(os.Environ(), "MEMGAUGE_HOME="+dir+"/home", "HOME="+dir,
		"PATH="+dir+"/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE=1")}
	at.emulated = true
	at.must(t, "sh", "-c", `python3 -m venv --without-pip "$0/venv" && PYTHONPATH=$(echo "$0"/pip-*.whl) \
		"$0/venv/bin/python" -m pip install -q --no-index --no-cache-dir "$0"/memgauge-*.whl`, dir)
	use(t, at)
	for command, want := range map[string]string{
		"memgauge first tables":  "python.steps",
		"memgauge first leak":    "undecided",
		"memgauge report --json": `"schema_version"`,
		// the emulator has no ptrace and no page of a kernel; attaching is tried in test/aarch64
		"memgauge doctor || true": "ptrace: function not implemented",
		"python3 -c 'import os, time; os.mkdir(\"it-runs\"); time.sleep(60)' & " +
			"until [ -d it-runs ]; do sleep 0.1; done; memgauge attach $! || kill $!": "hint: start the training " +
			"with memgauge run",
	} {
		if got := at.must(t, "sh", "-c", command+" 2>&1"); !strings.Contains(got, want) {
			t.Errorf("%s prints no %q:\n%s", command, want, got)
		}
	}
}

// TestRelease: what `make release` leaves is whole, its checksums fit, and the command of the tarball runs.
func TestRelease(t *testing.T) {
	env.Long(t, "fresh systems are made")
	dir := t.TempDir()
	script := `set -e
scripts/release --out "$0"
cd "$0"
sha256sum -c --quiet SHA256SUMS
tar xzf memgauge-*-linux-x86_64.tar.gz
memgauge-*/bin/memgauge --version
ls -d *.whl *.tar.gz *.cdx.json CHANGELOG.md | wc -l
ls memgauge-*/lib/libmemgauge_alloc.so memgauge-*/include/memgauge_alloc.h`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script, dir)
	cmd.Dir = env.Checkout()
	out, err := cmd.CombinedOutput()
	if want := "memgauge version " + built.version + "\n7\n"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, no %q:\n%s", err, want, out)
	}
	same(t, wheel(t), filepath.Join(dir, filepath.Base(wheel(t))))
}
