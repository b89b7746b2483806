package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Version of the control socket's frames (docs/formats/control.md). A client understands every minor version of its
// major one.
const (
	ControlMajor = 1
	ControlMinor = 2
)

const (
	frameHead = 8
	// MaxFrame bounds a frame's payload in bytes: the longest code and the longest value.
	MaxFrame = 1 << 20
)

// FrameType is the kind of a frame.
type FrameType uint16

// The frames of a client, then those of an agent.
const (
	FrameEval      FrameType = 1
	FrameInterrupt FrameType = 2
	FramePing      FrameType = 3
	FrameDetach    FrameType = 4
	FrameSettings  FrameType = 5
	FrameBacktrace FrameType = 6
	FrameCensus    FrameType = 7
	FrameEvalAt    FrameType = 8 // since 1.2

	FrameHello     FrameType = 64
	FrameOutput    FrameType = 65
	FrameValue     FrameType = 66
	FrameException FrameType = 67
	FrameDone      FrameType = 68
	FramePong      FrameType = 69
	FrameError     FrameType = 70
	FrameOK        FrameType = 71
	FrameStacks    FrameType = 72
	FrameCounted   FrameType = 73
	FramePlace     FrameType = 74 // since 1.2
)

var frameNames = map[FrameType]string{
	FrameEval: "eval", FrameEvalAt: "eval at", FramePlace: "place", FrameInterrupt: "interrupt", FramePing: "ping",
	FrameDetach: "detach", FrameSettings: "settings", FrameBacktrace: "backtrace", FrameStacks: "stacks",
	FrameHello: "hello", FrameOutput: "output", FrameValue: "value", FrameException: "exception", FrameDone: "done",
	FramePong: "pong", FrameError: "error", FrameOK: "ok", FrameCensus: "census", FrameCounted: "counted",
}

func (t FrameType) String() string {
	if name, ok := frameNames[t]; ok {
		return name
	}
	return fmt.Sprintf("frame type %d", uint16(t))
}

// Streams of an Output frame.
const (
	StreamStdout = 1
	StreamStderr = 2
)

// Outcome is how code ended.
type Outcome uint8

// The outcomes of a Done frame.
const (
	OutcomeFine        Outcome = 0
	OutcomeException   Outcome = 1
	OutcomeTimeout     Outcome = 2
	OutcomeInterrupted Outcome = 3
	OutcomeGoesOn      Outcome = 4 // blocked outside Python, or it ignores interruptions
)

var outcomeNames = []string{"ok", "exception", "timeout", "interrupted", "blocked"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Frame is one message on a control socket.
type Frame struct {
	Type    FrameType
	Payload []byte
}

// WriteFrame writes a frame in one Write.
func WriteFrame(w io.Writer, t FrameType, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("write %s frame: %d bytes, at most %d", t, len(payload), MaxFrame)
	}
	b := make([]byte, frameHead, frameHead+len(payload))
	le.PutUint32(b, uint32(len(payload)))
	le.PutUint16(b[4:], uint16(t))
	if _, err := w.Write(append(b, payload...)); err != nil {
		return fmt.Errorf("write %s frame: %w", t, err)
	}
	return nil
}

// ReadFrame reads a frame. It returns io.EOF if the stream ends between two frames, and ErrCorrupt for bytes that no
// agent sends. It allocates at most MaxFrame bytes, whatever length the frame claims.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("read frame: %w", err)
	}
	n := le.Uint32(head[:])
	f := Frame{Type: FrameType(le.Uint16(head[4:]))}
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: %s frame of %d bytes, at most %d", ErrCorrupt, f.Type, n, MaxFrame)
	}
	if le.Uint16(head[6:]) != 0 {
		return Frame{}, fmt.Errorf("%w: %s frame: bytes 6 and 7 are not 0", ErrCorrupt, f.Type)
	}
	f.Payload = make([]byte, n)
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, fmt.Errorf("read %s frame of %d bytes: %w", f.Type, n, err)
	}
	return f, nil
}

// Hello is the first frame of an agent.
type Hello struct {
	Major, Minor uint16
	PID          uint32 // as the agent's process sees itself
	Agent        string // content hash
}

