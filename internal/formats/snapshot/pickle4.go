package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// WriteProtocol4 writes a snapshot that columns were read of as a pickle of protocol 4. again opens its file once more.
//
// Of the opcodes of protocol 5 only that of a bytearray stands in data without buffers of its own
// (https://peps.python.org/pep-0574), and those of 2 and 3 are all in 4. So a whole pickle is copied as it is, but for
// the number of its protocol, and says the same. What is no pickle, or is cut short, is written from the columns.
func WriteProtocol4(ctx context.Context, w io.Writer, c *Columns, again func() (io.ReadCloser, error)) error {
	switch {
	case c.Format != TorchPickle || c.Pickle == 0:
		return WriteColumns(ctx, w, c)
	case c.Bytearrays:
		return remedy.Add(errors.New("write snapshot: it has a bytearray, which pickle protocol 4 does not know"),
			"PyTorch writes none: dump it once more with what torch.cuda.memory._snapshot() returns")
	}
	f, err := again()
	if err != nil {
		return err
	}
	defer f.Close()
	src, done, err := unpack(f)
	if err != nil {
		return err
	}
	defer done()
	var head [2]byte
	if _, err := io.ReadFull(src, head[:]); err != nil || head[0] != 0x80 {
		return errors.Join(errChanged, err)
	}
	out := &calledOff{w, ctx}
	if _, err := out.Write([]byte{head[0], 4}); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	n, err := io.Copy(out, io.LimitReader(src, c.Pickle-int64(len(head))))
	if err == nil && n+int64(len(head)) != c.Pickle {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

var errChanged = errors.New("the file has changed since it was read")
