package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

func ownMaps(t testing.TB) Maps {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	maps, err := ReadMaps(f)
	if err != nil {
		t.Fatal(err)
	}
	return maps
}

func TestMaps(t *testing.T) {
	maps := ownMaps(t)
	var x int
	at := uint64(0)
	fmt.Sscanf(fmt.Sprintf("%p", &x), "0x%x", &at)
	if m, ok := maps.At(at); !ok || m.Perm != "rw-p" {
		t.Errorf("a variable lies in %+v", m)
	}
	if _, ok := maps.At(1); ok {
		t.Error("something is at address 1")
	}
	hole := maps.Hole(1 << 20)
	for _, m := range maps {
		if hole < m.Hi && hole+1<<20 > m.Lo {
			t.Errorf("the hole %#x is in %+v", hole, m)
		}
	}
	m,
		err := parseMapping(
		[]byte("7f61af2de000-7f61af30f000 r-xp 0005c000 fe:00 91658                      /a b/c (deleted)"))
	if want := (Mapping{0x7f61af2de000, 0x7f61af30f000, 0x5c000, "r-xp", 91658, "/a b/c (deleted)"}); err != nil ||
		m != want || !m.Executable() {
		t.Errorf("%+v %v", m, err)
	}
}

// TestSymbols holds what is read from a live process's memory against debug/elf's reading of the same files.
func TestSymbols(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "python3", "-c", "print('x', flush=True); input()")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		env.Missing(t, "python3", err)
	}
	defer cmd.Wait()
	defer in.Close()
	out.Read(make([]byte, 2))
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	maps, err := ReadMaps(f)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, m := range maps {
		if m.Offset == 0 && m.Inode != 0 && (strings.Contains(m.Path, "libc.so") ||
			strings.Contains(m.Path, "python3")) {
			compared += compare(t, mem, m)
		}
	}
	if compared < 1000 {
		t.Errorf("only %d symbols were compared", compared)
	}
}

func compare(t *testing.T, mem *os.File, m Mapping) (n int) {
	file, err := elf.Open(m.Path)
	if err != nil {
		return 0 // a locale archive or the like
	}
	defer file.Close()
	im, err := Load(mem, m.Lo)
	if err != nil {
		t.Errorf("%s: %v", m.Path, err)
		return 0
	}
	want, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	bias := uint64(0)
	if im.PIE {
		bias = m.Lo
	}
	for _, s := range want {
		kind := elf.ST_TYPE(s.Info)
		if s.Section == elf.SHN_UNDEF || s.Value == 0 || len(s.Name) > 200 ||
			kind != elf.STT_FUNC && kind != elf.STT_OBJECT || s.VersionIndex.IsHidden() {
			continue
		}
		got, ok := im.Symbol(s.Name)
		if !ok || got.Addr != s.Value+bias {
			t.Fatalf("%s: %s is %#x, want %#x", m.Path, s.Name, got.Addr, s.Value+bias)
		}
		n++
	}
	return n
}

func FuzzMaps(f *testing.F) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("0-1 r-xp 0 0:0 0 x\n1-2 r-xp 0 0:0 0\n"))
	f.Add([]byte("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		maps, err := ReadMaps(bytes.NewReader(text))
		if err != nil {
			if maps != nil {
				t.Fatal("a result with an error")
			}
			return
		}
		for _, m := range maps {
			if got, ok := maps.At(m.Lo); !ok || got != m {
				t.Fatalf("At(%#x) is %+v, want %+v", m.Lo, got, m)
			}
		}
		if at := maps.Hole(1 << 20); at != 0 {
			if m, ok := maps.At(at); ok {
				t.Fatalf("the hole %#x is in %+v", at, m)
			}
		}
	})
}

// memory is a little piece of an address space.
type memory struct {
	at    uint64
	bytes []byte
}

func (m memory) ReadAt(b []byte, off int64) (int, error) {
	if uint64(off) < m.at || uint64(off)+uint64(len(b)) > m.at+uint64(len(m.bytes)) {
		return 0, fmt.Errorf("no memory at %#x", off)
	}
	return copy(b, m.bytes[uint64(off)-m.at:]), nil
}

// smallImage is an image with one function, "f", in the shape that a linker gives it.
func smallImage() []byte {
	b := make([]byte, 0x400)
	copy(b, elf.ELFMAG+"\x02\x01\x01")
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }
	binary.LittleEndian.PutUint16(b[16:], uint16(elf.ET_DYN))
	binary.LittleEndian.PutUint16(b[18:], uint16(elf.EM_X86_64))
	put(32, 64)
	binary.LittleEndian.PutUint16(b[54:], 56)
	binary.LittleEndian.PutUint16(b[56:], 2)
	binary.LittleEndian.PutUint32(b[64:], uint32(elf.PT_LOAD))
	binary.LittleEndian.PutUint32(b[120:], uint32(elf.PT_DYNAMIC))
	put(120+16, 0x100)
	put(120+40, 0x60)
	for i, tag := range [][2]uint64{{uint64(elf.DT_SYMTAB), 0x200}, {uint64(elf.DT_STRTAB), 0x280},
		{uint64(elf.DT_STRSZ), 3}, {uint64(elf.DT_HASH), 0x2c0}, {}} {
		put(0x100+16*i, tag[0])
		put(0x108+16*i, tag[1])
	}
	b[0x218], b[0x21c], b[0x21e] = 1, byte(elf.STT_FUNC), 1
	put(0x220, 0x300)
	copy(b[0x280:], "\x00f\x00")
	binary.LittleEndian.PutUint32(b[0x2c4:], 2)
	return b
}

func FuzzImage(f *testing.F) {
	f.Add(smallImage())
	self, err := os.Open("/proc/self/mem")
	if err == nil {
		defer self.Close()
		for _, m := range ownMaps(f) {
			if m.Path == "[vdso]" { // a whole image in 8 KiB, with a GNU hash table
				b := make([]byte, m.Hi-m.Lo)
				if _, err := self.ReadAt(b, int64(m.Lo)); err == nil {
					f.Add(b)
				}
			}
		}
	}
	const base = 0x7f0000000000
	if im, err := Load(memory{base, smallImage()}, base); err != nil || im.byName["f"].Addr != base+0x300 {
		f.Fatalf("%+v %v", im, err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := Load(memory{base, b}, base)
		if err == nil && len(im.byName) > len(b)/24 {
			t.Fatalf("%d symbols in %d bytes", len(im.byName), len(b))
		}
	})
}
