package jaxprofile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// This file reads pprof's profile.proto itself: at every start of the program, pprof's Go package would compile a dozen
// patterns for formats that we never read (package flame has the same reason to write it itself). Field numbers:
// https://github.com/google/pprof/blob/main/proto/profile.proto

type function struct{ name, file uint64 }

// frame is a line of a stack.
type frame struct {
	Frame
	installed bool
}

// file is a profile as it is written; names are numbers of texts.
type file struct {
	types     []uint64
	raw       map[uint64][][2]uint64 // location -> (function, line), innermost first
	functions map[uint64]function
	texts     []string
	locations map[uint64][]frame
	left      int64 // bytes of memory that may still be taken
	looks     int64 // frames that may still be looked at
}

// What parts of a profile take of memory, in bytes: the shortest part has two bytes in the file.
const (
	costText  = 16
	costLine  = 16 + 64 // as read, and as a frame
	costEntry = 96      // of a map
	costSite  = 512
	maxText   = 4 << 10 // longer ones are cut: no path has more
	maxLooks  = 1 << 28 // half a million stacks of 500 frames
)

// take counts memory.
func (f *file) take(bytes int64) error {
	if f.left -= bytes; f.left < 0 {
		return errors.New("reading it would take too much memory")
	}
	return nil
}

// field is one field of a message: a number, or bytes.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

// fields calls each with the fields of a message.
func fields(message []byte, each func(field) error) error {
	for at := 0; at < len(message); {
		tag, n := binary.Uvarint(message[at:])
		if n <= 0 {
			return fmt.Errorf("%w: byte %d is not a field", ErrOther, at)
		}
		at += n
		f := field{number: int(tag >> 3 & 0xFFFF)}
		var size int
		switch tag & 7 {
		case 0:
			if f.value, size = binary.Uvarint(message[at:]); size <= 0 {
				return fmt.Errorf("%w: cut short", ErrOther)
			}
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			length, n := binary.Uvarint(message[at:])
			if n <= 0 || length > uint64(len(message)-at-n) {
				return fmt.Errorf("%w: cut short", ErrOther)
			}
			f.bytes = message[at+n : at+n+int(length)]
			size = n + int(length)
		default:
			return fmt.Errorf("%w: byte %d is not a field", ErrOther, at)
		}
		if at += size; at > len(message) {
			return fmt.Errorf("%w: cut short", ErrOther)
		}
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

// numbers calls each with those of a repeated field, packed or one by one.
func (f field) numbers(each func(uint64) error) error {
	if f.bytes == nil {
		return each(f.value)
	}
	for b := f.bytes; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		if err := each(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// pair are fields 1 and 2 of a message, which are numbers.
func pair(message []byte) (p [2]uint64, err error) {
	err = fields(message, func(x field) error {
		if x.number == 1 || x.number == 2 {
			p[x.number-1] = x.value
		}
		return nil
	})
	return p, err
}

// decode reads all but the samples, which may stand before the names that they mean, and may be many.
func decode(data []byte, memory int64) (*file, error) {
	f := &file{raw: map[uint64][][2]uint64{}, functions: map[uint64]function{}, locations: map[uint64][]frame{},
		left: memory, looks: maxLooks}
	err := fields(data, func(part field) error {
		switch part.number {
		case 1:
			p, err := pair(part.bytes)
			f.types = append(f.types, p[0])
			return errors.Join(err, f.take(costText))
		case 4:
			return f.location(part.bytes)
		case 5:
			return f.function(part.bytes)
		case 6:
			text := part.bytes[:min(len(part.bytes), maxText)]
			f.texts = append(f.texts, string(text))
			return f.take(costText + int64(len(text)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id, lines := range f.raw {
		for _, line := range lines {
			of := f.functions[line[0]]
			path := f.text(of.file)
			f.locations[id] = append(f.locations[id],
				frame{Frame{f.text(of.name), path, int64(line[1])}, installed(path)})
		}
	}
	return f, nil
}

// sample is what a sample says, but for its stack.
type sample struct {
	values       []int64
	device, kind string
}

// maxValues are kept of a sample: JAX's have two.
const maxValues = 16

// sample reads one into s.
func (f *file) sample(message []byte, s *sample) error {
	*s = sample{values: s.values[:0]}
	return fields(message, func(x field) error {
		switch x.number {
		case 2:
			return x.numbers(func(v uint64) error {
				if len(s.values) < maxValues {
					s.values = append(s.values, int64(v))
				}
				return nil
			})
		case 3:
			label, err := pair(x.bytes)
			switch f.text(label[0]) {
			case "device":
				s.device = f.text(label[1])
			case "kind":
				s.kind = f.text(label[1])
			}
			return err
		}
		return nil
	})
}

func (f *file) location(message []byte) error {
	var id uint64
	var lines [][2]uint64
	err := fields(message, func(x field) error {
		switch x.number {
		case 1:
			id = x.value
		case 4:
			line, err := pair(x.bytes)
			lines = append(lines, line)
			return errors.Join(err, f.take(costLine))
		}
		return nil
	})
	f.raw[id] = lines
	return errors.Join(err, f.take(costEntry))
}

func (f *file) function(message []byte) error {
	var id uint64
	var made function
	err := fields(message, func(x field) error {
		switch x.number {
		case 1:
			id = x.value
		case 2:
			made.name = x.value
		case 4:
			made.file = x.value
		}
		return nil
	})
	f.functions[id] = made
	return errors.Join(err, f.take(costEntry))
}

func (f *file) text(number uint64) string {
	if number < uint64(len(f.texts)) {
		return f.texts[number]
	}
	return ""
}

// value is the place of a kind of value in each sample, -1 for none.
func (f *file) value(name string) int {
	for i, number := range f.types[:min(len(f.types), maxValues)] {
		if f.text(number) == name {
			return i
		}
	}
	return -1
}

func (f *file) values() (names []string) {
	for _, number := range f.types[:min(len(f.types), maxValues)] {
		names = append(names, f.text(number))
	}
	return names
}
