package jaxprofile

import (
	"encoding/binary"
	"fmt"
)

// This file reads pprof's profile.proto itself: at every start of the program, pprof's Go package would compile a dozen
// patterns for formats that we never read (internal/flame has the same reason to write it itself). Field numbers:
// https://github.com/google/pprof/blob/main/proto/profile.proto

type sample struct {
	locations []uint64 // innermost first
	values    []int64
	labels    [][2]uint64 // numbers of texts: key, value
}

type function struct{ name, file uint64 }

// file is a profile as it is written; names are numbers of texts.
type file struct {
	types     []uint64
	samples   []sample
	raw       map[uint64][][2]uint64 // location -> (function, line), innermost first
	functions map[uint64]function
	texts     []string
	locations map[uint64][]Frame
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
			return fmt.Errorf("%w: byte %d is no field", ErrOther, at)
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
			return fmt.Errorf("%w: byte %d is no field", ErrOther, at)
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

// numbers are those of a repeated field, packed or one by one.
func (f field) numbers(list []uint64) []uint64 {
	if f.bytes == nil {
		return append(list, f.value)
	}
	for b := f.bytes; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		list, b = append(list, v), b[n:]
	}
	return list
}

func decode(data []byte) (*file, error) {
	f := &file{raw: map[uint64][][2]uint64{}, functions: map[uint64]function{}, locations: map[uint64][]Frame{}}
	err := fields(data, func(part field) error {
		switch part.number {
		case 1:
			return fields(part.bytes, func(x field) error {
				if x.number == 1 {
					f.types = append(f.types, x.value)
				}
				return nil
			})
		case 2:
			return f.sample(part.bytes)
		case 4:
			return f.location(part.bytes)
		case 5:
			return f.function(part.bytes)
		case 6:
			f.texts = append(f.texts, string(part.bytes))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id, lines := range f.raw {
		for _, line := range lines {
			of := f.functions[line[0]]
			f.locations[id] = append(f.locations[id], Frame{f.text(of.name), f.text(of.file), int64(line[1])})
		}
	}
	return f, nil
}

func (f *file) sample(message []byte) error {
	var s sample
	err := fields(message, func(x field) error {
		switch x.number {
		case 1:
			s.locations = x.numbers(s.locations)
		case 2:
			for _, v := range x.numbers(nil) {
				s.values = append(s.values, int64(v))
			}
		case 3:
			var label [2]uint64
			err := fields(x.bytes, func(y field) error {
				if y.number == 1 || y.number == 2 {
					label[y.number-1] = y.value
				}
				return nil
			})
			s.labels = append(s.labels, label)
			return err
		}
		return nil
	})
	f.samples = append(f.samples, s)
	return err
}

func (f *file) location(message []byte) error {
	var id uint64
	var lines [][2]uint64
	err := fields(message, func(x field) error {
		switch x.number {
		case 1:
			id = x.value
		case 4:
			var line [2]uint64
			err := fields(x.bytes, func(y field) error {
				if y.number == 1 || y.number == 2 {
					line[y.number-1] = y.value
				}
				return nil
			})
			lines = append(lines, line)
			return err
		}
		return nil
	})
	f.raw[id] = lines
	return err
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
	return err
}

func (f *file) text(number uint64) string {
	if number < uint64(len(f.texts)) {
		return f.texts[number]
	}
	return ""
}

// value is the place of a kind of value in each sample, -1 for none.
func (f *file) value(name string) int {
	for i, number := range f.types {
		if f.text(number) == name {
			return i
		}
	}
	return -1
}

func (f *file) values() (names []string) {
	for _, number := range f.types {
		names = append(names, f.text(number))
	}
	return names
}

func (f *file) label(s sample, key string) string {
	for _, label := range s.labels {
		if f.text(label[0]) == key {
			return f.text(label[1])
		}
	}
	return ""
}
