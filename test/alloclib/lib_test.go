// Package alloclib holds libmemgauge_alloc.so to its header: from C, by PyTorch's rules for pluggable allocators, and
// across forks. Python's side of it is tested in test/agent/test_genesis.py.
package alloclib

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/test/env"
)

var built struct {
	path string
	err  error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "memgauge-lib-")
	if err != nil {
		panic(err)
	}
	built.path = filepath.Join(dir, "libmemgauge_alloc.so")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", built.path, "./cmd/memgauge_alloc")
	cmd.Dir = env.Checkout()
	if out, err := cmd.CombinedOutput(); err != nil {
		built.err = errors.New(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// library is the built library, in a folder of its own.
func library(t *testing.T) string {
	t.Helper()
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func compile(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	env.Program(t, compiler)
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-o", program, filepath.Join("testdata", source), "-I",
		filepath.Join(env.Checkout(), "cmd/memgauge_alloc")}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler, strings.Join(args, " "), err, out)
	}
	return program
}

// forkCount is what the issue asks for: 200 of 200.
const forkCount = "200"

func TestFromC(t *testing.T) {
	lib := library(t)
	program := compile(t, "cc", "use.c", "-Wall", "-Wextra", "-Werror", "-pthread", lib,
		"-Wl,-rpath,"+filepath.Dir(lib))
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), program, dir, forkCount).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "forks: 200 of 200") {
		t.Fatalf("%v\n%s", err, out)
	}
	s, format, err := snapshot.ReadFile(filepath.Join(dir, "s.pickle"))
	if err != nil || format != snapshot.TorchPickle || len(s.Events(0)) == 0 {
		t.Fatalf("snapshot: %v", err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	found := false
	for _, e := range s.Events(0) {
		found = found || (len(e.Frames) == 2 && e.Frames[0] == snapshot.Frame{File: "a.py", Line: 3, Name: "f"})
	}
	if !found {
		t.Error("the stack that C gave is not in the snapshot")
	}
}

// The exceptions are PyTorch's own.
func TestThrowsWhatPyTorchExpects(t *testing.T) {
	lib, python := library(t), env.Torch(t)
	out, err := python.Command(t, "-c", "import torch, os; print(os.path.dirname(torch.__file__))").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(root, "include/c10/util/Exception.h")); err != nil {
		env.Missing(t, "torch", err)
	}
	program := compile(t, "c++", "throw.cc", "-std=c++20", "-I", filepath.Join(root, "include"), "-L",
		filepath.Join(root, "lib"),
		"-lc10", "-ldl", "-Wl,-rpath,"+filepath.Join(root, "lib"))
	cmd := exec.CommandContext(t.Context(), program, lib)
	cmd.Env = append(os.Environ(), "MEMGAUGE_ALLOC_DRIVER=fake")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "fine\n" {
		t.Fatalf("%v\n%s", err, out)
	}
}

// PyTorch itself takes the functions: without a GPU that is as far as it goes.
func TestPyTorchTakesIt(t *testing.T) {
	lib, python := library(t), env.Torch(t)
	script := `
import ctypes, sys, torch
lib = ctypes.CDLL(sys.argv[1])
for name in ("memgauge_torch_alloc", "memgauge_torch_free"):
    assert ctypes.cast(getattr(lib, name), ctypes.c_void_p).value
if hasattr(torch._C, "_cuda_customAllocator"):
    torch.cuda.memory.CUDAPluggableAllocator(sys.argv[1], "memgauge_torch_alloc", "memgauge_torch_free")
print("fine")
`
	if out, err := python.Command(t, "-c", script, lib).CombinedOutput(); err != nil ||
		!strings.HasSuffix(string(out), "fine\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}
