// Package aarch64 tests memgauge on a Debian for aarch64 with a kernel of its own, in a machine that scripts/vm
// emulates: tests of other packages are built for that processor, and run there as they are, with the Pythons of Debian
// 11, 12, 13 and sid.
package aarch64

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// Pythons of the machine, as tests there are told of them (scripts/testenv finds those of this one).
const pythons = "MEMGAUGE_PYTHONS=/usr/bin/python3 MEMGAUGE_CHROOT_PYTHONS='/trees/bullseye|python3:" +
	"/trees/trixie|python3:/trees/sid|python3.14:/trees/sid|python3.15'"

// parts are what the machine must have: what needs one of them is not skipped there.
const parts = "MEMGAUGE_REQUIRE=pythons,chroot,cc,root,unshare,venv,kthreadd"

// lifetime of a machine, in seconds: an emulated processor does in an hour what a real one does in minutes.
const lifetime = 3 * 60 * 60

// TestVet builds and examines the code that this machine's processor does not take.
func TestVet(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./internal/probe/attach/...")
	cmd.Dir, cmd.Env = env.Checkout(), append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAttach is what internal/probe/attach holds attaching to: the matrix of interpreters and of what their threads do,
// programs that check themselves, signals, refusals, and memgauge killed at any instant.
func TestAttach(t *testing.T) {
	env.Long(t, "an emulated machine takes half an hour")
	m := machine(t)
	m.lay(t, "internal/probe/attach/testdata")
	m.build(t, "internal/probe/attach")
	m.run(t, "internal/probe/attach", "4k", ".")
}

// TestAttachPages16k attaches under a kernel with larger pages.
func TestAttachPages16k(t *testing.T) {
	env.Long(t, "an emulated machine takes ten minutes")
	m := machine(t)
	m.lay(t, "internal/probe/attach/testdata")
	m.build(t, "internal/probe/attach")
	m.run(t, "internal/probe/attach", "16k", "^(TestInject|TestDeathWhileHeld|TestDeepStack)$")
}

// TestCommands uses the commands, as test/e2e does: attach with children, query, backtrace, refusals. What starts a
// collector again is left out: a start may last 5 s, which does not suffice on an emulated processor.
func TestCommands(t *testing.T) {
	env.Long(t, "an emulated machine takes half an hour")
	m := machine(t)
	m.lay(t, "test/e2e/testdata")
	m.build(t, "test/e2e")
	m.run(t, "test/e2e", "4k", "^(TestAttachChildren|TestAttachRefusals|TestBacktrace)$")
}

// share is a directory that the machine sees: a checkout with what some tests need of one.
type share struct{ dir string }

func machine(t *testing.T) *share {
	t.Helper()
	if out, err := vm(t, "make").CombinedOutput(); err != nil {
		env.Missing(t, "vm", fmt.Sprintf("scripts/vm make: %v\n%s", err, out))
	}
	m := &share{t.TempDir()}
	m.lay(t, "go.mod")
	m.lay(t, "scripts/inchroot")
	return m
}

func vm(t *testing.T, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), filepath.Join(env.Checkout(), "scripts", "vm"), args...)
}

// lay copies a file or a directory of this checkout.
func (m *share) lay(t *testing.T, name string) {
	t.Helper()
	to := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-r", filepath.Join(env.Checkout(), name), to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// build makes a package's tests for the machine.
func (m *share) build(t *testing.T, pkg string) {
	t.Helper()
	script := `set -e
cc=$(scripts/sysroot aarch64)
ln -s "$("$cc" -print-file-name=libstdc++.a)" "$0/libstdc++.a"
GOARCH=arm64 CGO_ENABLED=1 CC=$cc go test -c -trimpath -o "$1" \
	-ldflags "-s -w -extldflags '-L$0 -static-libgcc'" "./$2"`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script, t.TempDir(), filepath.Join(m.dir, pkg, "tests"), pkg)
	cmd.Dir = env.Checkout()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of %s: %v\n%s", pkg, err, out)
	}
}

// line is what a test's end looks like.
var line = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): .*$`)

// run runs a package's tests in the machine. The lane and its scale are this test's.
func (m *share) run(t *testing.T, pkg, kernel, which string) {
	t.Helper()
	script := fmt.Sprintf(`cp %[1]s/tests /tmp/tests && cd %[1]s &&
%[2]s=%[3]s %[4]s %[5]s exec /tmp/tests -test.v -test.parallel 1 -test.timeout %[6]ds -test.run '%[7]s'`,
		pkg, env.Lane, os.Getenv(env.Lane), pythons, parts, lifetime, which)
	cmd := vm(t, "run", "--share", m.dir, "--kernel", kernel, "--timeout", fmt.Sprint(lifetime), "sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	ends := line.FindAllString(out.String(), -1)
	t.Logf("%s\n%d tests", strings.Join(ends, "\n"), len(ends))
	if err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
