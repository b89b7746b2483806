package native

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// program64 is an ELF file that asks for a dynamic linker, or for none.
func program64(t *testing.T, machine elf.Machine, linker string) string {
	t.Helper()
	head := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64,
		Phentsize: 56}
	copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	text := linker + "\x00"
	prog := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 120, Filesz: uint64(len(text))}
	if linker != "" {
		head.Phnum = 1
	}
	var b bytes.Buffer
	for _, part := range []any{head, prog, []byte(text)} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, b.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefuse: a Python that is linked with musl, or for another machine, is refused in words, before it starts. What
// has no dynamic linker (uv, a shell script) is not: it starts Pythons that have one.
func TestRefuse(t *testing.T) {
	here, other := machine[runtime.GOARCH], elf.EM_RISCV
	for _, c := range []struct {
		machine      elf.Machine
		linker, want string
	}{
		{here, "/lib/ld-musl-x86_64.so.1", "is linked with musl (/lib/ld-musl-x86_64.so.1)"},
		{other, "/lib/ld-linux-riscv64.so.1", "is for"},
		{here, "/lib64/ld-linux-x86-64.so.2", ""},
		{other, "", ""},
	} {
		err := Refuse(program64(t, c.machine, c.linker), "/usr/lib/libjemalloc.so.2")
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", c.linker, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || remedy.Of(err) == "") {
			t.Errorf("%s: %v, and to do: %q", c.linker, err, remedy.Of(err))
		}
	}
	script := filepath.Join(t.TempDir(), "train.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\npython train.py\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{script, filepath.Join(t.TempDir(), "nothing")} {
		if err := Refuse(path, ""); err != nil {
			t.Error(err)
		}
	}
	err := Refuse(script, "/lib/a.so /usr/lib/libasan.so.8")
	if err == nil || !strings.Contains(err.Error(), "libasan.so.8") {
		t.Errorf("a sanitizer: %v", err)
	}
}

// waiting says that a program sleeps in its main function: it is loaded then.
func waiting(pid int) bool {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
	call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	return bytes.HasPrefix(call, []byte("34 ")) || bytes.Contains(name, []byte("pause"))
}

// TestRefuseRunning: what can't be sampled while it runs is refused before anything is done to it, with what helps.
func TestRefuseRunning(t *testing.T) {
	env.Program(t, "cc")
	dir := t.TempDir()
	source := filepath.Join(dir, "waits.c")
	err := os.WriteFile(source, []byte("#include <unistd.h>\nint main(void) { return pause(); }\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(name string, flags ...string) string {
		out := filepath.Join(dir, name)
		if text, err := exec.Command("cc", append(flags, "-o", out, source)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return out
	}
	sanitizer := compile("libasan.so.9", "-shared", "-fPIC")
	for _, c := range []struct{ program, preload, want string }{
		{compile("plain"), "", ""},
		{compile("fixed", "-no-pie"), "", ""},
		{compile("static", "-static"), "", "linked statically"},
		{compile("staticpie", "-static-pie"), "", "linked statically"},
		{compile("sanitized"), sanitizer, "a sanitizer (libasan.)"},
	} {
		cmd := exec.Command(c.program)
		cmd.Env = []string{"LD_PRELOAD=" + c.preload}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); !waiting(cmd.Process.Pid) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		err := RefuseRunning(cmd.Process.Pid)
		fine := err == nil
		if fine != (c.want == "") || !fine && (!strings.Contains(err.Error(), c.want) || remedy.Of(err) == "") {
			t.Errorf("%s: %v; hint %q", c.program, err, remedy.Of(err))
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}
}
