package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
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
			l := line{e.Action, device, e.Addr, e.Size, e.Stream, e.Time, e.Thread, e.DeviceFree, nil, e.Context,
				e.Metadata}
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

// maxObject is the longest line: an event with 2,000 frames has 200 KiB.
const maxObject = 1 << 20

func readLines(data []byte, limit *budget) (*Snapshot, error) {
	out := &Snapshot{}
	for at := int64(0); at < int64(len(data)); {
		text, _, _ := bytes.Cut(data[at:], []byte("\n"))
		begin := at
		at += int64(len(text)) + 1
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if len(text) > maxObject {
			return nil, atByte(begin, "JSON: a line of %d bytes, at most %d", len(text), maxObject)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, atByte(begin, "JSON: %v, in the line that begins", err)
		}
		if l.Device < 0 || l.Device >= maxDevices || l.Size < 0 || l.Size > maxSize || l.Action == "" {
			return nil, atByte(begin, "event without an action, or with a device or size out of range")
		}
		if !limit.take(costRow + int64(len(text)) + costFrame*int64(len(l.Frames))) {
			return nil, errTooMuch(begin)
		}
		out.addEvent(Event{l.Action, l.Device, l.Addr, l.Size, l.Stream, l.Time, l.Thread, l.DeviceFree,
			frames(l.Frames), l.Context, l.Metadata})
	}
	return out, nil
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
