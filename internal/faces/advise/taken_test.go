package advise

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/estimate"
)

const gib = 1 << 30

func parts(t *Taken) map[string]int64 {
	m := map[string]int64{}
	for _, p := range t.Parts {
		m[p.What] = p.Bytes
	}
	return m
}

// A session of 40 GiB at the peak, of which 16 stay between steps: parameters, gradients, and Adam's two.
func TestTakesOfGPU(t *testing.T) {
	device := []deviceRow{{Device: "cuda:0", Reserved: 44 * gib, Peak: 40 * gib, Floor: 16 * gib,
		Total: known(80 * gib)}}
	roles := []roleRow{{"cuda:0", "parameter", 4 * gib}, {"cuda:0", "optimizer", 8 * gib}, {"cpu", "buffer", gib}}
	for _, c := range []struct {
		total int64
		fits  estimate.Fit
		least float64
	}{{80 * gib, estimate.Fits, 2.3}, {42 * gib, estimate.Perhaps, 0.8}, {24 * gib, estimate.FitsNot, 0.1},
		{8 * gib, estimate.FitsNot, 0}, {0, estimate.Unasked, 0}} {
		got, err := takes(device, roles, []stepsRow{{100}}, estimate.Device{Total: c.total})
		if err != nil {
			t.Fatal(err)
		}
		if got.Fits != c.fits || got.Device.High != 44*gib+estimate.ContextHigh || got.Device.Low >= got.Device.Bytes {
			t.Errorf("of %d: %q, want %q; %+v", c.total, got.Fits, c.fits, got.Device)
		}
		if c.total == 0 && got.Factor == nil {
			continue
		}
		if got.Factor == nil || *got.Factor < c.least || *got.Factor > c.least+0.4 {
			t.Errorf("of %d: factor %v, want some %v", c.total, got.Factor, c.least)
		}
		want := map[string]int64{"parameters": 4 * gib, "optimizer state": 8 * gib,
			"gradients, and what else stays between steps": 4 * gib,
			"what a step adds: activations, temporaries":   24 * gib}
		for what, bytes := range parts(got) {
			if want[what] != bytes {
				t.Errorf("%s: %d, want %d", what, bytes, want[what])
			}
		}
		if len(got.Parts) != len(want) {
			t.Errorf("parts %v", got.Parts)
		}
	}
}

// A training on the host says what is there whatever the device is, and that the rest is not known.
func TestTakesOfHost(t *testing.T) {
	roles := []roleRow{{"cpu", "parameter", 4 * gib}, {"cpu", "optimizer", 8 * gib}}
	got, err := takes(nil, roles, []stepsRow{{100}}, estimate.Device{Total: 24 * gib})
	if err != nil || got.Fits != estimate.Unasked || got.Allocator != nil || got.Factor != nil || len(got.Notes) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = takes(nil, roles, []stepsRow{{100}}, estimate.Device{Total: 12 * gib}); err != nil ||
		got.Fits != estimate.FitsNot {
		t.Errorf("12 GiB of parameters and state in 12 GiB: %+v, %v", got, err)
	}
}

func TestTakesRefuses(t *testing.T) {
	roles := []roleRow{{"cpu", "parameter", 4 * gib}}
	for _, c := range []struct {
		roles []roleRow
		steps []stepsRow
		want  string
	}{{roles, nil, "0 training steps"}, {roles, []stepsRow{{2}}, "2 training steps"},
		{nil, []stepsRow{{50}}, "no census"}, {[]roleRow{{"cuda:0", "parameter", gib}}, []stepsRow{{50}}, "no GPU"}} {
		if got, err := takes(nil, c.roles, c.steps, estimate.Device{}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %v, want %q", got, err, c.want)
		}
	}
}
