package units

import (
	"math"
	"testing"
	"time"
)

func TestBytesText(t *testing.T) {
	for _, c := range []struct {
		in   Bytes
		want string
	}{
		{0, "0 B"}, {1, "1 B"}, {1023, "1023 B"}, {1024, "1 KiB"}, {1025, "1.00 KiB"}, {1069548, "1.02 MiB"},
		{16 * GiB, "16 GiB"}, {16*GiB + 1, "16.0 GiB"}, {MiB - 1, "1.00 MiB"}, {1000*KiB + 1, "1000 KiB"},
		{10*KiB - 1, "10.0 KiB"}, {100*KiB - 1, "100 KiB"}, {-1536, "-1.50 KiB"},
		{math.MaxInt64, "8.00 EiB"}, {math.MinInt64, "-8 EiB"},
	} {
		if got := c.in.String(); got != c.want {
			t.Errorf("%d: %q, want %q", int64(c.in), got, c.want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"1000": 1000, "2GiB": 2 * GiB, "512M": 512 * MiB, "1.5 GiB": 3 * GiB / 2, "512mb": 512 * MiB, " 1 k ": KiB,
		"7B": 7,
		"0":  0, "0.1KiB": 102, "1.MiB": MiB, ".5KiB": 512, "9223372036854775807": math.MaxInt64,
	} {
		got, err := ParseBytes(in)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "1.5", "GiB", "1 2", "1e9", "8EiB", "1.2.3M", "1i", "1ib", "1kk", "0x10",
		"NaN", "1 GiBB", "1_000", "1/2", "."} {
		if got, err := ParseBytes(in); err == nil {
			t.Errorf("%q gave %d", in, got)
		}
	}
}

func TestFraction(t *testing.T) {
	for in, want := range map[string]Fraction{"1%": .01, "0.5 %": .005, "0.01": .01, "0": 0, "100%": 1, "1": 1} {
		if got, err := ParseFraction(in); err != nil || got != want {
			t.Errorf("%q: %v, %v", in, float64(got), err)
		}
	}
	for _, in := range []string{"", "%", "2", "101%", "-1%", "NaN", "1e-2", "1%%"} {
		if got, err := ParseFraction(in); err == nil {
			t.Errorf("%q gave %v", in, float64(got))
		}
	}
	for in, want := range map[Fraction]string{.01: "1%", .005: "0.5%", .07: "7%", 1: "100%", 0: "0%"} {
		if got := in.String(); got != want {
			t.Errorf("%v: %q, want %q", float64(in), got, want)
		}
	}
}

func TestDurationText(t *testing.T) {
	for _, c := range []struct {
		in   time.Duration
		want string
	}{
		{0, "0 s"}, {7, "7 ns"}, {340 * time.Microsecond, "340 µs"}, {1200 * time.Millisecond, "1.2 s"},
		{10 * time.Second, "10 s"},
		{999999, "1.0 ms"}, {59600 * time.Millisecond, "1 min"}, {90 * time.Second, "1 min 30 s"},
		{41 * time.Minute, "41 min"},
		{59*time.Minute + 45*time.Second, "1 h"}, {192 * time.Minute, "3 h 12 min"}, {50 * time.Hour, "2 d 2 h"},
		{240*time.Hour - time.Minute, "10 d"}, {-1200 * time.Millisecond, "-1.2 s"}, {1 << 62, "53376 d"},
	} {
		if got := Duration(c.in).String(); got != c.want {
			t.Errorf("%d ns: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"10": 10 * time.Second, "10s": 10 * time.Second, "1.5min": 90 * time.Second, "3 h 12 min": 192 * time.Minute,
		"1h30m":  90 * time.Minute,
		"340 µs": 340 * time.Microsecond, "340μs": 340 * time.Microsecond, "0": 0, "2 d 2 h": 50 * time.Hour,
		"0.5": 500 * time.Millisecond,
	} {
		if got, err := ParseDuration(in); err != nil || time.Duration(got) != want {
			t.Errorf("%q: %v, %v; want %v", in, time.Duration(got), err, want)
		}
	}
	for _, in := range []string{"", "-1s", "s", "1 year", "1s 2", "1e3s", "1..s", "300000000h", "10 10"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("%q gave %v", in, time.Duration(got))
		}
	}
}

func TestCountAndAge(t *testing.T) {
	for in, want := range map[int64]string{0: "0", 999: "999", 1204: "1,204", -1234567: "-1,234,567",
		math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(in); got != want {
			t.Errorf("%d: %q, want %q", in, got, want)
		}
	}
	now := time.Unix(1e9, 0)
	for ago, want := range map[time.Duration]string{-time.Hour: "just now", 1900 * time.Millisecond: "1 s ago",
		3 * time.Minute: "3 min ago"} {
		if got := Age(now.Add(-ago), now); got != want {
			t.Errorf("%v: %q, want %q", ago, got, want)
		}
	}
}

// What is parsed prints, and what is printed parses to nearly the same: the text keeps at least two significant digits.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"1.5 GiB", "512M", "1%", "0.01", "3 h 12 min", "340 µs", "9223372036854775807", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := ParseBytes(s); err == nil && b < 7*EiB {
			again, err := ParseBytes(b.String())
			if err != nil || b < 0 || !near(float64(b), float64(again), .006) {
				t.Errorf("%q is %d bytes, printed as %s, read as %d (%v)", s, int64(b), b, int64(again), err)
			}
		}
		if x, err := ParseFraction(s); err == nil {
			again, err := ParseFraction(x.String())
			if err != nil || x < 0 || x > 1 || !near(float64(x), float64(again), 1e-8) {
				t.Errorf("%q is %v, printed as %s, read as %v (%v)", s, float64(x), x, float64(again), err)
			}
		}
		if d, err := ParseDuration(s); err == nil && d < 1<<62 {
			again, err := ParseDuration(d.String())
			if err != nil || d < 0 || !near(float64(d), float64(again), .051) {
				t.Errorf("%q is %d ns, printed as %s, read as %d (%v)", s, int64(d), d, int64(again), err)
			}
		}
	})
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b))
}
