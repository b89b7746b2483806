package replay

import (
	"bytes"
	"errors"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// maxFuzzed is the longest file that is replayed, in bytes: some hundred events, so that an input takes milliseconds.
const maxFuzzed = 8 << 10

// maxPlayed is the most that a history may hold at once to be replayed here, in bytes. Pages of 2 MiB are counted one
// by one: beyond this size an allocation takes milliseconds, and proves nothing more. Histories beyond maxNeed are
// refused, and that is tested.
const maxPlayed = 1 << 34

// FuzzTrace replays whatever can be read: each policy comes to an end, and never holds less than the program.
func FuzzTrace(f *testing.F) {
	f.Add([]byte("device 0\nlive 0x1000 600\nalloc 0x2000 512 0\nfree 0x2000 512 0\n"))
	var settings []Setting
	for _, of := range [][2]string{{"torch", ""}, {"torch", "expandable_segments:True"}, {"packed", ""}, {"vmm", ""},
		{"direct", ""}} {
		s, err := NewSetting(of[0], of[1])
		if err != nil {
			f.Fatal(err)
		}
		s.Recorded = of[0] == "torch"
		settings = append(settings, s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := snapshot.Read(bytes.NewReader(data))
		if err != nil || len(data) > maxFuzzed {
			return
		}
		for _, device := range s.Devices() {
			tr, err := s.Trace(device)
			if err != nil || tooSlow(tr) {
				continue
			}
			for _, setting := range settings {
				replayed(t, tr, setting)
			}
		}
	})
}

func tooSlow(tr *snapshot.Trace) bool {
	need := newProgram(tr, false).peak
	if tr.Recorded != nil {
		need = max(need, tr.Recorded.Peak)
	}
	return need > maxPlayed && need <= maxNeed
}

func replayed(t *testing.T, tr *snapshot.Trace, s Setting) {
	t.Helper()
	r, err := Repeat(t.Context(), tr, s, Unlimited, 2)
	switch {
	case errors.Is(err, errOpening), errors.Is(err, errNoDevice): // no device and no allocator can have had that
	case err != nil:
		t.Errorf("%s: %v", s.Name, err)
	case r.PeakRequested < 0 || r.EndReserved < 0 || r.DriverCalls < 0 || r.EndReserved > r.PeakReserved:
		t.Errorf("%s: %+v", s.Name, *r)
	case r.OOM == nil && r.PeakReserved < r.PeakRequested:
		t.Errorf("%s: %d reserved for %d", s.Name, r.PeakReserved, r.PeakRequested)
	}
}
