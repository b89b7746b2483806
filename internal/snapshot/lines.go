package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// This file reads and writes events as JSON lines: one object an event, for jq, DuckDB and the like.

// line is an event. What is zero is left out.
type line struct {
	Action     Action   `json:"action"`
	Device     int      `json:"device"`
	Addr       uint64   `json:"addr"`
	Size       int64    `json:"size"`
	Stream     uint64   `json:"stream,omitempty"`
	Time       int64    `json:"time_us,omitempty"`
	Thread     uint64   `json:"thread,omitempty"`
	DeviceFree int64    `json:"device_free,omitempty"`
	Frames     []string `json:"frames,omitempty"` // file:line:name, innermost first
	Context    string   `json:"compile_context,omitempty"`
	Metadata   string   `json:"user_metadata,omitempty"`
}

// WriteLines writes the events of all devices, device by device.
func WriteLines(w io.Writer, s *Snapshot) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	for device, events := range s.Traces {
		for _, e := range events {
			l := line{e.Action, device, e.Addr, e.Size, e.Stream, e.Time, e.Thread, e.DeviceFree, nil, e.Context, e.Metadata}
			for _, f := range e.Frames {
				l.Frames = append(l.Frames, fmt.Sprintf("%s:%d:%s", f.File, f.Line, f.Name))
			}
			if err := enc.Encode(l); err != nil {
				return fmt.Errorf("write events: %w", err)
			}
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

func readLines(data []byte) (*Snapshot, error) {
	out := &Snapshot{}
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var l line
		at := dec.InputOffset()
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, atByte(at, "JSON: %v, in the object that begins", err)
		}
		if l.Device < 0 || l.Device >= maxDevices || l.Size < 0 || l.Size > maxSize || l.Action == "" {
			return nil, atByte(at, "event without an action, or with a device or size out of range")
		}
		out.addEvent(Event{l.Action, l.Device, l.Addr, l.Size, l.Stream, l.Time, l.Thread, l.DeviceFree, frames(l.Frames), l.Context, l.Metadata})
	}
}

// frames takes file:line:name apart; a file's name may have colons, a function's (C++) too.
func frames(texts []string) (out []Frame) {
	for _, text := range texts {
		f := Frame{File: text}
		for i := 0; i < len(text); i++ {
			rest := text[i:]
			if rest[0] != ':' {
				continue
			}
			number, name, ok := strings.Cut(rest[1:], ":")
			if n, err := strconv.Atoi(number); ok && err == nil {
				f = Frame{text[:i], n, name}
				break
			}
		}
		out = append(out, f)
	}
	return out
}
