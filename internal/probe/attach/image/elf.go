package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// Bounds on what is read of one image. libpython has 4,000 symbols and 100 KiB of names, libtorch 300,000 and 60 MiB.
const (
	maxHeaders = 64
	maxDynamic = 1 << 16
	maxSymbols = 1 << 17
	maxNames   = 16 << 20
)

// Symbol is a function or a variable that an image exports.
type Symbol struct {
	Name string
	Addr uint64 // in the process
}

// Image is a program or a library in memory.
type Image struct {
	Lo      uint64 // where its ELF header lies
	PIE     bool   // it could have been loaded anywhere
	byName  map[string]Symbol
	dynamic map[elf.DynTag]uint64
}

var le = binary.LittleEndian

// Symbol looks a name up.
func (im *Image) Symbol(name string) (Symbol, bool) {
	s, ok := im.byName[name]
	return s, ok
}

// Class returns the ELF class and machine of the image whose header lies at lo.
func Class(mem io.ReaderAt, lo uint64) (elf.Class, elf.Machine, error) {
	var h [64]byte
	if _, err := mem.ReadAt(h[:], int64(lo)); err != nil {
		return 0, 0, fmt.Errorf("read ELF header: %w", err)
	}
	if string(h[:4]) != elf.ELFMAG {
		return 0, 0, fmt.Errorf("%w: no ELF header at %#x", ErrMalformed, lo)
	}
	return elf.Class(h[elf.EI_CLASS]), elf.Machine(le.Uint16(h[18:])), nil
}

// Load reads the dynamic symbols of the 64-bit image whose header lies at lo.
func Load(mem io.ReaderAt, lo uint64) (*Image, error) {
	if class, _, err := Class(mem, lo); err != nil {
		return nil, err
	} else if class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%w: not a 64-bit image", ErrMalformed)
	}
	h, err := read(mem, lo, 64)
	if err != nil {
		return nil, err
	}
	im := &Image{Lo: lo, PIE: elf.Type(le.Uint16(h[16:])) == elf.ET_DYN}
	phnum := int(le.Uint16(h[56:]))
	if phnum == 0 || phnum > maxHeaders || le.Uint16(h[54:]) != 56 {
		return nil, fmt.Errorf("%w: %d program headers", ErrMalformed, phnum)
	}
	ph, err := read(mem, lo+le.Uint64(h[32:]), phnum*56)
	if err != nil {
		return nil, err
	}
	bias, at, size, err := segments(ph, lo)
	if err != nil {
		return nil, err
	}
	if im.dynamic, err = readDynamic(mem, bias+at, size, lo, bias); err != nil {
		return nil, err
	}
	return im, im.readSymbols(mem, bias)
}

// segments finds how far the image was moved, and its dynamic section.
func segments(ph []byte, lo uint64) (bias, dynamic, size uint64, err error) {
	moved := false
	for ; len(ph) >= 56; ph = ph[56:] {
		offset, vaddr, memsz := le.Uint64(ph[8:]), le.Uint64(ph[16:]), le.Uint64(ph[40:])
		switch elf.ProgType(le.Uint32(ph)) {
		case elf.PT_LOAD:
			if offset == 0 && !moved {
				bias, moved = lo-vaddr, true
			}
		case elf.PT_DYNAMIC:
			dynamic, size = vaddr, memsz
		}
	}
	if !moved || size == 0 {
		return 0, 0, 0, fmt.Errorf("%w: no dynamic symbols (linked statically, or stripped of them)", ErrMalformed)
	}
	return bias, dynamic, size, nil
}

// readDynamic takes the tags. glibc turns addresses into absolute ones in place (elf/get-dynamic-info.h), musl does
// not.
func readDynamic(mem io.ReaderAt, at, size, lo, bias uint64) (map[elf.DynTag]uint64, error) {
	b, err := read(mem, at, int(min(size, maxDynamic))&^15)
	if err != nil {
		return nil, err
	}
	tags := map[elf.DynTag]uint64{}
	for ; len(b) >= 16; b = b[16:] {
		tag, v := elf.DynTag(le.Uint64(b)), le.Uint64(b[8:])
		switch tag {
		case elf.DT_NULL:
			return tags, nil
		case elf.DT_SYMTAB, elf.DT_STRTAB, elf.DT_GNU_HASH, elf.DT_HASH, elf.DT_VERSYM:
			if v < lo {
				v += bias
			}
		}
		tags[tag] = v
	}
	return tags, nil
}

