package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/sock"
	"github.com/memgauge/memgauge/internal/door/api"
)

const (
	// memory bounds a cell's private writable memory (RLIMIT_DATA) unless its Spec does, in bytes: 512 MiB for DuckDB's
	// tables and sorts, as much again for what single functions make, and 256 MiB for the program itself, Go, and the
	// threads' stacks.
	memory = 1280 << 20

	// maxFile bounds each file that a cell writes, in bytes: what DuckDB spills is less (four times its memory), and an
	// answer in Parquet of 400 million rows is as much.
	maxFile = 4 << 30

	// goRoom is what is mapped for Go beforehand, in bytes: when an allocation fails, Go's runtime ends the process,
	// unlike DuckDB.
	goRoom = 64 << 20

	listenerFD = 3 // the first of exec.Cmd.ExtraFiles
)

// Opener opens what a cell is for, as the task says, and gives who answers for it.
type Opener func(ctx context.Context, task []byte) (http.Handler, error)

// maxTask bounds what a cell is told, in bytes: the names of a lake's files, of which a million are 200 MB.
const maxTask = 256 << 20

// Serve is the cell's side: it answers until it is killed, or ctx ends. What can't be opened answers with the reason.
func Serve(ctx context.Context, open Opener) error {
	if err := confine(); err != nil {
		return err
	}
	ReserveForGo()
	task, err := io.ReadAll(io.LimitReader(os.Stdin, maxTask))
	if err != nil {
		return fmt.Errorf("serve as a cell: %w", err)
	}
	l, err := sock.Inherit(listenerFD)
	if err != nil {
		return fmt.Errorf("serve as a cell: %w", err)
	}
	defer l.Close()
	h, err := open(ctx, task)
	if err != nil {
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { api.Fail(w, err) })
	}
	// what a cell prints is why it ended; of a bug the answer says the place
	server := api.Server(ctx, api.NewCatcher(slog.New(slog.DiscardHandler)).Wrap(h))
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve as a cell: %w", err)
	}
	return nil
}

// Task decodes what a cell was told.
func Task[T any](text []byte) (v T, err error) {
	if err = json.Unmarshal(text, &v); err != nil {
		err = fmt.Errorf("read the task: %w", err)
	}
	return v, err
}

// bound limits this process for good.
func (f fence) bound() error {
	for _, l := range []struct {
		what int
		most uint64
	}{{unix.RLIMIT_DATA, f.Memory}, {unix.RLIMIT_FSIZE, f.File}, {unix.RLIMIT_CORE, 0}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("bound a cell: %w", err)
		}
		most := min(now.Max, l.most)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("bound a cell: %w", err)
		}
	}
	return nil
}

// ReserveForGo makes the runtime map memory and keep it. The memory is never touched, so no page of it is resident.
func ReserveForGo() {
	room := make([]byte, goRoom)
	runtime.KeepAlive(room)
	runtime.GC() // so that the next collection doesn't wait for a heap of that size
}
