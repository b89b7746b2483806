// Package units owns quantities as text, in both directions: sizes, shares, durations, counts and ages. Inside memgauge
// a size is in bytes and a share is a fraction of one; only this package scales them. It imports no package of ours.
package units

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Bytes is a size. Its text has the binary units (KiB = 2^10 and so on).
type Bytes int64

const (
	KiB Bytes = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
	PiB
	EiB
)

var byteUnits = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// maxText is how long a quantity that a user typed may be; the longest sensible one has 30 characters.
const maxText = 64

// String gives three significant digits in the largest unit that leaves at least 1: "1.02 MiB". A size that is a whole
// number of that unit has no decimals, so "16 GiB" is exact and "16.0 GiB" is not.
func (b Bytes) String() string {
	if b < 0 {
		return "-" + magnitude(uint64(-(b+1))+1) // -b would overflow for the smallest one
	}
	return magnitude(uint64(b))
}

func magnitude(n uint64) string {
	unit := 0
	for unit+1 < len(byteUnits) && n>>(10*(unit+1)) > 0 {
		unit++
	}
	for {
		text := inUnit(n, unit)
		if text != "1024" || unit+1 == len(byteUnits) {
			return text + " " + byteUnits[unit]
		}
		unit++ // 1,048,575 bytes round to 1024 KiB; say 1.00 MiB
	}
}

func inUnit(n uint64, unit int) string {
	size := uint64(1) << (10 * unit)
	if n%size == 0 {
		return strconv.FormatUint(n/size, 10)
	}
	value := float64(n) / float64(size)
	switch {
	case value < 9.995:
		return strconv.FormatFloat(value, 'f', 2, 64)
	case value < 99.95:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

// ParseBytes reads "1000", "512M", "2GiB" or "1.5 GiB". Every unit is a power of two, MB and M as well as MiB, as in
// docker and PyTorch's tools. A fraction of a byte is cut off.
func ParseBytes(s string) (Bytes, error) {
	number, unit := splitNumber(s)
	shift, ok := byteShift(unit)
	value, numeric := decimal(number)
	if !ok || !numeric {
		return 0, &Wanted{"size", quoted(s), "a number with a unit, such as 512MiB or 1.5GiB"}
	}
	if unit == "" && !value.IsInt() {
		return 0, fmt.Errorf("size %s: a fraction needs a unit, such as 1.5GiB", quoted(s))
	}
	value.Mul(value, new(big.Rat).SetInt64(1<<shift))
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	if !whole.IsInt64() {
		return 0, fmt.Errorf("size %s: more than 8 EiB", quoted(s))
	}
	return Bytes(whole.Int64()), nil
}

func byteShift(unit string) (int, bool) {
	letter := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(unit), "b"), "i")
	if letter == "" {
		return 0, unit == "" || strings.EqualFold(unit, "b")
	}
	i := strings.Index("kmgtpe", letter)
	if len(letter) != 1 || i < 0 {
		return 0, false
	}
	return 10 * (i + 1), true
}

// Set and Type make a size a flag.
func (b *Bytes) Set(s string) error {
	v, err := ParseBytes(s)
	if err != nil {
		return err
	}
	*b = v
	return nil
}

func (b *Bytes) Type() string { return "size" }

// splitNumber divides "1.5 GiB" into "1.5" and "GiB".
func splitNumber(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	i := 0
	for i < len(s) && (s[i] == '.' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// decimal reads digits with at most one point, exactly: 0.1 GiB must not depend on binary floats.
func decimal(s string) (*big.Rat, bool) {
	if len(s) > maxText || strings.Trim(s, ".") == "" || strings.Count(s, ".") > 1 {
		return nil, false
	}
	return new(big.Rat).SetString(strings.TrimSuffix(s, "."))
}

// quoted shows what a user typed, at a length that fits into a message.
func quoted(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strconv.Quote(s)
}
