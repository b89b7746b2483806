package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
)

// maxMaps bounds a maps file in bytes: 65,530 mappings (vm.max_map_count's default) with paths of 200 bytes are 18 MB.
const maxMaps = 64 << 20

// maxAddress is the end of user space: 1<<47 on x86-64, 1<<48 on aarch64 (Documentation/arch/x86/x86_64/mm.rst,
// Documentation/arch/arm64/memory.rst); above it, the kernel maps memory only on request.
const maxAddress = 1 << 48

// ErrMalformed marks text or memory of an unexpected form.
var ErrMalformed = errors.New("malformed")

// Mapping is a line of /proc/PID/maps.
type Mapping struct {
	Lo, Hi, Offset uint64
	Perm           string // such as "r-xp"
	Inode          uint64
	Path           string // as the kernel shows it: see docs/attach.md on whose root that is
}

// Executable tells whether code can run there.
func (m Mapping) Executable() bool { return len(m.Perm) > 2 && m.Perm[2] == 'x' }

// Maps is an address space, by rising address.
type Maps []Mapping

// ReadMaps reads a maps file.
func ReadMaps(r io.Reader) (Maps, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxMaps+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxMaps {
		return nil, fmt.Errorf("%w: more than %d bytes of mappings", ErrMalformed, maxMaps)
	}
	maps := make(Maps, 0, bytes.Count(text, []byte("\n")))
	for line := range bytes.Lines(text) {
		m, err := parseMapping(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return nil, fmt.Errorf("mapping %d: %w", len(maps)+1, err)
		}
		if n := len(maps); n > 0 && m.Lo < maps[n-1].Hi {
			return nil, fmt.Errorf("mapping %d: %w: addresses fall", n+1, ErrMalformed)
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// parseMapping takes "lo-hi perm offset major:minor inode   path".
func parseMapping(line []byte) (Mapping, error) {
	var f [5][]byte
	rest := line
	for i := range f {
		var ok bool
		if f[i], rest, ok = bytes.Cut(rest, []byte(" ")); !ok && i < len(f)-1 {
			return Mapping{}, fmt.Errorf("%w: %d fields", ErrMalformed, i+1)
		}
	}
	lo, hi, _ := bytes.Cut(f[0], []byte("-"))
	m := Mapping{Perm: string(f[1]), Path: string(bytes.TrimLeft(rest, " "))}
	var errs [4]error
	m.Lo, errs[0] = strconv.ParseUint(string(lo), 16, 64)
	m.Hi, errs[1] = strconv.ParseUint(string(hi), 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(string(f[2]), 16, 64)
	m.Inode, errs[3] = strconv.ParseUint(string(f[4]), 10, 64)
	if errors.Join(errs[:]...) != nil || m.Lo >= m.Hi || len(m.Perm) != 4 {
		return Mapping{}, fmt.Errorf("%w: %.80q", ErrMalformed, line)
	}
	return m, nil
}

// At returns the mapping that contains an address.
func (ms Maps) At(addr uint64) (Mapping, bool) {
	i := sort.Search(len(ms), func(i int) bool { return ms[i].Hi > addr })
	if i == len(ms) || addr < ms[i].Lo {
		return Mapping{}, false
	}
	return ms[i], true
}

// Hole returns an address in the middle of the largest gap, into which nothing will grow soon; 0 if no gap is many
// times larger than size bytes.
func (ms Maps) Hole(size uint64) uint64 {
	var at, width, end uint64
	end = 1 << 32 // programs without PIE and their heap lie below
	for _, m := range ms {
		if m.Lo >= maxAddress {
			break
		}
		if m.Lo > end && m.Lo-end > width {
			at, width = end, m.Lo-end
		}
		end = max(end, m.Hi)
	}
	if width < size*64 {
		return 0
	}
	return (at + width/2) &^ 0xffff
}
