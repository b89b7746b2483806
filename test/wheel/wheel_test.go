// Package wheel holds what `make wheel` and `make release` build to what docs/install.md and docs/release.md promise:
// it builds a wheel, examines it, installs it with pip and uses it as people do.
// All but TestReleased is in the long lane.
package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// Sizes in bytes, which people wait for at each installation.
const (
	most       = 34 << 20   // of a wheel
	mostBinary = 90_000_000 // of the program unpacked: a library that makes it larger has to be worth it
)

// built is the wheel that all tests share.
var built struct {
	path    string
	version string
	err     error
}

func TestMain(m *testing.M) {
	for _, name := range []string{"MEMGAUGE_TARGET", "MEMGAUGE_RUNTIME", "PYTHONPATH", "MEMGAUGE_BINARY"} {
		os.Unsetenv(name)
	}
	dir, err := os.MkdirTemp("", "memgauge-wheel-")
	if err != nil {
		panic(err)
	}
	if env.InLong() && env.Has("sysroot", "MEMGAUGE_SYSROOT_CC") {
		built.path, built.err = build(env.Checkout(), dir, "x86_64")
	}
	if out, err := exec.Command(filepath.Join(env.Checkout(), "scripts", "version")).Output(); err == nil {
		built.version = strings.TrimSpace(string(out))
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}

// build builds a checkout's wheel into a directory.
func build(checkout, dir, arch string) (string, error) {
	cmd := exec.Command(filepath.Join(checkout, "scripts", "release"), "--out", dir, "--wheel", arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "memgauge-*_"+arch+".whl"))
	if len(found) != 1 {
		return "", fmt.Errorf("%s holds %d wheels for %s, want one", dir, len(found), arch)
	}
	return found[0], nil
}

// wheel is the path of the one that was built. All tests that ask for it are in the long lane.
func wheel(t *testing.T) string {
	t.Helper()
	env.Long(t, "a wheel, built with the oldest C library's compiler")
	env.Sysroot(t)
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func read(t *testing.T, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// contents are a wheel's files by name, those of dist-info and data without the version.
func contents(t *testing.T, path string) map[string]*zip.File {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = z.Close() })
	files := map[string]*zip.File{}
	for _, f := range z.File {
		files[strings.Replace(f.Name, "memgauge-"+built.version+".", "", 1)] = f
	}
	return files
}

// TestContents: the wheel has the whole package, the binaries as programs, the licences, and a RECORD that fits.
func TestContents(t *testing.T) {
	path := wheel(t)
	if info, err := os.Stat(path); err != nil || info.Size() > most {
		t.Errorf("%v, %v: more than %d bytes", info.Size(), err, most)
	}
	if want := "memgauge-" + built.version + "-py3-none-manylinux_2_31_x86_64.whl"; filepath.Base(path) != want {
		t.Errorf("the wheel is %s, want %s", filepath.Base(path), want)
	}
	files := contents(t, path)
	for _, name := range []string{"data/scripts/memgauge", "data/scripts/libmemgauge_alloc.so"} {
		if f := files[name]; f == nil || f.Mode() != 0o755 {
			t.Errorf("%s: %v", name, f)
		}
	}
	if f := files["data/scripts/memgauge"]; f != nil && f.UncompressedSize64 > mostBinary {
		t.Errorf("the program has %d bytes, at most %d", f.UncompressedSize64, mostBinary)
	}
	for from, name := range map[string]string{"LICENSE": "dist-info/LICENSE",
		"THIRD_PARTY_LICENSES": "dist-info/THIRD_PARTY_LICENSES"} {
		want, err := os.ReadFile(filepath.Join(env.Checkout(), from))
		if f := files[name]; err != nil || f == nil || !bytes.Equal(read(t, f), want) {
			t.Errorf("%s is not %s (%v)", name, from, err)
		}
	}
	checkPackage(t, files)
	checkRecord(t, files)
	checkNVML(t, read(t, files["data/scripts/memgauge"]))
	if text := string(read(t, files["dist-info/METADATA"])); !strings.Contains(text, "\nVersion: "+built.version+"\n") {
		t.Error(text)
	}
	bom := string(read(t, files["dist-info/sboms/memgauge.cdx.json"]))
	for _, part := range []string{"pkg:golang/stdlib@1.", "pkg:github/duckdb/duckdb@v1.", "pkg:generic/gcc@10.",
		"pkg:golang/github.com/spf13/cobra@v", "pkg:pypi/memgauge@" + built.version} {
		if !strings.Contains(bom, part) {
			t.Errorf("the SBOM has no %s", part)
		}
	}
}

