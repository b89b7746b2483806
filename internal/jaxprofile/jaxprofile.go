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
	"slices"
	"strings"
)

// maxBytes bounds a profile, unpacked. JAX folds buffers of the same stack into one sample of some hundred bytes, so
// this is a program with 500,000 places that allocate.
const maxBytes = 128 << 20

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

// Read reads a profile.
func Read(r io.Reader) (*Profile, error) {
	in := bufio.NewReader(r)
	var from io.Reader = in
	if packed, err := in.Peek(2); err == nil && packed[0] == 0x1f && packed[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		from = z
	}
	data, err := io.ReadAll(io.LimitReader(from, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("it has more than %d MiB", maxBytes>>20)
	}
	f, err := decode(data)
	if err != nil {
		return nil, err
	}
	return f.profile()
}

// profile sums up samples by device and line.
func (f *file) profile() (*Profile, error) {
	count, space := f.value("allocations"), f.value("space")
	if count < 0 || space < 0 {
		return nil, fmt.Errorf("%w: its values are %q", ErrOther, f.values())
	}
	p := &Profile{Devices: []Device{}}
	devices := map[string]map[Frame]*Site{}
	for _, s := range f.samples {
		if count >= len(s.values) || space >= len(s.values) {
			continue
		}
		device, kind := f.label(s, "device"), f.label(s, "kind")
		if kind == "executable" {
			p.Executables += s.values[count]
			continue
		}
		sites := devices[device]
		if sites == nil {
			sites = map[Frame]*Site{}
			devices[device] = sites
		}
		own, callers := f.stack(s)
		site := sites[own]
		if site == nil {
			site = &Site{Frame: own}
			sites[own] = site
		}
		site.Bytes += s.values[space]
		site.Buffers += s.values[count]
		if s.values[space] >= site.largest {
			site.largest, site.Callers = s.values[space], callers
		}
	}
	for name, sites := range devices {
		p.Devices = append(p.Devices, device(name, sites))
	}
	slices.SortFunc(p.Devices, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return p, nil
}

func device(name string, sites map[Frame]*Site) Device {
	d := Device{Name: cmp.Or(name, "no device"), Sites: []Site{}}
	for _, s := range sites {
		d.Bytes += s.Bytes
		d.Buffers += s.Buffers
		d.Sites = append(d.Sites, *s)
	}
	slices.SortFunc(d.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Function, b.Function))
	})
	return d
}

// maxCallers are shown of a stack: the program's own functions nest less deep as a rule.
const maxCallers = 8

// stack gives the program's own line that a sample belongs to, and those that called it. Where a stack has none, it is
// the innermost line of all.
func (f *file) stack(s sample) (own Frame, callers []Frame) {
	found := false
	for i, id := range s.locations {
		for _, frame := range f.locations[id] {
			switch {
			case installed(frame.File):
				if i == 0 && own == (Frame{}) {
					own = frame
				}
			case !found:
				own, found = frame, true
			case len(callers) < maxCallers && frame != own:
				callers = append(callers, frame)
			}
		}
	}
	if own == (Frame{}) {
		own.Function = "unknown"
	}
	return own, callers
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
