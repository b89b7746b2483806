package app

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/memgauge/memgauge/internal/door/api"
)

// OpenInput opens a file that the user names, or standard input for "-". A pipe or terminal may block for ever, so
// waiting for one ends with ctx (api.ErrCanceled). size is a regular file's size in bytes, else 0.
func (a *App) OpenInput(ctx context.Context, path string) (in io.ReadCloser, size int64, err error) {
	if path == "-" {
		return a.OpenStdin(ctx), 0, nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, 0, errors.New("is a directory")
	case err == nil && !info.Mode().IsRegular():
		return interruptible(ctx, func() (io.ReadCloser, error) { return os.Open(path) }), 0, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// OpenStdin returns standard input. Reading a pipe or a terminal ends with ctx. Closing it doesn't close the stream.
func (a *App) OpenStdin(ctx context.Context) io.ReadCloser {
	plain := io.NopCloser(a.Stdin)
	if f, ok := a.Stdin.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return plain
		}
	}
	return interruptible(ctx, func() (io.ReadCloser, error) { return plain, nil })
}

// interruptible opens with open and reads until ctx ends. Opening or reading a pipe can't be cancelled: the goroutine
// that does it ends with the pipe, or with the process, which is about to exit.
func interruptible(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		f, err := open()
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, copyBytes))
			err = errors.Join(err, f.Close())
		}
		w.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(api.ErrCanceled) })
	return &pipe{r, stop}
}

// copyBytes is the size of one read from a pipe: the kernel's pipes hold 64 KiB, at most 1 MiB.
const copyBytes = 256 << 10

type pipe struct {
	*io.PipeReader
	stop func() bool
}

func (p *pipe) Close() error {
	p.stop()
	return p.PipeReader.Close()
}
