package wire_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

var update = flag.Bool("update", false, "write the golden files")

type codec interface {
	Decode(*[wire.SlotSize]byte)
	Encode(*[wire.SlotSize]byte)
}

var codecs = map[uint8]codec{
	wire.KindTrace: &wire.Trace{}, wire.KindStep: &wire.Step{}, wire.KindHeap: &wire.Heap{},
	wire.KindDevice: &wire.Device{},
	wire.KindEvent:  &wire.Event{}, wire.KindText: &wire.Text{}, wire.KindOverhead: &wire.Overhead{},
	wire.KindTensors: &wire.Tensors{}, wire.KindObjects: &wire.Objects{}, wire.KindStepEnd: &wire.StepEnd{},
	wire.KindHost: &wire.Host{},
}

// TestCodecsFollowTheSpec sends random values of every field that the table names through the generated codec.
func TestCodecsFollowTheSpec(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	if len(codecs) != len(wire.Spec) {
		t.Errorf("%d codecs of %d kinds", len(codecs), len(wire.Spec))
	}
	for _, k := range wire.Spec {
		size := k.Size()
		for range 100 {
			var in, out [wire.SlotSize]byte
			for i := range in[:size] {
				in[i] = byte(rng.Uint32())
			}
			for i := range in[size : size+k.Room()] {
				in[size+i] = 0xFF
			}
			in[16] = k.Code
			le.PutUint32(in[wire.CheckOffset:], wire.Check(le.Uint64(in[:]), le.Uint64(in[8:])))
			codecs[k.Code].Decode(&in)
			codecs[k.Code].Encode(&out)
			if in != out || !wire.Whole(&out, le.Uint64(in[:])) {
				t.Fatalf("%s: %x became %x", k.Name, in, out)
			}
		}
	}
}

func TestSpecIsSound(t *testing.T) {
	seen := map[uint8]bool{wire.KindNone: true}
	for _, k := range wire.Spec {
		if seen[k.Code] {
			t.Errorf("kind %d is there twice, or 0", k.Code)
		}
		seen[k.Code] = true
		off := wire.PrefixSize
		for _, f := range k.Fields {
			if size := f.Type.Size(); size <= 8 && off%min(size, 4) != 0 {
				t.Errorf("%s.%s at byte %d is not aligned", k.Name, f.Name, off)
			}
			off += f.Type.Size()
		}
	}
	for i, name := range wire.States {
		if want := [...]string{wire.StateCreating: "creating", wire.StateLive: "live", wire.StateClosed: "closed",
			wire.StateDetached: "detached"}[i]; name != want {
			t.Errorf("state %d is %q, want %q", i, name, want)
		}
	}
}

// sample has a record of every kind, a damaged slot, a kind of the future, and has wrapped.
func sample() *wiretest.Ring {
	r := wiretest.New(wiretest.Options{PID: 4711, Start: 123456, Slots: 16, NamesSize: 256, RingID: 0xfeed,
		Generation: 1, Wall: 1_700_000_000e9, Mono: 50e9, Info: map[string]string{"argv": "python train.py",
			"cwd": "/data/job\ta"}})
	r.SetRank(0, 2)
	r.Append(&wire.Step{TS: 50e9, Step: 1, Steps: 1, Duration: wire.NotTaken, RSS: 1 << 28, Anon: 1 << 27,
		MaxRSS: 1 << 29})
	for i := range uint64(10) {
		r.Append(&wire.Trace{TS: 51e9 + i, Stage: uint8(i % 6), Flags: wire.FlagRoot, Device: -1,
			Name: r.Intern("layers.0.mlp"), Step: 2, Allocated: i << 20, MaxAllocated: wire.NotTaken, Cached: 1,
			MaxCached: 2})
	}
	r.Append(&wire.Heap{TS: 52e9, Step: 2, GCCount: 3, GCYoung: 40, HeapInUse: 5, HeapHeld: 6, PyBlocks: 7,
		CostNS: 400})
	r.Append(&wire.Device{TS: 52e9, Device: 1, Step: 2, Allocated: 8, MaxAllocated: 9, Reserved: 10, MaxReserved: 11})
	r.Append(&wire.Step{TS: 52e9, Flags: 3, Steps: 1, Step: 2, AgentNS: 5000, Duration: 2e9, RSS: 1, Anon: 2,
		MaxRSS: wire.NotTaken})
	r.Append(&wire.Overhead{TS: 53e9, Name: r.Intern("step hook"), Steps: 100, NS: 1000, Count: 100, Covered: 1e9,
		Gap: wire.NotTaken})
	var future [wire.SlotSize]byte
	future[16] = 99
	n := r.AppendSlot(&future)
	r.Event(54e9, "exit", "a text of more than forty bytes, so that it takes two", -1, 1<<40)
	r.Bytes()[r.SlotOffset(n-3)+5]++
	return r
}

