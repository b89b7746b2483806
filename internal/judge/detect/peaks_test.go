package detect_test

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// TestPeaksBelongToTheirPhase: a peak is a phase's only where it was given back, nothing else reached it, and memory
// ran so high for no other reason.
func TestPeaksBelongToTheirPhase(t *testing.T) {
	const mib = 1 << 20
	saving := detect.Raised{PID: 1, Rank: -1, Phase: "saving", Text: "torch.save to io.BytesIO, /a/train.py:7",
		Step: 90, Peak: 900 * mib, Before: 500 * mib, Highest: 900 * mib, Level: 510 * mib}
	change := func(r detect.Raised, f func(*detect.Raised)) detect.Raised { f(&r); return r }
	begin := change(saving, func(r *detect.Raised) {
		r.Phase, r.Text, r.Inside, r.Looked = "first step", "the first step", 600*mib, 5
	})
	for name, c := range map[string]struct {
		of   []detect.Raised
		says string // a part of the line and its advice; "" for no peak
	}{
		"saving":         {[]detect.Raised{saving}, "saving (torch.save to io.BytesIO, /a/train.py:7)"},
		"saving, advice": {[]detect.Raised{saving}, "to the file itself"},
		"kept":           {[]detect.Raised{change(saving, func(r *detect.Raised) { r.Level = 880 * mib })}, ""},
		"reached later":  {[]detect.Raised{change(saving, func(r *detect.Raised) { r.Highest = 1000 * mib })}, ""},
		"no higher":      {[]detect.Raised{change(saving, func(r *detect.Raised) { r.Before = 890 * mib })}, ""},
		"the first step": {[]detect.Raised{begin}, "the first step"},
		"steps unseen":   {[]detect.Raised{change(begin, func(r *detect.Raised) { r.Looked = 1 })}, ""},
		"steps alike":    {[]detect.Raised{change(begin, func(r *detect.Raised) { r.Inside = 890 * mib })}, ""},
		"begin and saving": {[]detect.Raised{change(begin, func(r *detect.Raised) { r.Peak = 500 * mib }),
			saving}, "saving"},
		"ran out": {[]detect.Raised{saving, change(saving, func(r *detect.Raised) { r.RanOut, r.Peak = true, 0 })},
			"host memory ran out in saving"},
		"gradients": {[]detect.Raised{change(saving, func(r *detect.Raised) {
			r.Phase, r.Text = "evaluation", "evaluation, gradients on, /a/train.py:9"
		})}, "an evaluation (gradients on, /a/train.py:9)"},
		"nothing": {nil, ""},
	} {
		peaks := detect.Peaks(c.of)
		if c.says == "" && len(peaks) > 0 || c.says != "" && (len(peaks) != 1 ||
			!strings.Contains(peaks[0].String()+peaks[0].Advice, c.says)) {
			t.Errorf("%s: %v, want %q", name, peaks, c.says)
		}
	}
}
