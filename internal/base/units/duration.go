package units

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span whose text is for people: "340 µs", "1.2 s", "41 min", "3 h 12 min".
type Duration time.Duration

const day = 24 * time.Hour

// String keeps about two significant figures; ParseDuration reads it back.
func (d Duration) String() string {
	t := time.Duration(d)
	if t == -1<<63 {
		t++ // so that it can be negated
	}
	if t < 0 {
		return "-" + Duration(-t).String()
	}
	// Rounded first, so that 59.96 s doesn't become "60 s".
	switch {
	case t < time.Microsecond:
		if t == 0 {
			return "0 s"
		}
		return strconv.Itoa(int(t)) + " ns"
	case t < 999500*time.Nanosecond:
		return scaled(t, time.Microsecond, "µs")
	case t < 999500*time.Microsecond:
		return scaled(t, time.Millisecond, "ms")
	case t < 59500*time.Millisecond:
		return scaled(t, time.Second, "s")
	case t < 10*time.Minute-500*time.Millisecond:
		return two(t, time.Minute, "min", time.Second, "s")
	case t < time.Hour-30*time.Second:
		return whole(t, time.Minute, "min")
	case t < day-30*time.Second:
		return two(t, time.Hour, "h", time.Minute, "min")
	case t < 10*day-30*time.Minute:
		return two(t, day, "d", time.Hour, "h")
	}
	return whole(t, day, "d")
}

// scaled has one decimal below ten: "1.2 s", "45 s".
func scaled(t, unit time.Duration, name string) string {
	value := float64(t) / float64(unit)
	if t%unit == 0 || value >= 9.95 {
		return strconv.FormatFloat(value, 'f', 0, 64) + " " + name
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + name
}

func whole(t, unit time.Duration, name string) string {
	return strconv.FormatInt(int64((t+unit/2)/unit), 10) + " " + name
}

func two(t, big time.Duration, bigName string, small time.Duration, smallName string) string {
	n := (t + small/2) / small
	per := big / small
	head := strconv.FormatInt(int64(n/per), 10) + " " + bigName
	if n%per == 0 {
		return head
	}
	return head + " " + strconv.FormatInt(int64(n%per), 10) + " " + smallName
}

var durationUnits = map[string]time.Duration{
	// both code points of µ
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "s": time.Second, "sec": time.Second, "m": time.Minute, "min": time.Minute,
	"h": time.Hour, "d": day,
}

// ParseDuration reads "10s", "1.5 min", "3 h 12 min", "250ms"; a bare number is seconds, as for timeout(1).
func ParseDuration(s string) (Duration, error) {
	refused := &Wanted{"duration", quoted(s), "seconds, or a number with a unit such as 250ms, 10s or 1.5min"}
	if len(s) > maxText {
		return 0, refused
	}
	rest, total := strings.TrimSpace(s), new(big.Rat)
	for first := true; rest != "" || first; first = false {
		number, after := splitNumber(rest)
		value, ok := decimal(number)
		name, tail := splitUnit(after)
		unit, known := durationUnits[name]
		if first && name == "" && tail == "" {
			unit, known = time.Second, true
		}
		if !ok || !known {
			return 0, refused
		}
		total.Add(total, value.Mul(value, new(big.Rat).SetInt64(int64(unit))))
		rest = tail
	}
	ns := new(big.Int).Quo(total.Num(), total.Denom())
	if !ns.IsInt64() {
		return 0, fmt.Errorf("duration %s: more than 290 years", quoted(s))
	}
	return Duration(ns.Int64()), nil
}

func splitUnit(s string) (unit, rest string) {
	i := strings.IndexAny(s, "0123456789. ")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// Set and Type make a duration a flag.
func (d *Duration) Set(s string) error {
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

func (d *Duration) Type() string { return "duration" }

// Age says how long before now t was: "12 s ago". After a clock jumped back it says "just now", as for anything younger
// than a second.
func Age(t, now time.Time) string {
	passed := now.Sub(t)
	if passed < time.Second {
		return "just now"
	}
	if passed < time.Minute {
		passed = passed.Truncate(time.Second)
	}
	return Duration(passed).String() + " ago"
}
