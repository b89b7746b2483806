package snapshot

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the memory that a zstd file may make us hold, in bytes: what `zstd --long=27` needs.
const maxZstdWindow = 128 << 20

// unpacked is the content of a packed file. What is wrong with the file is never io.EOF, nor an error of io's that
// callers take for it.
type unpacked struct{ io.Reader }

func (u unpacked) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("unpack: %v", err)
	}
	return n, err
}

// unpack looks at how the input begins and streams its content, packed or not. The caller calls the function when done.
func unpack(r io.Reader) (io.Reader, func(), error) {
	in := bufio.NewReaderSize(r, 1<<20)
	head, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, atByte(0, "gzip: %v", err)
		}
		return unpacked{z}, func() { z.Close() }, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, atByte(0, "zstd: %v", err)
		}
		return unpacked{z}, z.Close, nil
	}
	return in, func() {}, nil
}
