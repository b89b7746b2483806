package jaxprofile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func recorded(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../../testdata/jax/jax-0.10.pprof")
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
	p, err := Read(bytes.NewReader(data))
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
	if p, err := Read(bytes.NewReader(plain)); err != nil || len(p.Devices) != 1 {
		t.Errorf("unpacked: %+v, %v", p, err)
	}
	if _, err := Read(bytes.NewReader(plain[:len(plain)/2])); !errors.Is(err, ErrOther) {
		t.Errorf("cut: %v", err)
	}
	if _, err := Read(strings.NewReader("")); !errors.Is(err, ErrOther) {
		t.Errorf("empty: %v", err)
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
		p, err := Read(bytes.NewReader(data))
		if (p == nil) == (err == nil) {
			t.Errorf("%v, %v", p, err)
		}
	})
}
