package env

import (
	"slices"
	"testing"
)

// The lanes differ in which tests run, how often, and with which interpreters; one variable says it all.
func TestLanes(t *testing.T) {
	all := []string{"3.8", "3.9", "3.13"}
	for _, c := range []struct {
		lane  string
		times int
		ends  []string
		runs  bool
	}{
		{"", 3, []string{"3.8", "3.13"}, false},
		{"0", 3, []string{"3.8", "3.13"}, false},
		{"1", 40, all, true},
		{"2.5", 100, all, true},
		{"0.001", 1, all, true},
	} {
		t.Run("MEMGAUGE_LONG="+c.lane, func(t *testing.T) {
			t.Setenv(Lane, c.lane)
			if n := Times(3, 40); n != c.times {
				t.Errorf("%d times, want %d", n, c.times)
			}
			if ends := Ends(all); !slices.Equal(ends, c.ends) {
				t.Errorf("interpreters %v, want %v", ends, c.ends)
			}
			ran := false
			t.Run("long", func(t *testing.T) {
				Long(t, "for this test")
				ran = true
			})
			if ran != c.runs {
				t.Errorf("a long test ran: %v, want %v", ran, c.runs)
			}
		})
	}
}
