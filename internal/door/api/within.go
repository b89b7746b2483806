package api

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Bounds of an answer that is one document. Whoever answers may be a stranger's node. Variables for tests.
var (
	// maxReply bounds its bytes: the blocks of an allocator with a million of them have some 50 MiB, a leak's report of
	// 4,096 processes 4 MiB.
	maxReply int64 = 128 << 20
	// maxMade bounds the memory that is made of it. Honest documents take about what they have; `[1,1,1]` for a list
	// of what has 500 bytes each takes 250 times that, though it is none.
	maxMade int64 = 512 << 20
)

// ErrLarge is an answer that is larger than any session's.
var ErrLarge = errors.New("the answer is larger than that of any session")

// readWithin reads a document, in the context's room.
func readWithin(ctx context.Context, from io.Reader, into any) error {
	room := RoomOf(ctx)
	in := &taking{Reader: io.LimitReader(from, maxReply+1), room: room}
	defer func() { room.Give(in.taken) }()
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if int64(len(text)) > maxReply {
		return fmt.Errorf("%w: more than %d bytes", ErrLarge, maxReply)
	}
	return room.Unmarshal(text, into, maxMade)
}

// frameReader reads the frames of a stream.
type frameReader struct {
	left *io.LimitedReader
	dec  *json.Decoder
}

func newFrameReader(from io.Reader) *frameReader {
	left := &io.LimitedReader{R: from}
	return &frameReader{left, json.NewDecoder(left)}
}

// next reads one, with the bounds of a document.
func (s *frameReader) next(f *frame) error {
	s.left.N = maxReply
	var text json.RawMessage
	if err := s.dec.Decode(&text); err != nil {
		if s.left.N <= 0 {
			return fmt.Errorf("%w: more than %d bytes", ErrLarge, maxReply)
		}
		return err
	}
	_, err := Unmarshal(text, f, maxMade)
	return err
}

// Unmarshal is that of encoding/json for a text of a stranger's: nothing is made of one that would take more memory
// than most, in bytes. It says how much.
func Unmarshal(text []byte, into any, most int64) (made int64, err error) {
	w := &walk{dec: json.NewDecoder(bytes.NewReader(text)), most: most,
		fields: map[reflect.Type]map[string]reflect.Type{}}
	w.dec.UseNumber()
	if err := w.value(reflect.TypeOf(into).Elem()); err != nil {
		return w.made, err
	}
	return w.made, json.Unmarshal(text, into)
}

// walk adds up what a text would become.
type walk struct {
	dec        *json.Decoder
	made, most int64
	fields     map[reflect.Type]map[string]reflect.Type // of structs, by their names in lower case
}

var (
	ofAny     = reflect.TypeFor[any]()
	reader    = reflect.TypeFor[json.Unmarshaler]()
	ofText    = reflect.TypeFor[encoding.TextUnmarshaler]()
	errTokens = errors.New("no JSON")
)

// anyCost is what encoding/json takes for a value of any type, beside its bytes: the interface, and a map's or a list's
// own.
const anyCost = 64

func (w *walk) add(n int64) error {
	if w.made += n; w.made > w.most {
		return fmt.Errorf("%w: it would take more than %d bytes", ErrLarge, w.most)
	}
	return nil
}

// value walks through a value for a type.
func (w *walk) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		if err := w.add(int64(t.Size())); err != nil {
			return err
		}
	}
	if p := reflect.PointerTo(t); p.Implements(reader) || p.Implements(ofText) {
		t = ofAny // it reads the text itself, and makes no more of it
	}
	token, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case string:
		return w.add(int64(len(token)))
	case json.Delim:
		if token == '[' {
			return w.list(t)
		}
		return w.object(t)
	}
	return nil
}

func (w *walk) list(t reflect.Type) error {
	elem, size := ofAny, int64(anyCost)
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		elem, size = t.Elem(), int64(t.Elem().Size())
	}
	for w.dec.More() {
		if err := w.add(size); err != nil {
			return err
		}
		if err := w.value(elem); err != nil {
			return err
		}
	}
	return w.end()
}

func (w *walk) object(t reflect.Type) error {
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return errTokens
		}
		of, size := ofAny, int64(anyCost+len(name))
		switch t.Kind() {
		case reflect.Struct: // the struct has its own room
			of, size = w.field(t, name), 0
		case reflect.Map:
			of, size = t.Elem(), int64(t.Key().Size())+int64(t.Elem().Size())+int64(len(name))
		}
		if err := w.add(size); err != nil {
			return err
		}
		if err := w.value(of); err != nil {
			return err
		}
	}
	return w.end()
}

// end takes the closing bracket.
func (w *walk) end() error {
	_, err := w.dec.Token()
	return err
}

// field is the type of a struct's member; any for one that it does not have, whose value is skipped.
func (w *walk) field(t reflect.Type, name string) reflect.Type {
	known := w.fields[t]
	if known == nil {
		known = map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			said, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if said == "" {
				said = f.Name
			}
			known[strings.ToLower(said)] = f.Type
		}
		w.fields[t] = known
	}
	if of := known[strings.ToLower(name)]; of != nil {
		return of
	}
	return ofAny
}
