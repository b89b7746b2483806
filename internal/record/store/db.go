package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/formats/table"
)

// Options name the database, and limit what it may use of a machine on which a training runs.
type Options struct {
	Path        string
	ReadOnly    bool
	Threads     int    // 0: min(4, CPUs)
	MemoryLimit int64  // bytes; 0: 512 MiB
	MaxDisk     int64  // bytes of the file that Maintain keeps; 0: no limit
	TempDir     string // where the engine's own directory, for spilling and exports, is made; "": beside the database

	// Stuck is called when a cancelled query still runs after Patience: then only the end of the process ends it. The
	// call comes from another goroutine, at most once a query.
	Stuck func(sql string)

	snapshot   bool     // it is a memory snapshot's, see MakeSnapshot
	blockBytes int64    // 0: blockSize
	logBytes   int64    // 0: what walBytes says
	spill      int64    // bytes; 0: what spillBytes says
	export     int64    // bytes; 0: what exportBytes says
	outside    bool     // files besides the database are used until engine.lockDown
	reads      []string // files that may be read after that, see OpenFiles
}

// Patience is how long a query may still run after it was cancelled.
const Patience = time.Second

// MemoryLimit is DuckDB's memory limit in bytes unless Options set another: for tables, sorts and joins.
const MemoryLimit = defaultMemory

const (
	defaultMemory = 512 << 20 // typical queries on 10 M rows need less than 100 MiB; the rest is DuckDB's cache
	maxThreads    = 4         // a query beside a training must not take the machine
	spillFactor   = 4         // spilling may take so many times the memory limit; a bigger sort is refused
	// blockSize, in bytes. Each column of a table that was appended to holds two blocks in memory and writes one of
	// them full of ones (storage/compression/validity_uncompressed.cpp): with the default of 256 KiB our 200 columns
	// took 100 MiB, and the first seconds of a session went into them. Below 64 KiB segments are too short to be
	// compressed: the same rows take twice the disk (TestMaintainKeepsTheLimit). A file keeps the size that it was made
	// with.
	blockSize = 64 << 10

	// walLimit is how long the log becomes, in bytes, before DuckDB folds it into the file. Rows that are only in the
	// log take ten times as much memory: each column of each table has segments of its own. Large batches go past the
	// log.
	walLimit = 1 << 20
)

func (o Options) withDefaults() Options {
	if o.Threads <= 0 {
		o.Threads = min(maxThreads, runtime.NumCPU())
	}
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = defaultMemory
	}
	if o.TempDir == "" {
		o.TempDir = filepath.Dir(o.Path)
	}
	if o.blockBytes <= 0 {
		o.blockBytes = blockSize
	}
	return o
}

// walBytes is the size of the log, in bytes, at which DuckDB does a checkpoint: small compared with MaxDisk.
func (o Options) walBytes() int64 {
	if o.logBytes > 0 {
		return o.logBytes
	}
	if o.MaxDisk > 0 {
		return min(walLimit, max(1<<18, o.MaxDisk/16))
	}
	return walLimit
}

// spillBytes bounds the temporary files of queries, in bytes, so that the session stays within MaxDisk.
func (o Options) spillBytes() int64 {
	if o.spill > 0 {
		return o.spill
	}
	if o.MaxDisk > 0 {
		return min(o.MemoryLimit*spillFactor, o.MaxDisk)
	}
	return o.MemoryLimit * spillFactor
}

// settings returns DuckDB's settings by name. Without external access DuckDB may use the database, its log, and the
// temporary directory (main/database.cpp, Configure). It is off while a file is opened already: to replay a log can
// evaluate expressions that are in it.
func (o Options) settings() [][2]string {
	mode := "READ_WRITE"
	if o.ReadOnly {
		mode = "READ_ONLY"
	}
	return [][2]string{
		{"access_mode", mode},
		{"threads", itoa(int64(o.Threads))},
		{"memory_limit", itoa(o.MemoryLimit) + "B"},
		{"temp_directory", o.TempDir},
		{"max_temp_directory_size", itoa(o.spillBytes()) + "B"},
		{"default_block_size", itoa(o.blockBytes)},
		{"checkpoint_threshold", itoa(o.walBytes()) + "B"},
		{"autoinstall_known_extensions", "false"},
		{"autoload_known_extensions", "false"},
		{"allow_community_extensions", "false"},
		{"enable_external_access", strconv.FormatBool(o.outside)},
	}
}

