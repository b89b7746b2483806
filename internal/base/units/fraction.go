package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Fraction is a share of one, from 0 to 1.
type Fraction float64

// String formats it in percent: "1%", "0.5%".
func (f Fraction) String() string {
	// Nine significant digits hide that 0.07*100 is 7.000000000000001 in binary.
	percent, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f)*100, 'g', 9, 64), 64)
	return strconv.FormatFloat(percent, 'f', -1, 64) + "%"
}

// ParseFraction reads "1%", "0.5 %" or "0.01".
func ParseFraction(s string) (Fraction, error) {
	number, unit := splitNumber(s)
	value, ok := decimal(number)
	if !ok || unit != "" && unit != "%" {
		return 0, &Wanted{"share", quoted(s), "a percentage such as 1% or a fraction such as 0.01"}
	}
	f, _ := value.Float64()
	if unit == "%" {
		f /= 100
	}
	if f > 1 {
		return 0, fmt.Errorf("share %s: more than the whole; write 1%% for a hundredth", quoted(s))
	}
	return Fraction(f), nil
}

// Set and Type make a share a flag.
func (f *Fraction) Set(s string) error {
	v, err := ParseFraction(s)
	if err != nil {
		return err
	}
	*f = v
	return nil
}

func (f *Fraction) Type() string { return "share" }

// Count formats with thousands separators: 1,204.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
