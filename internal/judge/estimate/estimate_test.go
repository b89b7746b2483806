package estimate

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/alloc"
)

const small = `memgauge-estimate 1
torch "2.15.0"
batch 4 4 "train.py:3 BATCH"
site 1 "train.py:5 <module>"
a 1 4194304 float32 1
is 1 parameter
phase forward
uses matrix forward
a 2 8388608 float32 1
a 3 1048576 float32 1
f 3
phase backward
uses matrix backward
a 4 4194304 float32 1
f 2
is 4 gradient
phase optimizer
a 5 8388608 float32 1
is 5 optimizer
a 6 4194304 int64 0
f 6
step 1
end
`

func read(t *testing.T, text string) *Recording {
	t.Helper()
	r, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadsWhatAStorageIsFor(t *testing.T) {
	r := read(t, small)
	want := []Category{Parameter, Activation, Temporary, Gradient, Optimizer, Temporary}
	for i, c := range want {
		if r.Allocations[i].Category != c {
			t.Errorf("allocation %d is for %s, want %s", i+1, r.Allocations[i].Category, c)
		}
	}
	if r.Batch != 4 || r.Steps != 1 || r.Torch != "2.15.0" || r.Allocations[5].Site != -1 || r.Convolves {
		t.Errorf("read %+v", r)
	}
}

func TestRefusesWhatIsNoRecording(t *testing.T) {
	for name, text := range map[string]string{
		"another file":    "hello\n",
		"a cut one":       strings.TrimSuffix(small, "end\n"),
		"a double free":   strings.Replace(small, "f 2\n", "f 2\nf 2\n", 1),
		"an unknown free": strings.Replace(small, "f 2\n", "f 99\n", 1),
		"a size":          strings.Replace(small, "4194304 int64", "-1 int64", 1),
		"a number":        strings.Replace(small, "a 6 ", "a 9 ", 1),
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestPlaysByPyTorchsRules(t *testing.T) {
	r, err := NewProgram(read(t, small), nil).Play(t.Context(), Variant{Workspace: 8519680})
	if err != nil {
		t.Fatal(err)
	}
	// parameters, gradients, optimizer state, the optimizer's temporary and two workspaces
	if want := int64(4+4+8+4)<<20 + 2*8519680; r.PeakRequested != want {
		t.Errorf("peak of %d bytes, want %d", r.PeakRequested, want)
	}
	if r.PeakReserved < r.PeakRequested || r.PeakReserved%(2<<20) != 0 {
		t.Errorf("%d bytes reserved: not segments of PyTorch's", r.PeakReserved)
	}
	if r.At[Optimizer] != 8<<20 || r.At[Activation] != 0 || r.Step != 1 || r.Fixed() != 16<<20+2*8519680 {
		t.Errorf("at the peak %v in step %d", r.At, r.Step)
	}
}

func TestOtherBatchSizesAndPrecisions(t *testing.T) {
	double := strings.NewReplacer("batch 4 4", "batch 4 8", "8388608 float32 1\na 3 1048576",
		"16777216 float32 1\na 3 2097152").Replace(small)
	p := NewProgram(read(t, small), read(t, double))
	if !p.Exact {
		t.Fatal("two runs of the same program were not recognised")
	}
	for batch, want := range map[int]int64{4: 8 << 20, 8: 16 << 20, 1: 2 << 20, 64: 128 << 20} {
		if got := p.size(1, &Variant{Batch: batch}); got != want {
			t.Errorf("batch %d: %d bytes of activations, want %d", batch, got, want)
		}
		if got := p.size(0, &Variant{Batch: batch, Halved: true}); got != 2<<20 {
			t.Errorf("batch %d: %d bytes of parameters in 16 bits", batch, got)
		}
	}
	if got := p.size(5, &Variant{Halved: true}); got != 4<<20 {
		t.Errorf("integers became %d bytes", got)
	}
	if NewProgram(read(t, small), read(t, strings.Replace(double, "f 3\n", "f 3\nempty\n", 1))).Exact {
		t.Error("runs of different operations were taken for the same")
	}
}

func TestFindsTheLargestBatch(t *testing.T) {
	double := strings.NewReplacer("batch 4 4", "batch 4 8", "8388608 float32 1\na 3 1048576",
		"16777216 float32 1\na 3 2097152").Replace(small)
	p := NewProgram(read(t, small), read(t, double))
	q := Question{Device: Device{"a GPU", 1 << 30, [2]int{8, 0}}, Options: alloc.Options{}}
	n, err := p.largest(t.Context(), q, false)
	if err != nil || n < 1 {
		t.Fatalf("largest %d, %v", n, err)
	}
	fits := func(batch int) bool {
		ok, err := p.runs(t.Context(), Variant{Batch: batch, Workspace: q.Device.Workspace()},
			q.Device.Total-ContextHigh, 1+spread/2)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !fits(n) || fits(n+1) {
		t.Errorf("%d is not the largest that fits", n)
	}
	c, err := p.one(t.Context(), q, false, 100*n)
	if err != nil || c.Fits != FitsNot {
		t.Errorf("a hundred times the largest: %q, %v", c.Fits, err)
	}
}

func TestDevices(t *testing.T) {
	for text, want := range map[string]int64{"GTX 1650": 4 << 30, "NVIDIA GeForce GTX 1650": 4 << 30, "4GiB": 4 << 30,
		"h100": 81559 << 20, "RTX4090": 24564 << 20, "a100-80gb": 80 << 30} {
		d, err := ParseDevice(text)
		if err != nil || d.Total != want {
			t.Errorf("%q: %d bytes, %v; want %d", text, d.Total, err, want)
		}
	}
	if _, err := ParseDevice("GTX banana"); err == nil {
		t.Error("a GPU that isn't known has a size")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(small)
	f.Add("memgauge-estimate 1\nend\n")
	f.Add("memgauge-estimate 1\nempty\nstep 1\nuses matrix x\nuses convolution y\nend\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, err := NewProgram(r, nil).Play(t.Context(), Variant{}); err != nil {
			t.Fatal(err)
		}
	})
}
