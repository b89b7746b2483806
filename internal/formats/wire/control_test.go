package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestFrameRoundTrip(t *testing.T) {
	var b bytes.Buffer
	sent := []Frame{
		{FramePing, nil},
		{FrameEval, AppendEval(nil, Eval{Timeout: 10 * time.Second, Code: "print('ж')"})},
		{FrameType(999), []byte("from a newer minor version")},
		{FrameValue, bytes.Repeat([]byte("x"), MaxFrame)},
	}
	for _, f := range sent {
		if err := WriteFrame(&b, f.Type, f.Payload); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range sent {
		got, err := ReadFrame(&b)
		if err != nil || got.Type != want.Type || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("read %s of %d bytes, %v; want %s of %d", got.Type, len(got.Payload), err, want.Type,
				len(want.Payload))
		}
	}
	if _, err := ReadFrame(&b); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestEvalBytes(t *testing.T) {
	e := Eval{Timeout: 1500 * time.Millisecond, Code: "x", Place: PlaceStep, Own: true}
	if got, want := AppendEval(nil, e), "\x00\x00\x00\x00\x00\x00\xf8\x3fx"; string(got) != want {
		t.Errorf("eval payload %q, want %q", got, want)
	}
	if got, want := AppendEvalAt(nil, e), "\x01\x01\x00\x00\x00\x00\x00\x00\xf8\x3fx"; string(got) != want {
		t.Errorf("eval at payload %q, want %q", got, want)
	}
}

func TestParsePlace(t *testing.T) {
	if p, text, err := ParsePlace([]byte("\x02f() (a.py:3)")); p != PlaceIdle || text != "f() (a.py:3)" || err != nil {
		t.Errorf("%v, %q, %v", p, text, err)
	}
	if _, _, err := ParsePlace(nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an empty place: %v", err)
	}
}

func TestFrameLimits(t *testing.T) {
	if err := WriteFrame(io.Discard, FrameEval, make([]byte, MaxFrame+1)); err == nil {
		t.Error("a frame above the limit was written")
	}
	check := func(in, want string, target error) {
		t.Helper()
		_, err := ReadFrame(strings.NewReader(in))
		if err == nil || !errors.Is(err, target) || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadFrame(%q) = %v, want %q and %v", in, err, want, target)
		}
	}
	check("\x01\x00\x10\x00\x42\x00\x00\x00", "value frame of 1048577 bytes", ErrCorrupt)
	check("\x00\x00\x00\x00\x42\x00\x01\x00", "bytes 6 and 7", ErrCorrupt)
	check("\x05\x00\x00\x00\x42\x00\x00\x00abc", "value frame of 5 bytes", io.ErrUnexpectedEOF)
	check("\x05\x00", "read frame", io.ErrUnexpectedEOF)
}

func TestHello(t *testing.T) {
	h := Hello{ControlMajor, 7, 4711, "abc"}
	got, err := ParseHello(AppendHello(nil, h))
	if err != nil || got != h {
		t.Errorf("hello of a newer minor version: %+v, %v; want %+v", got, err, h)
	}
	_, err = ParseHello(AppendHello(nil, Hello{Major: ControlMajor + 1}))
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "control format 2.0") {
		t.Errorf("hello of a newer major version: %v", err)
	}
	if _, err = ParseHello([]byte("short")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("short hello: %v", err)
	}
}

func TestDone(t *testing.T) {
	d := Done{OutcomeTimeout, 3 * time.Second}
	if got, err := ParseDone(AppendDone(nil, d)); err != nil || got != d {
		t.Errorf("done: %+v, %v; want %+v", got, err, d)
	}
	for _, bad := range [][]byte{nil, make([]byte, 8), append([]byte{5}, make([]byte, 8)...)} {
		if _, err := ParseDone(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("ParseDone(%v) = %v", bad, err)
		}
	}
}

// FuzzReadFrame: no panic, no memory beyond a frame, a frame or an error, and what was read is written back the same.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03\x00\x00\x00"))
	f.Add([]byte("\x09\x00\x00\x00\x44\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08"))
	f.Add([]byte("\xff\xff\xff\xff\x44\x00\x00\x00"))
	f.Add([]byte("\x0b\x00\x00\x00\x40\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00abc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := ReadFrame(bytes.NewReader(data))
		if err != nil {
			if frame.Payload != nil {
				t.Fatal("a payload and an error")
			}
			return
		}
		var again bytes.Buffer
		if err := WriteFrame(&again, frame.Type, frame.Payload); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, again.Bytes()) {
			t.Fatalf("read %q, written back %q", data, again.Bytes())
		}
		parse(frame)
	})
}

func parse(f Frame) {
	switch f.Type {
	case FrameHello:
		_, _ = ParseHello(f.Payload)
	case FrameOutput:
		_, _, _ = ParseOutput(f.Payload)
	case FrameDone:
		_, _ = ParseDone(f.Payload)
	}
	_ = f.Type.String()
}
