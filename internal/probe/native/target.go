package native

import (
	"debug/elf"
	"fmt"
	"io"
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
		for _, name := range []string{"libasan.", "libtsan.", "liblsan.", "libclang_rt."} {
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