// checkNVML: the driver's functions are looked up once its library is loaded. A binary that imported them would not
// start under LD_BIND_NOW=1 where there is no driver.
func checkNVML(t *testing.T, program []byte) {
	t.Helper()
	binary, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := binary.ImportedSymbols()
	if err != nil || slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool {
		return strings.HasPrefix(s.Name, "nvml")
	}) {
		t.Errorf("a function of NVML is among %d imported symbols (%v)", len(symbols), err)
	}
}

// checkPackage compares the wheel's modules with the checkout's.
func checkPackage(t *testing.T, files map[string]*zip.File) {
	t.Helper()
	root := filepath.Join(env.Checkout(), "python")
	modules := 0
	err := filepath.WalkDir(filepath.Join(root, "memgauge"), func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".py" {
			modules++
			inside, _ := filepath.Rel(root, name)
			if files[filepath.ToSlash(inside)] == nil {
				t.Errorf("%s is not in the wheel", inside)
			}
		}
		return err
	})
	if err != nil || modules < 10 {
		t.Errorf("%d modules, %v", modules, err)
	}
	for name := range files {
		if strings.HasPrefix(name, "memgauge/") {
			modules--
		}
	}
	if modules != 0 {
		t.Errorf("%d more files in the wheel's package than modules in the checkout", -modules)
	}
	plugin, points := files["memgauge/integrations/pytest.py"], files["dist-info/entry_points.txt"]
	if (plugin == nil) != (points == nil) {
		t.Errorf("the plugin for pytest is %v, its entry point %v", plugin, points)
	}
	if points != nil && !strings.Contains(string(read(t, points)), "[pytest11]\nmemgauge.integrations.pytest = ") {
		t.Error(string(read(t, points)))
	}
}

// checkRecord compares every file with what RECORD says of it.
func checkRecord(t *testing.T, files map[string]*zip.File) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(read(t, files["dist-info/RECORD"]))).ReadAll()
	if err != nil || len(rows) != len(files) {
		t.Fatalf("RECORD has %d rows for %d files, %v", len(rows), len(files), err)
	}
	for _, row := range rows {
		name := strings.Replace(row[0], "memgauge-"+built.version+".", "", 1)
		f := files[name]
		if f == nil || name == "dist-info/RECORD" {
			continue
		}
		data := read(t, f)
		sum := sha256.Sum256(data)
		if want := "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]); row[1] != want ||
			row[2] != fmt.Sprint(len(data)) {
			t.Errorf("RECORD says %v, it is %s and %d bytes", row, want, len(data))
		}
	}
}

// TestAuditwheel: the binaries need nothing that Debian 11, and what is newer, lacks.
func TestAuditwheel(t *testing.T) { auditwheel(t, wheel(t), "x86_64") }

func auditwheel(t *testing.T, path, arch string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), env.Auditwheel(t), "show", path).CombinedOutput()
	text := strings.Join(strings.Fields(string(out)), " ")
	if want := `consistent with the following platform tag: "manylinux_2_31_` + arch + `"`; err != nil ||
		!strings.Contains(text, want) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSameBytes: packing again makes the same wheel, whatever time it is and whatever the umask; thoroughly, building
// in another place does.
func TestSameBytes(t *testing.T) {
	first, dir := wheel(t), t.TempDir()
	checkout := env.Checkout()
	if env.InLong() {
		checkout = copyCheckout(t)
		second, err := build(checkout, dir, "x86_64")
		if err != nil {
			t.Fatal(err)
		}
		same(t, first, second)
		return
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 077; SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
		exec go run ./scripts/pack -version "$0" -bin bin/x86_64 -out "$1" -runtime $("$2" -dumpfullversion) wheel`,
		built.version, dir, env.Sysroot(t))
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	same(t, first, filepath.Join(dir, filepath.Base(first)))
}

func same(t *testing.T, first, second string) {
	t.Helper()
	a, err := os.ReadFile(first)
	b, err2 := os.ReadFile(second)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a, b) {
		return
	}
	t.Errorf("%s and %s differ", first, second)
	one, two := contents(t, first), contents(t, second)
	for name, f := range one {
		if g := two[name]; g == nil || f.CRC32 != g.CRC32 {
			t.Errorf("%s differs", name)
		}
	}
}

// copyCheckout clones the repository to another place, with the changes that are not committed.
func copyCheckout(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	script := `git clone -q --no-hardlinks . "$0" && git diff --binary HEAD >"$0.diff" &&
		{ [ ! -s "$0.diff" ] || git -C "$0" apply "$0.diff"; }`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, to)
	cmd.Dir = env.Checkout()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// pythons are those that a test installs into: the oldest and the newest at hand, or all.
func pythons(t *testing.T) []env.Python {
	t.Helper()
	all := env.CPythons(t)
	if env.InLong() {
		return append(all, env.ChrootCPythons(t)[0]) // 3.14; no pip that is at hand runs on 3.15
	}
	return slices.Compact([]env.Python{all[0], all[len(all)-1]})
}
