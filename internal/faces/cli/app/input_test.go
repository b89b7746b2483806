package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
)

// Who waits for a pipe can be called off, while it is opened and while it is read; what comes through one is read
// whole.
func TestInputFromPipes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a := &App{Stdin: r}
	for _, name := range []string{path, "-"} {
		in, _, err := a.OpenInput(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer func() {
			if _, err := in.Read(make([]byte, 1)); !errors.Is(err, api.ErrCanceled) {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	cancel()
	writer, err := os.OpenFile(path, os.O_WRONLY, 0) // lets the goroutine go that opens it
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
	w.Close()
}

func TestInputIsWhole(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 3*copyBytes+1)
	go func() { // ends when all is read
		_, _ = w.Write(text)
		w.Close()
	}()
	in, _, err := (&App{Stdin: r}).OpenInput(context.Background(), "-")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if got, err := io.ReadAll(in); err != nil || len(got) != len(text) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(text))
	}
	if _, _, err := (&App{}).OpenInput(context.Background(), t.TempDir()); err == nil ||
		err.Error() != "is a directory" {
		t.Errorf("of a directory: %v", err)
	}
}
