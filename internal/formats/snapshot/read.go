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

	ProfilerTrace Format = "torch.profiler trace"
)

// maxInput is the largest trace, log or file of lines that is read, after unpacking, in bytes.
const maxInput = 2 << 30

// ReadFile reads a file of any of the formats, plain or packed.
func ReadFile(path string) (*Snapshot, Format, error) {
	var out *Snapshot
	format, err := readPath(path, func(c *content) (err error) {
		out, err = c.toSnapshot()
		return err
	})
	return out, format, err
}

// ReadTrace reads a file of any of the formats and prepares the history of one device in it for a replay. choose is
// asked for the device, and told which have allocations. The caller closes the trace.
func ReadTrace(path string, choose func(with []int) (int, error)) (*Trace, error) {
	var out *Trace
	_, err := readPath(path, func(c *content) error {
		device, err := choose(c.withAllocations())
		if err == nil {
			out, err = c.trace(device)
		}
		if err != nil && c.columns != nil {
			c.columns.Close()
		}
		return err
	})
	return out, err
}

func readPath(path string, use func(*content) error) (Format, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err // says open, path and cause
	}
	defer f.Close()
	var known int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		known = info.Size()
	}
	c, err := readSized(f, known)
	if err == nil {
		err = use(&c)
	}
	if err != nil {
		return c.format, fmt.Errorf("%s: %w", path, err)
	}
	return c.format, nil
}

// Read reads a snapshot and says which format it had.
func Read(r io.Reader) (*Snapshot, Format, error) {
	c, err := readSized(r, 0)
	if err != nil {
		return nil, c.format, err
	}
	s, err := c.toSnapshot()
	return s, c.format, err
}

// content is what a file has: a pickle's columns, or another format's structs.
type content struct {
	format  Format
	columns *Columns
	structs *Snapshot
	limit   *budget
}

// toSnapshot makes structs of the content, and ends it.
func (c *content) toSnapshot() (*Snapshot, error) {
	if c.columns == nil {
		return c.structs, nil
	}
	defer c.columns.Close()
	rows := c.columns.Len() + len(c.columns.Segments) + len(c.columns.Blocks)
	if !c.limit.take(costRow*int64(rows) + costFrame*int64(c.columns.Frames())) {
		return nil, errTooMuch(0)
	}
	return c.columns.Snapshot(), nil
}

// trace makes a trace of the content, whose memory it takes over.
func (c *content) trace(device int) (*Trace, error) {
	if c.columns == nil {
		return c.structs.Trace(device)
	}
	t, err := c.columns.Trace(device)
	if err == nil {
		t.columns = c.columns
	}
	return t, err
}

// withAllocations are the devices that have a history of allocations.
func (c *content) withAllocations() []int {
	if c.columns == nil {
		return c.structs.WithAllocations()
	}
	var out []int
	for _, r := range c.columns.Rows {
		if h := c.columns.history(r.Device); h.allocates() {
			out = append(out, r.Device)
		}
	}
	return out
}

// readSized reads a file that has so many bytes; 0: nobody knows.
func readSized(r io.Reader, known int64) (c content, err error) {
	packed := &counter{Reader: r}
	src, closeSrc, err := unpack(packed)
	if err != nil {
		return c, err
	}
	defer closeSrc()
	in := bufio.NewReaderSize(src, maxLine)
	head, err := in.Peek(maxLine)
	if len(head) == 0 && err != nil && err != io.EOF {
		return c, fmt.Errorf("read: %w", err)
	}
	if err := begins(head); err != nil {
		return c, err
	}
	if head[0] == pickled {
		c.format, c.limit = TorchPickle, budgetFor(known)
		c.columns, err = readTorch(in, c.limit)
		return c, err
	}
	format, read := recognise(head)
	c.format = format
	data, err := readAll(&bounded{Reader: in, packed: packed}, known)
	if err != nil {
		return c, err
	}
	if len(data) > 4<<20 { // the slices of a large file grow by copies, which may not lie about till memory has doubled
		defer debug.SetGCPercent(debug.SetGCPercent(tightGC))
	}
	c.structs, err = read(data, budgetFor(packed.n.Load()))
	return c, err
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

// readTorch reads a pickle within the bound of its file. One that is cut short has no state to replay from, so it is
// refused here.
func readTorch(r io.Reader, limit *budget) (*Columns, error) {
	c, err := readColumns(context.Background(), r, nil, min(limit.left, pickleBudget))
	if err != nil {
		return nil, err
	}
	if c.Cut != nil {
		defer c.Close()
		return nil, c.Cut
	}
	return c, nil
}

// Recognise refuses a file that does not begin as one of those that can be read, before anybody waits for it.
func Recognise(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	src, closeSrc, err := unpack(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer closeSrc()
	head, err := bufio.NewReaderSize(src, maxLine).Peek(maxLine)
	if len(head) == 0 && err != nil && err != io.EOF {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := begins(head); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func begins(head []byte) error {
	if len(head) == 0 {
		return atByte(0, "file is empty")
	}
	if _, read := recognise(head); read == nil && head[0] != pickled {
		return atByte(0, "neither a PyTorch memory snapshot, nor a trace, nor an RMM log: begins with %.20q",
			head[:min(len(head), 20)])
	}
	return nil
}

// pickled is the first byte of a pickle, of protocol 2 and later.
const pickled = 0x80

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
	case traced, bytes.HasPrefix(word, []byte("#")),
		slices.Contains([]string{"device", "reserved_at_start", "live", "segment"}, string(word)):
		return TraceText, readTraceText
	}
	return "", nil
}