// census has the kinds that version 1.1 brought.
func census() *wiretest.Ring {
	r := wiretest.New(wiretest.Options{PID: 4711, Start: 123456, Slots: 16, NamesSize: 256, RingID: 0xfeed,
		Generation: 1, Minor: 1, Wall: 1_700_000_000e9, Mono: 50e9, Info: map[string]string{"argv": "python train.py"}})
	r.Append(&wire.Text{TS: 51e9, Length: 12, Data: [wire.TextChunk]byte{0: '(', 1: '2', 2: ')', 3: '\t'}})
	r.Append(&wire.Tensors{TS: 51e9, Flags: 3, TextLen: 12, TextSlots: 1, Census: 2, Step: 40, Count: 7, OldestStep: 3,
		Fresh: 1, Bytes: 1 << 40})
	r.Append(&wire.Objects{TS: 51e9, Flags: 2, Census: 2, Step: 40, Count: 1, Delta: -5, Length: 12,
		Bytes: wire.NotTaken})
	return r
}

// steps has the kinds that version 1.2 brought.
func steps() *wiretest.Ring {
	r := wiretest.New(wiretest.Options{PID: 4711, Start: 123456, Slots: 16, NamesSize: 256, RingID: 0xfeed,
		Generation: 1, Minor: 2, Wall: 1_700_000_000e9, Mono: 50e9, Info: map[string]string{"argv": "python train.py"}})
	r.Append(&wire.StepEnd{TS: 51e9, Flags: 1, Steps: 1, Step: 1, AgentNS: 5000, Duration: wire.NotTaken,
		Work: wire.NotTaken, Tokens: wire.NotTaken})
	var host wire.Host // with fields that come later not taken
	host.Decode((*[wire.SlotSize]byte)(bytes.Repeat([]byte{0xFF}, wire.SlotSize)))
	host.TS, host.Flags, host.Reserved0, host.Step, host.RSS, host.Anon = 52e9, 0, 0, 3, 1<<28, 1<<27
	r.Append(&host)
	r.Append(&wire.StepEnd{TS: 52e9, Flags: 2, Steps: 2, Step: 3, Duration: 2e9,
		Work: wire.NotTaken, Tokens: wire.NotTaken})
	return r
}

// TestStoredRings reads the rings that were stored with each version, and will for ever: their text must never change.
// A new minor version adds a file.
func TestStoredRings(t *testing.T) {
	for minor, ring := range []*wiretest.Ring{sample(), census(), steps()} {
		name := fmt.Sprintf("v%d.%d", wire.Major, minor)
		stored := "../../../testdata/rings/" + name + ".ring"
		if _, err := os.Stat(stored); *update && err != nil { // a stored ring is not written twice
			os.MkdirAll(filepath.Dir(stored), 0o755)
			if err := os.WriteFile(stored, ring.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(stored)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", dump(t, b))
		if !bytes.Equal(b, ring.Bytes()) && minor == wire.Minor {
			t.Errorf("%s: this version writes another ring than the one that it stored", name)
		}
	}
	if _, err := os.Stat(fmt.Sprintf("../../../testdata/rings/v%d.%d.ring", wire.Major, wire.Minor)); err != nil {
		t.Errorf("no ring of this version is stored: %v", err)
	}
}

func dump(t *testing.T, b []byte) string {
	t.Helper()
	var text strings.Builder
	if err := wire.Dump(&text, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != got {
		t.Errorf("%s: error %v, or differs from\n%s", path, err, got)
	}
}
