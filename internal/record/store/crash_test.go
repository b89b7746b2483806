package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/env"
)

// crashChild is set in the environment of a child that appends until it is killed.
const crashChild = "STORE_TEST_APPEND_TO"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		if err := appendForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	env.Leftovers(m)
}

// appendForEver goes on where the cursor is: batch after batch of rows whose step is their number.
func appendForEver(path string) error {
	ctx := context.Background()
	db, err := Open(ctx, Options{Path: path, Threads: 1, MaxDisk: 64 << 20}) // a small log: folded in often
	if err != nil {
		return err
	}
	cursors, err := db.Cursors(ctx)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for n := cursors[9].Seq; ; {
		b := model.Batch{}
		if n == 0 {
			b.Names = moduleNames()
		}
		for range 1 + rand.IntN(3000) {
			n++
			r := traceRow(int64(n), -1)
			r.Step = int64(n)
			b.Trace = append(b.Trace, r)
			b.Steps = append(b.Steps, model.Step{Time: r.Time, PID: 1, Step: int64(n), Steps: 1})
		}
		b.Cursors = []model.Cursor{{RingID: 9, File: "a.ring", Seq: n}}
		if err := db.Append(ctx, &b); err != nil {
			return err
		}
		fmt.Println("batch")
	}
}

// A process that is killed at any instant leaves exactly the rows that the cursor tells of.
func TestKilledWhileAppending(t *testing.T) {
	kills := env.Times(5, 200)
	path := filepath.Join(t.TempDir(), "session.duckdb")
	var before uint64
	torn := 0
	for i := range kills {
		batches := rand.IntN(4)
		if before == 0 { // on a busy machine chance alone would let none in
			batches = max(batches, 1)
		}
		runAndKill(t, path, batches, time.Duration(rand.IntN(30_000))*time.Microsecond)
		if isTorn(t, path) {
			if torn++; torn > 1+kills/500 {
				t.Fatalf("%d of %d kills left a database that can't be opened", torn, i+1)
			}
			path, before = filepath.Join(t.TempDir(), "session.duckdb"), 0
			continue
		}
		n := checkNumbers(t, path)
		if n < before {
			t.Fatalf("kill %d: the cursor went back from %d to %d", i, before, n)
		}
		before = n
	}
	if before == 0 && torn == 0 {
		t.Fatal("no batch ever got in")
	}
	t.Logf("%d rows after %d kills", before, kills)
}

// isTorn says that the kill met DuckDB as it wrote a block of metadata in its place, as one in some 1,700 does.
func isTorn(t *testing.T, path string) bool {
	t.Helper()
	db, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		return strings.Contains(err.Error(), "computed checksum")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return false
}

// runAndKill kills the child some time after it said that it is ready and has appended so many batches.
func runAndKill(t *testing.T, path string, batches int, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for i := range 1 + batches {
		if want := []string{"ready", "batch"}[min(i, 1)]; !said.Scan() || said.Text() != want {
			_ = cmd.Process.Kill()
			t.Fatalf("child: %q, %v, want %s", said.Text(), said.Err(), want)
		}
	}
	<-time.After(after) // the instant is the test's input, nothing is waited for
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if st := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended by itself: %v", cmd.ProcessState)
	}
}

// checkNumbers wants each table to hold the numbers 1 to the cursor's, each once.
func checkNumbers(t *testing.T, path string) uint64 {
	t.Helper()
	db := open(t, Options{Path: path})
	defer db.Close()
	cursors, err := db.Cursors(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	n := cursors[9].Seq
	for _, table := range []string{"python.torch_trace", "python.steps"} {
		got := ask(t, db, "SELECT count(*), count(DISTINCT step), coalesce(min(step), 1), coalesce(max(step), 0) FROM "+
			table)[0]
		if want := fmt.Sprint([]any{n, n, 1, n}); fmt.Sprint(got) != want {
			t.Fatalf("%s: rows, steps, first, last are %v, want %v", table, got, want)
		}
	}
	if n > 0 {
		if got := ask(t, db, "SELECT count(*), count(DISTINCT id) FROM store.names")[0]; fmt.Sprint(got) != fmt.Sprint(
			[]any{perStep / 2, perStep / 2}) {
			t.Fatalf("names: %v", got)
		}
	}
	return n
}

// smallDisk mounts a file system of so many bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		env.Missing(t, "root", fmt.Sprintf("mount a tmpfs: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// A full disk costs what did not fit, and nothing else; once there is room, appending goes on.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 24<<20)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 10<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, Options{Path: filepath.Join(dir, "session.duckdb"), MaxDisk: 64 << 20})
	ctx := context.Background()
	var stored, next int64
	batch := func() *model.Batch {
		b := &model.Batch{Names: moduleNames()}
		for i := stored; i < stored+20_000; i++ {
			r := traceRow(i, -1)
			r.Step, r.Allocated, r.Cached = i, noise(i*3)<<20+noise(i), noise(i*5)<<20 // hard to compress
			b.Trace = append(b.Trace, r)
			next = i + 1
		}
		b.Cursors = []model.Cursor{{RingID: 1, Seq: uint64(next)}}
		return b
	}
	var full error
	for range 1000 {
		if full = db.Append(ctx, batch()); full != nil {
			break
		}
		stored = next
	}
	if full == nil || !strings.Contains(full.Error(), "session.duckdb") {
		t.Fatalf("error %v, want one that names the file", full)
	}
	t.Logf("%d rows, then: %v", stored, full)
	if got := countTrace(t, db); got != stored {
		t.Errorf("%d rows while the disk is full, want %d", got, stored)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := db.Append(ctx, batch()); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	stored = next
	if got := countTrace(t, db); got != stored {
		t.Errorf("%d rows, want %d", got, stored)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{Path: db.o.Path})
	if got := countTrace(t, again); got != stored {
		t.Errorf("%d rows after opening again, want %d", got, stored)
	}
	again.Close()
}

func countTrace(t *testing.T, db *DB) int64 {
	t.Helper()
	return ask(t, db, "SELECT count(*) FROM python.torch_trace")[0][0].(int64)
}