// DB is a session's database. All methods may be called at the same time; appending and maintenance take turns.
type DB struct {
	o       Options
	scratch *scratch
	exports exports
	files   []FileView // of a lake, see OpenFiles
	writing sync.Mutex // held while appending, maintaining, checkpointing, reopening; guards w
	w       writer
	gates   gates
	state   struct {
		sync.RWMutex // read-held while a query starts, write-held while the engine is replaced
		e            *engine
		closed       bool
	}
}

// reserved reports whether a name is that of a schema of ours, or of one that every DuckDB database has.
func reserved(name string) bool {
	return slices.Contains(table.Schemas(), name) || slices.Contains([]string{"store", "main", "system", "temp"}, name)
}

// Open opens the database, creates it where it does not exist, and brings an older one up to date. A database that a
// newer memgauge made is refused (ErrNewer), and so is one that another process has open (ErrLocked).
func Open(ctx context.Context, o Options) (*DB, error) {
	o = o.withDefaults()
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	o.Path = path
	if stem, _, _ := strings.Cut(filepath.Base(path), "."); reserved(strings.ToLower(stem)) {
		return nil,
			fmt.Errorf("open %s: the file must have another name: DuckDB calls the catalog after it, and %s is a "+
				"schema", path, stem)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, err := newScratch(o.TempDir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	o.TempDir = own.path
	e, err := openEngine(o)
	if err != nil {
		own.remove()
		return nil, err
	}
	if err := migrate(e, o); err != nil {
		e.close()
		own.remove()
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	db := &DB{o: o, scratch: own}
	db.state.e = e
	return db, nil
}

// Close cancels running queries and closes the file. Batches that were appended are durable already.
func (db *DB) Close() error {
	db.writing.Lock()
	defer db.writing.Unlock()
	db.state.Lock()
	defer db.state.Unlock()
	if db.state.closed {
		return nil
	}
	db.state.closed = true
	db.w.close()
	db.state.e.close()
	db.scratch.remove()
	return nil
}

// connect opens a connection for the writer, who holds the writing lock, so that the engine stays.
func (db *DB) connect() (*conn, error) {
	db.state.RLock()
	defer db.state.RUnlock()
	if db.state.closed {
		return nil, errClosed
	}
	return db.state.e.connect()
}

// read runs a short query of our own. The engine is not replaced while it runs.
func (db *DB) read(ctx context.Context, work func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.state.RLock()
	defer db.state.RUnlock()
	if db.state.closed {
		return errClosed
	}
	c, err := db.state.e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	defer c.interruptOn(ctx, nil)()
	return work(c)
}

// Checkpoint moves the log's contents into the file. It doesn't wait for running queries: DuckDB then does it later.
func (db *DB) Checkpoint(ctx context.Context) error {
	db.writing.Lock()
	defer db.writing.Unlock()
	err := db.checkpointLocked(ctx)
	if isBusy(err) {
		return nil
	}
	return db.about("checkpoint", err)
}

func (db *DB) checkpointLocked(ctx context.Context) error {
	return db.withConn(ctx, func(c *conn) error { return c.exec("CHECKPOINT") })
}

// withConn runs one piece of the writer's work, and interrupts it when ctx ends. If DuckDB has invalidated its instance
// (say the disk was full while it wrote its log), the file is opened again for the next piece of work. All that was
// committed is in that file. Where there is no memory, old queries are called off (pins.go).
func (db *DB) withConn(ctx context.Context, work func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := db.connect()
	if err != nil {
		return err
	}
	stop := c.interruptOn(ctx, nil)
	err = work(c)
	stop()
	c.close()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, ErrMemory) {
		db.callOffLocked(pinsMemory) // the same work is tried again, a second later
	}
	if isFatal(err) {
		if again := db.reviveLocked(); again != nil {
			return fmt.Errorf("%w (and to open it again: %w)", err, again)
		}
	}
	return err
}

// reviveLocked replaces an instance that DuckDB has invalidated. The writing lock is held.
func (db *DB) reviveLocked() error {
	db.state.Lock()
	defer db.state.Unlock()
	db.w.close()
	db.state.e.close()
	e, err := openEngine(db.o)
	if err != nil {
		return err // the closed engine stays; the next Append tries again
	}
	db.state.e = e
	return nil
}
