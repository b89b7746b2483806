package native

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Refuse says why a command can't be started with the library: one that is linked with another C library than glibc
// would not start at all, and one for another machine would print the linker's complaint. What is linked statically
// starts without it, and so do scripts; the Pythons that they start have it. A sanitizer that is preloaded ends a
// program where it does not stand first, and has malloc for itself where it does.
func Refuse(command, preloaded string) error {
	for _, entry := range entries(preloaded) {
		for _, name := range sanitizers {
			if strings.HasPrefix(filepath.Base(entry), name) {
				return remedy.Add(
					fmt.Errorf("native memory: LD_PRELOAD has %s, a sanitizer with a malloc of its own", entry),
					"take it out of LD_PRELOAD, or run without --native")
			}
		}
	}
	f, err := elf.Open(command)
	if err != nil {
		return nil // a script, or what exec will complain of
	}
	defer f.Close()
	linker := linkerOf(f)
	if linker == "" {
		return nil
	}
	if strings.HasPrefix(filepath.Base(linker), "ld-musl") {
		return remedy.Add(fmt.Errorf("native memory: %s is linked with musl (%s); the library that samples needs glibc",
			command, linker), "use a Python that is linked with glibc, or run without --native")
	}
	if want := machine[runtime.GOARCH]; f.Machine != want {
		return remedy.Add(fmt.Errorf("native memory: %s is for %s, and the library that samples for %s", command,
			machineName(f.Machine), machineName(want)), "run without --native")
	}
	return nil
}

// RefuseRunning says why a process that runs can't be sampled. What is linked statically has no linker that could load
// the library, and calls no function by an address that could be another's.
func RefuseRunning(pid int) error {
	f, err := elf.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return nil // the attach says why it can't be entered
	}
	defer f.Close()
	linker := linkerOf(f)
	switch {
	case linker == "":
		return remedy.Add(errors.New("its program is linked statically, so no library can be loaded into it"),
			"use a Python that is linked with glibc dynamically, or attach without --native")
	case strings.HasPrefix(filepath.Base(linker), "ld-musl"):
		return remedy.Add(fmt.Errorf("it is linked with musl (%s); the library that samples needs glibc", linker),
			"use a Python that is linked with glibc, or attach without --native")
	case f.Machine != machine[runtime.GOARCH]:
		return remedy.Add(fmt.Errorf("it is built for %s, and the library that samples for %s", machineName(f.Machine),
			machineName(machine[runtime.GOARCH])), "attach without --native")
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	for _, name := range sanitizers {
		if bytes.Contains(maps, []byte("/"+name)) {
			return remedy.Add(fmt.Errorf("it runs with a sanitizer (%s), which has a malloc of its own", name),
				"attach without --native")
		}
	}
	return nil
}

// sanitizers begin the names of their libraries.
var sanitizers = []string{"libasan.", "libtsan.", "liblsan.", "libclang_rt."}

var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func machineName(m elf.Machine) string { return strings.ToLower(strings.TrimPrefix(m.String(), "EM_")) }

// linkerOf is the dynamic linker that a program asks for; "" for none.
func linkerOf(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			if b, err := io.ReadAll(p.Open()); err == nil {
				return strings.TrimRight(string(b), "\x00")
			}
		}
	}
	return ""
}