// AppendHello is the payload of a Hello frame.
func AppendHello(b []byte, h Hello) []byte {
	b = le.AppendUint16(b, h.Major)
	b = le.AppendUint16(b, h.Minor)
	b = le.AppendUint32(b, h.PID)
	return append(b, h.Agent...)
}

// ParseHello reads a Hello frame's payload; a newer major version is ErrVersion.
func ParseHello(p []byte) (Hello, error) {
	if len(p) < 8 {
		return Hello{}, fmt.Errorf("%w: hello of %d bytes, at least 8", ErrCorrupt, len(p))
	}
	h := Hello{Major: le.Uint16(p), Minor: le.Uint16(p[2:]), PID: le.Uint32(p[4:]), Agent: valid(p[8:])}
	if h.Major != ControlMajor {
		return h, fmt.Errorf("%w: the agent speaks control format %d.%d; this memgauge speaks %d.x", ErrVersion,
			h.Major, h.Minor, ControlMajor)
	}
	return h, nil
}

// Place says where code runs, that is, which thread is stopped for it. A request names PlaceMain, PlaceStep or
// PlaceBeside.
type Place uint8

// The places of an EvalAt and of a Place frame.
const (
	PlaceMain   Place = 0 // in place of the main thread, between two of its bytecodes
	PlaceStep   Place = 1 // in place of the thread that trains, at the end of a step
	PlaceIdle   Place = 2 // beside the main thread, which waited for something outside of PyTorch
	PlaceBeside Place = 3 // beside it, whatever it does
)

var placeNames = []string{"main", "step", "idle", "beside"}

func (p Place) String() string {
	if int(p) < len(placeNames) {
		return placeNames[p]
	}
	return fmt.Sprintf("place %d", uint8(p))
}

// ParsePlace reads a Place frame's payload: where the code began, and for PlaceIdle what the main thread waited in.
func ParsePlace(p []byte) (Place, string, error) {
	if len(p) == 0 {
		return 0, "", fmt.Errorf("%w: empty place frame", ErrCorrupt)
	}
	return Place(p[0]), valid(p[1:]), nil
}

// Eval is a request to run code.
type Eval struct {
	Timeout time.Duration // 0: none; from the request on
	Code    string
	Place   Place
	Own     bool // memgauge itself asks: the code touches nothing of the program's, and is no event of the user's
}

// AppendEvalAt is the payload of an EvalAt frame.
func AppendEvalAt(b []byte, e Eval) []byte {
	own := byte(0)
	if e.Own {
		own = 1
	}
	return AppendEval(append(b, byte(e.Place), own), e)
}

// AppendEval is the payload of an Eval frame, which agents before 1.2 know; they run all code beside the main thread.
func AppendEval(b []byte, e Eval) []byte {
	b = le.AppendUint64(b, math.Float64bits(e.Timeout.Seconds()))
	return append(b, e.Code...)
}

// ParseOutput reads an Output frame's payload.
func ParseOutput(p []byte) (stream uint8, text []byte, err error) {
	if len(p) == 0 || p[0] != StreamStdout && p[0] != StreamStderr {
		return 0, nil, fmt.Errorf("%w: output frame without a known stream", ErrCorrupt)
	}
	return p[0], p[1:], nil
}

// Done is how an eval ended.
type Done struct {
	Outcome Outcome
	Elapsed time.Duration
}

const doneSize = 9

// AppendDone is the payload of a Done frame.
func AppendDone(b []byte, d Done) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(d.Outcome)), uint64(d.Elapsed))
}

// ParseDone reads a Done frame's payload.
func ParseDone(p []byte) (Done, error) {
	if len(p) != doneSize {
		return Done{}, fmt.Errorf("%w: done frame of %d bytes, want %d", ErrCorrupt, len(p), doneSize)
	}
	d := Done{Outcome(p[0]), time.Duration(min(le.Uint64(p[1:]), math.MaxInt64))}
	if d.Outcome > OutcomeGoesOn {
		return Done{}, fmt.Errorf("%w: done frame with %s", ErrCorrupt, d.Outcome)
	}
	return d, nil
}
