// Package jaxprofile reads JAX's own profile of device memory, which jax.profiler.save_device_memory_profile() writes:
// which lines made the buffers that are live, by device. It guarantees that no file makes it panic or take more memory
// than its bound, and knows nothing of sessions.
package jaxprofile

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
)

// maxBytes bounds a profile, unpacked. JAX folds buffers of the same stack into one sample of some hundred bytes, so
// this is a program with 500,000 places that allocate.
const maxBytes int64 = 128 << 20

// maxMade bounds what is made of a profile, in bytes of memory: its parts may be much smaller in the file.
const maxMade int64 = 256 << 20

// ErrOther says that a file is something else.
var ErrOther = errors.New("no memory profile of JAX")

// Frame is a line of a stack.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int64  `json:"line"`
}

// Site is a line of the program's with the live buffers that it made.
type Site struct {
	Frame
	Bytes   int64   `json:"bytes"`
	Buffers int64   `json:"buffers"`
	Callers []Frame `json:"callers"` // the program's own lines that called it in its largest stack, innermost first
	largest int64
}

// Device is one device's live buffers.
type Device struct {
	Name    string `json:"device"` // cpu:0, as JAX says it
	Bytes   int64  `json:"bytes"`
	Buffers int64  `json:"buffers"`
	Sites   []Site `json:"sites"` // largest first
}

// Profile is what a file tells.
type Profile struct {
	Devices     []Device `json:"devices"` // by name
	Executables int64    `json:"executables"`
}

// Is reports whether a file begins like such a profile: with the message that names its values. It reads from r no more
// than that needs.
func Is(r io.Reader) bool {
	in := bufio.NewReader(r)
	if packed, err := in.Peek(2); err == nil && packed[0] == 0x1f && packed[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return false
		}
		in = bufio.NewReader(z)
	}
	// sample_type, a message of two short numbers (profile.proto, ValueType); a pickle begins with 0x80 or a letter, a
	// trace with "{"
	head, err := in.Peek(3)
	return err == nil && head[0] == 1<<3|2 && head[1] <= 20 && head[2] == 1<<3
}

// Read reads a profile, and takes about so many bytes of memory at most.
func Read(r io.Reader, memory int64) (*Profile, error) {
	in := bufio.NewReader(r)
	var from io.Reader = in
	if packed, err := in.Peek(2); err == nil && packed[0] == 0x1f && packed[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		from = z
	}
	most := min(maxBytes, memory/2) // a slice that grows is there twice
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("it has more than %d MiB", most>>20)
	}
	f, err := decode(data, min(maxMade, memory-int64(len(data))))
	if err != nil {
		return nil, err
	}
	return f.profile(data)
}

// sums are devices by name, with their sites by line.
type sums map[string]map[Frame]*Site

// profile sums up samples by device and line.
func (f *file) profile(data []byte) (*Profile, error) {
	count, space := f.value("allocations"), f.value("space")
	if count < 0 || space < 0 {
		return nil, fmt.Errorf("%w: its values are %q", ErrOther, f.values())
	}
	p := &Profile{Devices: []Device{}}
	devices := sums{}
	var s sample
	err := fields(data, func(part field) error {
		if part.number != 2 {
			return nil
		}
		if err := f.sample(part.bytes, &s); err != nil || len(s.values) <= max(count, space) {
			return err
		}
		if s.kind == "executable" {
			return add(&p.Executables, s.values[count])
		}
		return f.add(devices, part.bytes, s.device, s.values[count], s.values[space])
	})
	if err != nil {
		return nil, err
	}
	for name, sites := range devices {
		d, err := device(name, sites)
		if err != nil {
			return nil, err
		}
		p.Devices = append(p.Devices, d)
	}
	order.By(p.Devices, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return p, nil
}

// add counts a sample.
func (f *file) add(devices sums, message []byte, device string, count, space int64) error {
	own, callers, err := f.stack(message)
	if err != nil {
		return err
	}
	sites := devices[device]
	if sites == nil {
		sites = map[Frame]*Site{}
		devices[device] = sites
	}
	site := sites[own]
	if site == nil {
		if err := f.take(costSite); err != nil {
			return err
		}
		site = &Site{Frame: own}
		sites[own] = site
	}
	if space >= site.largest {
		site.largest, site.Callers = space, callers
	}
	return errors.Join(add(&site.Bytes, space), add(&site.Buffers, count))
}

// add adds what is live to a sum. There is no less than nothing of it, and no more than a number can say.
func add(sum *int64, v int64) error {
	if v < 0 || *sum > math.MaxInt64-v {
		return fmt.Errorf("%w: %d and %d of what is live", ErrOther, *sum, v)
	}
	*sum += v
	return nil
}

func device(name string, sites map[Frame]*Site) (Device, error) {
	d := Device{Name: cmp.Or(name, "no device"), Sites: []Site{}}
	for _, s := range sites {
		if err := errors.Join(add(&d.Bytes, s.Bytes), add(&d.Buffers, s.Buffers)); err != nil {
			return d, err
		}
		d.Sites = append(d.Sites, *s)
	}
	order.By(d.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Function, b.Function))
	})
	return d, nil
}

// maxCallers are shown of a stack: the program's own functions nest less deep as a rule.
const maxCallers = 8

// stack gives the program's own line that a sample belongs to, and those that called it. Where a stack has none, it is
// the innermost line of all.
func (f *file) stack(message []byte) (own Frame, callers []Frame, err error) {
	found, first := false, true
	look := func(id uint64) error {
		for _, x := range f.locations[id] {
			if f.looks--; f.looks < 0 {
				return fmt.Errorf("its stacks have more than %d frames", maxLooks)
			}
			switch {
			case x.installed:
				if first && own == (Frame{}) {
					own = x.Frame
				}
			case !found:
				own, found = x.Frame, true
			case len(callers) < maxCallers && x.Frame != own:
				callers = append(callers, x.Frame)
			}
		}
		first = false
		return nil
	}
	err = fields(message, func(x field) error {
		if x.number == 1 {
			return x.numbers(look)
		}
		return nil
	})
	if own == (Frame{}) {
		own.Function = "unknown"
	}
	return own, callers, err
}

// installed says that a file belongs to Python or a library.
func installed(path string) bool {
	for _, part := range []string{"/site-packages/", "/dist-packages/", "/lib/python3", "<frozen "} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return path == ""
}
