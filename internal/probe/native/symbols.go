package native

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

const (
	maxTable   = 256 << 20 // bytes of a symbol table; libtorch_cpu's, with debug symbols, has 60 MiB
	maxSymbol  = 4096      // bytes of a name as it is in the file
	maxShown   = 160       // bytes of a name as it is shown: templates' are without end
	maxModules = 512       // whose symbols are kept: 24 bytes each
)

// symbol is a function of a module; name is its place in the file.
type symbol struct {
	addr, size uint64
	name       int64
}

// symbols finds functions by address in the files that a process has mapped.
type symbols struct {
	modules map[string][]symbol // sorted
	names   map[string]string   // by module and address, as they were asked
}

// name is the function at an address of a module, as the file counts. Where none is known it is the module with the
// offset.
func (s *symbols) name(module string, addr uint64) string {
	key := fmt.Sprintf("%s+%#x", module, addr)
	if name, ok := s.names[key]; ok {
		return name
	}
	name := s.find(module, addr)
	if name == "" {
		name = fmt.Sprintf("%s+%#x", filepath.Base(module), addr)
	}
	if s.names == nil || len(s.names) > maxStacks {
		s.names = map[string]string{}
	}
	s.names[key] = name
	return name
}

func (s *symbols) find(module string, addr uint64) string {
	list, ok := s.modules[module]
	if !ok {
		if s.modules == nil || len(s.modules) >= maxModules {
			s.modules = map[string][]symbol{}
		}
		list, _ = readSymbols(module) // one that is gone, or not to be read, has none
		s.modules[module] = list
	}
	i, found := slices.BinarySearchFunc(list, addr, func(e symbol, addr uint64) int {
		return cmp.Compare(e.addr, addr)
	})
	if !found {
		i--
	}
	if i < 0 || addr >= list[i].addr+max(list[i].size, 1) {
		return ""
	}
	return nameAt(module, list[i].name)
}

// openModule opens a file for its symbols, and nothing that could block.
func openModule(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func readSymbols(path string) (list []symbol, err error) {
	f, err := openModule(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return nil, err
	}
	if e.Class != elf.ELFCLASS64 || e.Data != elf.ELFDATA2LSB {
		return nil, nil
	}
	for _, s := range e.Sections {
		if s.Type != elf.SHT_DYNSYM && s.Type != elf.SHT_SYMTAB {
			continue
		}
		if s.Size > maxTable || int(s.Link) >= len(e.Sections) {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return nil, err
		}
		list = functions(list, data, int64(e.Sections[s.Link].Offset))
	}
	slices.SortFunc(list, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(b.size, a.size))
	})
	return slices.CompactFunc(list, func(a, b symbol) bool { return a.addr == b.addr }), nil
}

// functions adds those of a table: Elf64_Sym, 24 bytes each.
func functions(list []symbol, data []byte, names int64) []symbol {
	for ; len(data) >= elf.Sym64Size; data = data[elf.Sym64Size:] {
		kind, value := elf.ST_TYPE(data[4]), binary.LittleEndian.Uint64(data[8:])
		if (kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC) && value != 0 {
			list = append(list, symbol{value, binary.LittleEndian.Uint64(data[16:]),
				names + int64(binary.LittleEndian.Uint32(data))})
		}
	}
	return list
}

func nameAt(path string, at int64) string {
	f, err := openModule(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, maxSymbol)
	n, err := f.ReadAt(b, at)
	if err != nil && err != io.EOF {
		return ""
	}
	name, _, _ := strings.Cut(string(b[:n]), "\x00")
	return shorten(demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams))
}

func shorten(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown/2], "") + "…" + strings.ToValidUTF8(name[len(name)-maxShown/2:], "")
}
