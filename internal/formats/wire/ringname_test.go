package wire

import "testing"

func TestParseRingName(t *testing.T) {
	if n, ok := ParseRingName("12.345.1.ring"); !ok || n != (RingName{12, 345, 1}) {
		t.Errorf("12.345.1.ring is %v, %v", n, ok)
	}
	for _, name := range []string{"1.2.3.tmp", "1.2.3", "1.2.3.ring.tmp", "1.2.3.ringx", "1.2.ring", "1.2.3.4.ring",
		"+1.2.3.ring", "1.2.3 .ring", "-1.2.3.ring",
		"99999999999.1.0.ring", ".ring", ""} {
		if n, ok := ParseRingName(name); ok {
			t.Errorf("%q passes for ring %v", name, n)
		}
	}
}
