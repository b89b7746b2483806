package snapshotdb

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Bounds of the cache. A database takes about a tenth of its snapshot's size, so the cache has room for the databases
// of some tens of gigabytes of snapshots.
const (
	maxBytes = 4 << 30
	maxFiles = 64
)

const (
	prefix = "snapshot-"
	suffix = ".duckdb"
)

// A file is identified by its size, the time of its last change and samples of its bytes. Reading all of it would take
// longer than the query. Every event of a snapshot has a time, so no two snapshots have a sample in common.
const (
	samples    = 64
	sampleSize = 4 << 10 // bytes; some twenty events
)

// identify is the key of a file's content.
func identify(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, n := range []int64{store.SnapshotVersion, info.Size(), info.ModTime().UnixNano()} {
		_ = binary.Write(h, binary.LittleEndian, n) // a hash takes everything
	}
	buf := make([]byte, sampleSize)
	for i := range int64(samples) {
		at := int64(float64(max(0, info.Size()-sampleSize)) * float64(i) / (samples - 1))
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		h.Write(buf[:n])
		if int64(n) == info.Size() {
			break
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// lockPoll is the interval at which a waiting command tries the lock: flock(2) has no deadline.
const lockPoll = 20 * time.Millisecond

// lock serializes commands that need the same database, so that the second one finds it made. There are 16 lock files
// for all databases, so that none needs to be removed.
func lock(ctx context.Context, dir, key string) (release func(), err error) {
	f, err := rootdir.EditFile(filepath.Join(dir, "lock-"+key[:1]))
	if err != nil {
		return nil, err
	}
	for {
		err := rootdir.TryLock(f, true)
		if err == nil {
			return func() { _ = rootdir.Unlock(f) }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// use marks a database as used now: trim removes the least recently used ones first.
func use(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // on a read-only file system there is nothing to trim either
}

// trim keeps the cache within its bounds. A process that has a removed database open can still read it. keep is never
// removed.
func trim(dir, keep string, mostBytes int64, mostFiles int) error {
	type entry struct {
		path string
		size int64
		used time.Time
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var all []entry
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), prefix) || !info.Mode().IsRegular() {
			continue
		}
		all = append(all, entry{filepath.Join(dir, e.Name()), info.Size(), info.ModTime()})
	}
	order.By(all, func(a, b entry) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	var bytes int64
	files := 0
	for _, e := range all {
		if e.path != keep && (bytes+e.size > mostBytes || files >= mostFiles) {
			if err := rootdir.Remove(e.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			continue
		}
		bytes += e.size
		files++
	}
	return nil
}
