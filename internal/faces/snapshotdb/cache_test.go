package snapshotdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// file writes a snapshot with so many allocations.
func file(t *testing.T, path string, allocs int) {
	t.Helper()
	s := &snapshot.Snapshot{Traces: [][]snapshot.Event{nil}}
	for i := range allocs {
		s.Traces[0] = append(s.Traces[0], snapshot.Event{Action: snapshot.Alloc, Addr: uint64(i+1) << 9, Size: 512,
			Time: int64(1e15) + int64(i)})
	}
	var b bytes.Buffer
	if err := snapshot.WritePickle(&b, s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// source counts how often a file is read.
func source(path string, reads *atomic.Int32) Source {
	return Source{Path: path, Read: func(ctx context.Context) (*anatomy.History, error) {
		reads.Add(1)
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c, err := snapshot.ReadColumns(ctx, bytes.NewReader(data), 1<<30)
		if err != nil {
			return nil, err
		}
		return anatomy.New(c), nil
	}}
}

// events is how many there are, as an open of the file says.
func events(ctx context.Context, src Source) (string, error) {
	tables, err := Open(ctx, src)
	if err != nil {
		return "", err
	}
	defer tables.Close()
	var out bytes.Buffer
	err = tables.Query(ctx, api.QueryRequest{SQL: "SELECT count(*) AS n FROM events", Format: "csv"}, &out)
	return strings.Join(strings.Fields(out.String()), " "), err
}

// A file is read once, for any number of commands at the same time; another content, even of the same length, is
// another file.
func TestReadOnce(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", home)
	path := filepath.Join(t.TempDir(), "a.pickle")
	file(t, path, 10)
	var reads atomic.Int32
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if got, err := events(t.Context(), source(path, &reads)); got != "n 10" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wait.Wait()
	if reads.Load() != 1 {
		t.Errorf("read %d times", reads.Load())
	}
	file(t, path, 11)
	if got, err := events(t.Context(), source(path, &reads)); got != "n 11" || err != nil || reads.Load() != 2 {
		t.Errorf("after a change: %q, %v, read %d times", got, err, reads.Load())
	}
	made, _ := filepath.Glob(filepath.Join(home, "cache", prefix+"*"))
	if len(made) != 2 {
		t.Errorf("in the cache: %v", made)
	}
	for _, m := range made { // one that is damaged is made anew
		if err := os.WriteFile(m, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := events(t.Context(), source(path, &reads)); got != "n 11" || err != nil || reads.Load() != 3 {
		t.Errorf("from a damaged cache: %q, %v, read %d times", got, err, reads.Load())
	}
}

// Where nothing can be kept the answer is the same, and nothing stays behind.
func TestWithoutCache(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("MEMGAUGE_HOME", blocked)
	path := filepath.Join(t.TempDir(), "a.pickle")
	file(t, path, 3)
	var reads atomic.Int32
	src, note := source(path, &reads), ""
	src.Note = func(text string) { note = text }
	if got, err := events(t.Context(), src); got != "n 3" || err != nil || note == "" {
		t.Errorf("got %q, %v, told %q", got, err, note)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What the cache can't take is made elsewhere of what was read.
func TestReadOnceForAFullCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MEMGAUGE_HOME", home)
	path := filepath.Join(t.TempDir(), "a.pickle")
	file(t, path, 3)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	key, err := identify(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, "cache", prefix+key+suffix, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int32
	if got, err := events(t.Context(), source(path, &reads)); got != "n 3" || err != nil || reads.Load() != 1 {
		t.Errorf("got %q, %v, read %d times", got, err, reads.Load())
	}
}

// A named pipe is opened once, by who reads it: its writer would take a look at it for the end.
func TestNamedPipe(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	plain, pipe := filepath.Join(t.TempDir(), "a.pickle"), filepath.Join(t.TempDir(), "pipe")
	file(t, plain, 3)
	data, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Errorf("the writer: %v", err)
			if f, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil { // lets the reader go on
				f.Close()
			}
		}
	})
	time.Sleep(50 * time.Millisecond) // the writer waits for a reader; nothing tells when it does
	var reads atomic.Int32
	if got, err := events(t.Context(), source(pipe, &reads)); got != "n 3" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	wait.Wait()
}

// The cache loses first what nobody has used for longest, and never what was made just now.
func TestTrim(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprintf("%s%d%s", prefix, i, suffix))
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	check := func(keep string, bytes int64, files int, want string) {
		t.Helper()
		if err := trim(dir, filepath.Join(dir, keep), bytes, files); err != nil {
			t.Fatal(err)
		}
		left, _ := os.ReadDir(dir)
		var names []string
		for _, e := range left {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(e.Name(), prefix), suffix))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("left %q, want %q", got, want)
		}
	}
	check(prefix+"0"+suffix, 1000, 4, "0 1 2 3 4") // the oldest would go, and is the one to keep
	check("none", 1000, 4, "1 2 3 4")
	check("none", 250, 4, "3 4")
	check("none", 0, 4, "")
}
