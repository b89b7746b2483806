package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
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

// maxInput is the largest trace, log or file of lines that is read, after unpacking, in bytes.
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
	packed := &counter{Reader: r}
	src, closeSrc, err := unpack(packed)
	if err != nil {
		return nil, "", err
	}
	defer closeSrc()
	in := bufio.NewReaderSize(src, maxLine)
	head, err := in.Peek(maxLine)
	switch {
	case len(head) > 0:
	case err != nil && err != io.EOF:
		return nil, "", fmt.Errorf("read: %w", err)
	default:
		return nil, "", atByte(0, "file is empty")
	}
	if head[0] == 0x80 {
		s, err := readTorch(in, known)
		return s, TorchPickle, err
	}
	format, read := recognise(head)
	if read == nil {
		return nil, "", atByte(0, "neither a PyTorch memory snapshot, nor a trace, nor an RMM log: begins with %.20q", head[:min(len(head), 20)])
	}
	data, err := readAll(&bounded{Reader: in, packed: packed}, known)
	if err != nil {
		return nil, format, err
	}
	if len(data) > 4<<20 { // the slices of a large file grow by copies, which may not lie about till memory has doubled
		defer debug.SetGCPercent(debug.SetGCPercent(30))
	}
	s, err := read(data, budgetFor(packed.n.Load()))
	return s, format, err
}

func readAll(r io.Reader, known int64) ([]byte, error) {
	var data bytes.Buffer
	data.Grow(int(min(known, maxInput)) + bytes.MinRead) // of a packed file that is a part of it
	n, err := io.Copy(&data, io.LimitReader(r, maxInput+1))
	switch {
	case n > maxInput:
		return nil, atByte(maxInput, "file is larger than %d GiB: reading stopped", maxInput>>30)
	case errors.Is(err, ErrFormat):
		return nil, err
	case err != nil:
		return nil, atByte(n, "%v, in the unpacked data", err)
	}
	return data.Bytes(), nil
}

// pickleBudget is what reading a pickle may take, in bytes: 5 GB of pickle, 23 million events, take 1.6 GB of it.
const pickleBudget = 4 << 30

// readTorch reads a pickle of so many bytes on disk (0: nobody knows) event by event. One that is cut short has no state to
// replay from, so it is refused here.
func readTorch(r io.Reader, disk int64) (*Snapshot, error) {
	limit := budgetFor(disk)
	c, err := readColumns(context.Background(), r, nil, min(limit.left, pickleBudget))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Cut != nil {
		return nil, c.Cut
	}
	if !limit.take(costRow*int64(c.Len()+len(c.Segments)+len(c.Blocks)) + costFrame*int64(c.Frames())) {
		return nil, errTooMuch(0)
	}
	return c.Snapshot(), nil
}

// recognise tells a format by how it begins.
func recognise(data []byte) (Format, func([]byte, *budget) (*Snapshot, error)) {
	line, _, _ := bytes.Cut(data[:min(len(data), maxLine)], []byte("\n"))
	word, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	_, traced := traceActions[string(word)]
	lower := bytes.ToLower(line)
	switch {
	case data[0] == '{':
		return EventLines, readLines
	case bytes.Contains(lower, []byte("action,")) && bytes.Contains(lower, []byte("pointer")):
		return RMMLog, readRMM
	case traced, bytes.HasPrefix(word, []byte("#")), slices.Contains([]string{"device", "reserved_at_start", "live", "segment"}, string(word)):
		return TraceText, readTraceText
	}
	return "", nil
}