func (im *Image) readSymbols(mem io.ReaderAt, bias uint64) error {
	n, err := im.countSymbols(mem)
	if err != nil {
		return err
	}
	names := im.dynamic[elf.DT_STRSZ]
	if n == 0 || n > maxSymbols || names == 0 || names > maxNames {
		return fmt.Errorf("%w: %d symbols with %d bytes of names", ErrMalformed, n, names)
	}
	table, err := read(mem, im.dynamic[elf.DT_SYMTAB], int(n)*24)
	if err != nil {
		return err
	}
	text, err := read(mem, im.dynamic[elf.DT_STRTAB], int(names))
	if err != nil {
		return err
	}
	versions := make([]byte, 2*n) // none: nothing is hidden
	if at := im.dynamic[elf.DT_VERSYM]; at != 0 {
		if versions, err = read(mem, at, int(n)*2); err != nil {
			return err
		}
	}
	im.byName = make(map[string]Symbol, n)
	for ; len(table) >= 24; table, versions = table[24:], versions[2:] {
		if !elf.VersionIndex(le.Uint16(versions)).IsHidden() { // an old version, kept for programs linked to it
			im.add(table, text, bias)
		}
	}
	return nil
}

// add takes an Elf64_Sym: name 4, info 1, other 1, section 2, value 8, size 8 bytes.
func (im *Image) add(sym, names []byte, bias uint64) {
	name, value := le.Uint32(sym), le.Uint64(sym[8:])
	kind := elf.ST_TYPE(sym[4])
	if elf.SectionIndex(le.Uint16(sym[6:])) == elf.SHN_UNDEF || value == 0 || uint64(name) >= uint64(len(names)) ||
		(kind != elf.STT_FUNC && kind != elf.STT_OBJECT) {
		return
	}
	text, _, ok := bytes.Cut(names[name:min(int(name)+256, len(names))], []byte{0})
	if !ok {
		return // a mangled name of more than 255 bytes is none of ours
	}
	im.byName[string(text)] = Symbol{string(text), value + bias}
}

// countSymbols reads the hash table, since nothing else in memory says how long the symbol table is.
func (im *Image) countSymbols(mem io.ReaderAt) (uint64, error) {
	if at := im.dynamic[elf.DT_GNU_HASH]; at != 0 {
		return countGNU(mem, at)
	}
	if at := im.dynamic[elf.DT_HASH]; at != 0 { // nbucket, nchain: the latter counts the symbols
		h, err := read(mem, at, 8)
		if err != nil {
			return 0, err
		}
		return uint64(le.Uint32(h[4:])), nil
	}
	return 0, fmt.Errorf("%w: no symbol hash table", ErrMalformed)
}

// countGNU walks the chain of the last bucket to its end. The layout is described at
// https://sourceware.org/gnu-gabi/program-loading-and-dynamic-linking.txt.
func countGNU(mem io.ReaderAt, at uint64) (uint64, error) {
	h, err := read(mem, at, 16)
	if err != nil {
		return 0, err
	}
	buckets, first, bloom := uint64(le.Uint32(h)), uint64(le.Uint32(h[4:])), uint64(le.Uint32(h[8:]))
	if buckets > maxSymbols || bloom > maxSymbols || first > maxSymbols {
		return 0, fmt.Errorf("%w: hash table of %d buckets", ErrMalformed, buckets)
	}
	table, err := read(mem, at+16+bloom*8, int(buckets)*4)
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	for ; len(table) >= 4; table = table[4:] {
		last = max(last, uint64(le.Uint32(table)))
	}
	if last < first {
		return first, nil
	}
	chain := at + 16 + bloom*8 + buckets*4 + (last-first)*4
	for ; last < maxSymbols; last, chain = last+1, chain+4 {
		b, err := read(mem, chain, 4)
		if err != nil {
			return 0, err
		}
		if b[0]&1 != 0 {
			return last + 1, nil
		}
	}
	return 0, fmt.Errorf("%w: a hash chain without end", ErrMalformed)
}

func read(mem io.ReaderAt, at uint64, n int) ([]byte, error) {
	if at >= maxAddress || n < 0 {
		return nil, fmt.Errorf("%w: address %#x", ErrMalformed, at)
	}
	b := make([]byte, n)
	if _, err := mem.ReadAt(b, int64(at)); err != nil {
		return nil, fmt.Errorf("read %d bytes at %#x: %w", n, at, err)
	}
	return b, nil
}
