package native

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxConstants = 64 << 20 // bytes of a module's constants that are read: libtorch_cpu's are 40 MiB
	mostUnseen   = 16       // modules that are named
)

// marks are texts that only these allocators have, in all their versions: the beginning of their messages, and the name
// of a property that MallocExtension knows.
var marks = []struct{ allocator, text string }{
	{"jemalloc", "<jemalloc>: "},
	{"mimalloc", "mimalloc: "},
	{"tcmalloc", "tcmalloc.max_total_thread_cache_bytes"},
}

// Unseen names the modules of a process that have an allocator linked in: what they allocate by it, they call directly,
// so no sample sees it. A library that gives all others its malloc is none of them. What is loaded later is not known.
func Unseen(pid int) string {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return ""
	}
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // one of another user is not told
	uses := bytes.Contains(environ, []byte("PYTHONMALLOC=mimalloc"))
	seen, found := map[string]bool{}, []string{}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) != 6 || !strings.Contains(fields[1], "x") || !strings.HasPrefix(fields[5], "/") ||
			seen[fields[5]] || len(found) == mostUnseen {
			continue
		}
		seen[fields[5]] = true
		if names := linkedIn(fmt.Sprintf("/proc/%d/root%s", pid, fields[5]), uses); len(names) > 0 {
			found = append(found, strings.Join(names, " and ")+" in "+filepath.Base(fields[5]))
		}
	}
	return strings.Join(found, ", ")
}

// linkedIn names the allocators in a module. CPython has had mimalloc since 3.13, and uses it where it is told to.
func linkedIn(path string, pythonUses bool) (names []string) {
	f, err := openModule(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return nil
	}
	constants := e.Section(".rodata")
	if constants == nil || constants.Type != elf.SHT_PROGBITS {
		return nil
	}
	names = marked(io.LimitReader(constants.Open(), maxConstants))
	if len(names) == 0 {
		return nil
	}
	exported, _ := e.DynamicSymbols() // without any it exports none
	has := func(name string) bool {
		return slices.ContainsFunc(exported, func(s elf.Symbol) bool {
			return s.Name == name && s.Section != elf.SHN_UNDEF
		})
	}
	if e.Type == elf.ET_DYN && has("malloc") || has("PyMem_RawMalloc") && !pythonUses {
		return nil
	}
	return names
}

// marked finds the marks in a text that may be long.
func marked(r io.Reader) (names []string) {
	const overlap = 64 // no mark is longer
	b, kept := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(r, b[kept:])
		text := b[:kept+n]
		for _, m := range marks {
			if !slices.Contains(names, m.allocator) && bytes.Contains(text, []byte(m.text)) {
				names = append(names, m.allocator)
			}
		}
		if err != nil {
			return names
		}
		kept = copy(b, text[len(text)-overlap:])
	}
}
