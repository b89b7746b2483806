package native

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// program prints, as JSON, the line table of its functions, and for every instruction the line that Python itself
// gives.
const program = `
import dis, json, sys, asyncio, json.decoder
def table(c):
    return list(c.co_linetable if sys.version_info >= (3, 10) else c.co_lnotab)
def lines(c):
    if sys.version_info >= (3, 10):
        return [[s, l] for s, e, l in c.co_lines() for s in range(s, e, 2) if l is not None]
    starts, out, line = dict(dis.findlinestarts(c)), [], c.co_firstlineno
    for at in range(0, len(c.co_code), 2):
        line = starts.get(at, line)
        out.append([at, line])
    return out
def codes(c):
    yield c
    for k in c.co_consts:
        if hasattr(k, "co_code"):
            yield from codes(k)
out = []
for m in (json.decoder, dis, asyncio.base_events):
    with open(m.__file__, encoding="utf-8") as f:
        for c in codes(compile(f.read(), m.__file__, "exec")):
            out.append({"table": table(c), "first": c.co_firstlineno, "lines": lines(c)})
print(json.dumps({"minor": sys.version_info[1], "codes": out}))
`

// pythons are CPython 3.8 to 3.13, and those in a root of their own, if this test may enter one.
func pythons(t *testing.T) []env.Python {
	list := env.CPythons(t)
	if os.Geteuid() == 0 && env.Has("chroot", "MEMGAUGE_CHROOT_PYTHONS") {
		list = append(list, env.ChrootCPythons(t)...)
	}
	return list
}

// TestLines compares every instruction of three modules with what each Python says itself.
func TestLines(t *testing.T) {
	for _, python := range pythons(t) {
		version := python.Name()
		out, err := python.Command(t, "-c", program).Output()
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		var told struct {
			Minor int
			Codes []struct {
				Table []int
				First int
				Lines [][2]int
			}
		}
		if err := json.Unmarshal(out, &told); err != nil {
			t.Fatal(err)
		}
		minor, codes := told.Minor, told.Codes
		checked := 0
		for _, c := range codes {
			table := make([]byte, len(c.Table))
			for i, b := range c.Table {
				table[i] = byte(b)
			}
			for _, l := range c.Lines {
				checked++
				if got := lineAt(minor, table, c.First, l[0]); got != l[1] {
					t.Fatalf("Python %s: line %d at byte %d of the function at line %d, not %d", version, got, l[0],
						c.First, l[1])
				}
			}
		}
		if checked < 5000 {
			t.Errorf("Python %s: only %d instructions", version, checked)
		}
	}
}

// FuzzLines: no table makes a decoder go on for ever, or read beyond its end.
func FuzzLines(f *testing.F) {
	f.Add([]byte{0x80, 0xf0, 0xff, 14 << 3, 1}, 10)
	f.Fuzz(func(_ *testing.T, table []byte, lasti int) {
		for _, minor := range []int{8, 10, 12} {
			lineAt(minor, table, 1, lasti)
		}
	})
}

// TestCalled: who allocated is the innermost function outside of what allocates for all, by the name that its module
// exports where it has none itself.
func TestCalled(t *testing.T) {
	native := func(name, file string) Frame { return Frame{Native: true, Func: name, File: file} }
	libc, python := native("malloc", "/lib/libc.so.6"), Frame{Func: "f", File: "a.py", Line: 3}
	for want, frames := range map[string][]Frame{
		"grow (libx.so)": {libc, native("grow", "/a/libx.so"), native("libx.so+0x9", "/a/libx.so"), python},
		"step (libq.so)": {libc, native("libq.so+0x1", "/a/libq.so"), native("step", "/a/libq.so"), python},
		"libq.so+0x1":    {libc, native("libq.so+0x1", "/a/libq.so"), native("call", "/a/liby.so"), python},
		"libq.so+0x2":    {native("libq.so+0x2", "/a/libq.so"), python, native("step", "/a/libq.so")},
		"0x7f00":         {libc, native("0x7f00", "")},
		"":               {libc, python},
	} {
		if got := called(frames); got != want {
			t.Errorf("%v: %q, not %q", frames, got, want)
		}
	}
}
