package model

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Finding is the verdict on one memory of one process, in the one form in which it is stored (a row of
// memgauge.findings), told as JSON and read back from either. Sizes are bytes. What is not known is "", -1 of a rank,
// Null of a count, and NaN of a number with a fraction: NULL in the table, null in JSON. Members with table:"-" are
// told when it is judged, and not stored.
type Finding struct {
	Time      int64   `json:"-"` // µs since the epoch
	Judgement int64   `json:"-"` // number of the judging in its session, from 1; its rows stand together
	Run       string  `json:"-"` // verdict on the whole run
	Verdict   string  `json:"verdict"`
	Class     Text    `json:"class"`
	Memory    string  `json:"memory"`
	Name      string  `json:"name" table:"-"` // the memory in words: "cuda:0 of rank 3"
	Device    Text    `json:"device"`         // cuda:0; "" for the host
	PID       int32   `json:"pid"`
	Rank      Rank    `json:"rank"`
	Worker    bool    `json:"-"`
	Rate      MB      `json:"-"` // a step, or a second with ByTime
	PerStep   MB      `json:"rate_mb_per_step" table:"-"`
	PerSecond MB      `json:"rate_mb_per_second" table:"-"` // with steps: at the late pace
	Low       MB      `json:"rate_low"`
	High      MB      `json:"rate_high"`
	ByTime    bool    `json:"by_time"`        // there were no steps: rates and steps are by second
	Unit      string  `json:"unit"`           // step, second, request …: what rates are by, and start and end count
	Load      Text    `json:"load" table:"-"` // of a server: what it was judged at
	Start     Count   `json:"start_step"`
	End       int64   `json:"end_step"`
	Grown     int64   `json:"growth_bytes"`
	Noise     float64 `json:"-"`
	Site      Text    `json:"site"`
	Lines     int     `json:"site_lines" table:"-"` // that Site was chosen among, else 0
	Holder    Text    `json:"holder"`
	Held      Text    `json:"held"`
	Reason    string  `json:"reason"`
	Missing   Text    `json:"missing" table:"-"`
	Readings  int64   `json:"readings"`
	P         Chance  `json:"p"`
	Evidence  Lines   `json:"evidence"`
	Advice    Lines   `json:"advice"`
	Seconds   Seconds `json:"time_to_limit_seconds"`
	Soonest   Seconds `json:"time_to_limit_low"`
	Latest    Seconds `json:"time_to_limit_high"`
	Limit     Text    `json:"limit"`
	LimitStep Count   `json:"limit_step" table:"-"`
	LimitMet  bool    `json:"limit_met" table:"-"`
	Ended     bool    `json:"ended" table:"-"`
}

// Text is a text of which "" is not known.
type Text string

// MarshalJSON writes "" as null.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

// Rank is a rank in a distributed job; -1 is not known.
type Rank int32

// MarshalJSON writes -1 as null.
func (r Rank) MarshalJSON() ([]byte, error) { return integer(int64(r), -1), nil }

// UnmarshalJSON reads null as -1.
func (r *Rank) UnmarshalJSON(text []byte) error {
	n, err := integerOf(text, -1)
	*r = Rank(n)
	return err
}

// Count is a number of which Null is not known.
type Count int64

// MarshalJSON writes Null as null.
func (c Count) MarshalJSON() ([]byte, error) { return integer(int64(c), Null), nil }

// UnmarshalJSON reads null as Null.
func (c *Count) UnmarshalJSON(text []byte) error {
	n, err := integerOf(text, Null)
	*c = Count(n)
	return err
}

// MB is bytes that JSON tells in MB of 2^20 bytes, with four significant figures.
type MB float64

// MarshalJSON writes 0, which says nothing of a rate, as null too.
func (b MB) MarshalJSON() ([]byte, error) { return figures(float64(b)/(1<<20), 4, b != 0), nil }

// UnmarshalJSON reads null as NaN.
func (b *MB) UnmarshalJSON(text []byte) error {
	f, err := float(text)
	*b = MB(f * (1 << 20))
	return err
}

// Seconds is a time that JSON tells with three significant figures; only what is above 0 is known.
type Seconds float64

// MarshalJSON writes what is not above 0 as null.
func (s Seconds) MarshalJSON() ([]byte, error) { return figures(float64(s), 3, s > 0), nil }

// UnmarshalJSON reads null as NaN.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	f, err := float(text)
	*s = Seconds(f)
	return err
}

// Chance is a probability that JSON tells with one significant figure.
type Chance float64

// MarshalJSON writes NaN as null.
func (c Chance) MarshalJSON() ([]byte, error) { return figures(float64(c), 1, true), nil }

// UnmarshalJSON reads null as NaN.
func (c *Chance) UnmarshalJSON(text []byte) error {
	f, err := float(text)
	*c = Chance(f)
	return err
}

// Lines are texts that a column holds as one, and JSON as an array.
type Lines string

// List are the lines; never nil.
func (l Lines) List() []string {
	if l == "" {
		return []string{}
	}
	return strings.Split(string(l), "\n")
}

// MarshalJSON writes an array.
func (l Lines) MarshalJSON() ([]byte, error) { return json.Marshal(l.List()) }

// UnmarshalJSON reads an array, or a column's text.
func (l *Lines) UnmarshalJSON(text []byte) error {
	var list []string
	if json.Unmarshal(text, &list) == nil {
		*l = Lines(strings.Join(list, "\n"))
		return nil
	}
	return json.Unmarshal(text, (*string)(l))
}

func integer(n, null int64) []byte {
	if n == null {
		return []byte("null")
	}
	return strconv.AppendInt(nil, n, 10)
}

func integerOf(text []byte, null int64) (int64, error) {
	if string(text) == "null" {
		return null, nil
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// figures rounds to so many significant digits: further ones would not be accurate.
func figures(x float64, digits int, known bool) []byte {
	if !known || math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null")
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64) // its own text is a number
	text, _ := json.Marshal(rounded)                                              // and a finite one
	return text
}

func float(text []byte) (float64, error) {
	if string(text) == "null" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(string(text), 64)
}
