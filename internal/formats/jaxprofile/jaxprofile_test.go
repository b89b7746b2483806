package jaxprofile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
)

func recorded(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/jax/jax-0.10.pprof")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A profile that jax 0.10 wrote: ten buffers of 1 MiB of one line, one of another function.
func TestRead(t *testing.T) {
	data := recorded(t)
	if !Is(bytes.NewReader(data)) {
		t.Error("not recognized")
	}
	p, err := Read(bytes.NewReader(data), 1<<30)
	if err != nil || len(p.Devices) != 1 || p.Executables != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	d := p.Devices[0]
	if d.Name != "cpu:0" || d.Bytes != 11<<20 || d.Buffers != 11 || len(d.Sites) != 2 {
		t.Fatalf("%+v", d)
	}
	first := d.Sites[0]
	if first.Bytes != 10<<20 || first.Buffers != 10 || !strings.HasSuffix(first.File, "hold.py") || first.Line != 3 ||
		len(first.Callers) == 0 || first.Callers[len(first.Callers)-1].Function != "<module>" {
		t.Errorf("%+v", first)
	}
	if d.Sites[1].Function != "other" || d.Sites[1].Bytes != 1<<20 {
		t.Errorf("%+v", d.Sites[1])
	}
}

// Other files are told from it, and what is cut is an error.
func TestOthers(t *testing.T) {
	for _, other := range []string{"", "\x80\x04\x95", "{\"traceEvents\"", "\x1f\x8b\x08", "\n\x02"} {
		if Is(strings.NewReader(other)) {
			t.Errorf("%q is taken for a profile", other)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(recorded(t)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Read(bytes.NewReader(plain), 1<<30); err != nil || len(p.Devices) != 1 {
		t.Errorf("unpacked: %+v, %v", p, err)
	}
	if _, err := Read(bytes.NewReader(plain[:len(plain)/2]), 1<<30); !errors.Is(err, ErrOther) {
		t.Errorf("cut: %v", err)
	}
	if _, err := Read(strings.NewReader(""), 1<<30); !errors.Is(err, ErrOther) {
		t.Errorf("empty: %v", err)
	}
}

// named begins a profile with the two kinds of values and the names that JAX's have.
func named() []byte {
	data := []byte{10, 4, 8, 1, 16, 2, 10, 4, 8, 3, 16, 4}
	for _, text := range []string{"", "allocations", "count", "space", "bytes", "kind", "buffer", "device"} {
		data = append(append(data, 6<<3|2, byte(len(text))), text...)
	}
	return data
}

// What two bytes in the file become is counted, and so is what a few bytes have us do.
func TestHostileProfiles(t *testing.T) {
	many := func(part ...byte) []byte { return append(named(), bytes.Repeat(part, 1<<20)...) }
	values := append(named(), 2<<3|2, 0x84, 0x80, 0x40, 2<<3|2, 0x80, 0x80, 0x40) // one sample of 2^20
	lines := append(named(), 4<<3|2, 0x80, 0x80, 0x40)                            // one location of 2^19
	lines = append(lines, bytes.Repeat([]byte{4<<3 | 2, 0}, 1<<19)...)
	const memory = 12 << 20
	for what, x := range map[string]struct {
		data []byte
		good bool
	}{
		"samples":   {many(2<<3|2, 0), true}, // take nothing
		"values":    {append(values, make([]byte, 1<<20)...), true},
		"texts":     {many(6<<3|2, 0), false},
		"kinds":     {many(1<<3|2, 0), false},
		"functions": {many(5<<3|2, 0), false},
		"locations": {many(4<<3|2, 0), false},
		"lines":     {lines, false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(bytes.NewReader(x.data), memory)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; (err == nil) != x.good || took > 5*memory {
			t.Errorf("%s: %v, %d bytes", what, err, took)
		}
	}
	stacks := append(lines, bytes.Repeat([]byte{2<<3 | 2, 6, 8, 0, 16, 1, 16, 1}, 1<<10)...)
	f, err := decode(stacks, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	f.looks = 1 << 20
	if _, err := f.profile(stacks); err == nil {
		t.Error("2^29 frames were looked at")
	}
}

// Less than nothing can't be live, nor can sums be more than a number can say.
func TestNegative(t *testing.T) {
	sample := func(count, space int64) []byte {
		values := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(count)), uint64(space))
		values = append([]byte{2<<3 | 2, byte(len(values))}, values...)
		return append([]byte{2<<3 | 2, byte(len(values))}, values...)
	}
	for what, samples := range map[string][][]byte{
		"count": {sample(-25, 4)}, "space": {sample(1, -4)}, "sum": {sample(1, math.MaxInt64), sample(1, 1)},
	} {
		data := append(named(), bytes.Join(samples, nil)...)
		if _, err := Read(bytes.NewReader(data), 1<<30); !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p, err := Read(bytes.NewReader(append(named(), sample(25, 4)...)), 1<<30)
	if err != nil || p.Devices[0].Buffers != 25 {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzRead(f *testing.F) {
	data := recorded(f)
	f.Add(data)
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if plain, err := io.ReadAll(z); err == nil {
			f.Add(plain)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data), 1<<30)
		if (p == nil) == (err == nil) {
			t.Errorf("%v, %v", p, err)
		}
	})
}
