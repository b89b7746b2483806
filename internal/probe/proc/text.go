package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Unknown is the value of a size or a count that the kernel does not report.
const Unknown int64 = -1 << 63

// maxText bounds what is read of a file of small numbers. The longest is status, with a line of supplementary groups:
// 65,536 of them at worst. For 1,000 groups, the lines that we read are within the first 16 KiB.
const maxText = 64 << 10

// readText reads a small file of /proc, /sys or a cgroup completely. It reads until the end, since the kernel returns
// some of these files in pieces of a page.
func readText(path string, buf []byte) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= maxText {
				return buf, nil
			}
			buf = append(buf, make([]byte, max(len(buf), 4096))...)[:len(buf)]
		}
		n, err := file.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err // os names the operation and the path
		}
	}
}

// eachKey calls f for every line "key: number unit" or "key number", with the number in bytes where the unit is kB.
// Lines of another form are skipped: newer kernels add some.
func eachKey(text []byte, f func(key []byte, n int64)) {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		i := bytes.IndexAny(line, ": \t")
		if i <= 0 {
			continue
		}
		key, rest := line[:i], bytes.TrimLeft(line[i:], ": \t")
		if n, ok := leadingNumber(rest); ok {
			f(key, n)
		}
	}
}

// leadingNumber reads "123" or "123 kB"; a number that does not fit into an int64 is none.
func leadingNumber(text []byte) (int64, bool) {
	var n int64
	i := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		if n > (1<<63-1-9)/10 {
			return 0, false
		}
		n = 10*n + int64(text[i]-'0')
	}
	if i == 0 {
		return 0, false
	}
	switch rest := bytes.TrimSpace(text[i:]); {
	case len(rest) == 0:
		return n, true
	case string(rest) == "kB":
		if n > (1<<63-1)>>10 {
			return 0, false
		}
		return n << 10, true
	}
	return 0, false
}

// pick fills numbers by key, leaves Unknown where there is no such line, and returns how many it found.
func pick(text []byte, into map[string]*int64) (found int) {
	for _, p := range into {
		*p = Unknown
	}
	eachKey(text, func(key []byte, n int64) {
		if p := into[string(key)]; p != nil {
			if *p == Unknown {
				found++
			}
			*p = n
		}
	})
	return found
}

// readNumber reads a file with one number. "max" and numbers above limit are Unknown, without an error.
func readNumber(path string, limit int64) (int64, error) {
	var buf [64]byte
	text, err := readText(path, buf[:0])
	if err != nil {
		return Unknown, err
	}
	text = bytes.TrimSpace(text)
	if string(text) == "max" {
		return Unknown, nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return Unknown, fmt.Errorf("read %s: %w: %.40q", path, ErrMalformed, text)
	}
	if n > uint64(limit) {
		return Unknown, nil
	}
	return int64(n), nil
}

// Pressure is /proc/pressure/memory or a cgroup's memory.pressure: Documentation/accounting/psi.rst.
type Pressure struct {
	Known                bool
	SomeAvg10, FullAvg10 float64 // % of the last 10 s
	SomeUS, FullUS       int64   // µs since boot, or since the cgroup was made
}

// ReadPressure reads a PSI file; a kernel without PSI has none (Known is false).
func ReadPressure(path string) Pressure {
	var buf [512]byte
	text, err := readText(path, buf[:0])
	if err != nil {
		return Pressure{}
	}
	return parsePressure(text)
}

func parsePressure(text []byte) (p Pressure) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		avg, total := 0.0, int64(0)
		for _, f := range fields[1:] {
			key, value, _ := bytes.Cut(f, []byte("="))
			switch string(key) {
			case "avg10":
				avg, _ = strconv.ParseFloat(string(value), 64)
			case "total":
				total, _ = strconv.ParseInt(string(value), 10, 64)
			}
		}
		switch string(fields[0]) {
		case "some":
			p.Known, p.SomeAvg10, p.SomeUS = true, avg, total
		case "full":
			p.Known, p.FullAvg10, p.FullUS = true, avg, total
		}
	}
	return p
}
