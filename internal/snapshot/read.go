package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Format is a kind of file.
type Format string

const (
	TorchPickle Format = "PyTorch snapshot"
	TraceText   Format = "trace"
	RMMLog      Format = "RMM log"
	EventLines  Format = "JSON lines"
)

// maxInput is the largest file that is read, after unpacking. PyTorch's own viewer gives up at some hundred MB; a snapshot of
// a million events with stacks has 150.
const maxInput = 2 << 30

// ReadFile reads a file of any of the formats, plain or gzipped.
func ReadFile(path string) (*Snapshot, Format, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err // says open, path and cause
	}
	defer f.Close()
	var known int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		known = info.Size()
	}
	s, format, err := readSized(f, known)
	if err != nil {
		return nil, format, fmt.Errorf("%s: %w", path, err)
	}
	return s, format, nil
}

// Read reads a snapshot and says which format it had.
func Read(r io.Reader) (*Snapshot, Format, error) { return readSized(r, 0) }

// readSized is Read of a file that has so many bytes; 0: nobody knows.
func readSized(r io.Reader, known int64) (*Snapshot, Format, error) {
	data, err := readAll(r, known)
	if err != nil {
		return nil, "", err
	}
	format, parse := recognise(data)
	if parse == nil {
		return nil, "", atByte(0, "neither a PyTorch memory snapshot, nor a trace, nor an RMM log: begins with %.20q", data[:min(len(data), 20)])
	}
	s, err := parse(data)
	return s, format, err
}

func readAll(r io.Reader, known int64) ([]byte, error) {
	in := bufio.NewReader(r)
	var src io.Reader = in
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, atByte(0, "gzip: %v", err)
		}
		defer z.Close()
		src = z
	}
	var data bytes.Buffer
	data.Grow(int(min(known, maxInput)) + bytes.MinRead) // of a gzipped file that is a part of it
	n, err := io.Copy(&data, io.LimitReader(src, maxInput+1))
	switch {
	case n > maxInput:
		return nil, atByte(maxInput, "file is larger than %d GiB: reading stopped", maxInput>>30)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, atByte(n, "gzip: %v, in the unpacked data", err)
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case n == 0:
		return nil, atByte(0, "file is empty")
	}
	return data.Bytes(), nil
}

// recognise tells a format by how it begins.
func recognise(data []byte) (Format, func([]byte) (*Snapshot, error)) {
	line, _, _ := bytes.Cut(data[:min(len(data), maxLine)], []byte("\n"))
	word, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	_, traced := traceActions[string(word)]
	lower := bytes.ToLower(line)
	switch {
	case data[0] == 0x80:
		return TorchPickle, readTorch
	case data[0] == '{':
		return EventLines, readLines
	case bytes.Contains(lower, []byte("action,")) && bytes.Contains(lower, []byte("pointer")):
		return RMMLog, readRMM
	case traced, bytes.HasPrefix(word, []byte("#")), slices.Contains([]string{"device", "reserved_at_start", "live", "segment"}, string(word)):
		return TraceText, readTraceText
	}
	return "", nil
}
