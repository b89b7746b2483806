package store

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// ExportTo writes the Parquet file of an answer to w.
func (db *DB) ExportTo(ctx context.Context, sql string, w io.Writer) error {
	x := &export{all: &db.exports, most: db.o.exportBytes()}
	x.all.begin()
	defer x.all.end(x)
	name, err := db.exportTemp(ctx, sql, x)
	if err != nil {
		return err
	}
	defer func() { _ = db.scratch.dir.Remove(name) }() // before it counts no more
	if err := sendFile(w, db.scratch.dir, name); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func sendFile(w io.Writer, dir *rootdir.Dir, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// exportTemp writes a file in the temporary directory, the only place where DuckDB may write one.
func (db *DB) exportTemp(ctx context.Context, sql string, x *export) (name string, err error) {
	r, err := db.begin(ctx, sql)
	if err != nil {
		return "", err
	}
	defer r.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn.enter()
	defer r.conn.leave()
	stmt, sql, err := r.prepareLocked(sql) // the user's own mistakes are told in terms of what he wrote
	if err != nil {
		return "", r.explain(err)
	}
	duck.DestroyPrepare(&stmt)
	name = fmt.Sprintf("export-%d.parquet", exported.Add(1))
	f, err := db.scratch.dir.Create(name) // 0600, whatever mode DuckDB would give it
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	f.Close()
	path := filepath.Join(db.scratch.path, name)
	// query() takes the statement as a text: no comment or semicolon in it can end the COPY. Without USE_TMP_FILE it
	// writes to the file that was made here, and whose size is looked at; otherwise to tmp_export-N.parquet beside it.
	stop := r.boundFile(path, x)
	err = r.conn.exec("COPY (FROM query(" + quote(sql) + ")) TO " + quote(path) +
		" (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)")
	stop()
	if err != nil {
		_ = db.scratch.dir.Remove(name)
		return "", fmt.Errorf("export: %w", r.explain(err))
	}
	return name, nil
}

// exported numbers the files of this process's exports.
var exported atomic.Int64

// leastExport is the size, in bytes, that exports may always have, even in a session with a small limit.
const leastExport = 1 << 30

// exportBytes bounds the files of all exports that are under way.
func (o Options) exportBytes() int64 {
	if o.export > 0 {
		return o.export
	}
	return max(o.MaxDisk, leastExport)
}

// exports are those of a database that are under way, until their files are sent and removed.
type exports struct {
	mu    sync.Mutex
	n     int
	bytes int64
}

// export is one of them.
type export struct {
	all  *exports
	most int64 // of all together
	size int64 // at the last look
}

func (e *exports) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
}

func (e *exports) end(x *export) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n, e.bytes = e.n-1, e.bytes-x.size
}

// grows notes the size of a file, and says that it has to end: all have too much, and it has more than its share.
func (x *export) grows(size int64) (ends bool) {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.all.bytes += size - x.size
	x.size = size
	return x.all.bytes > x.most && size > x.most/int64(x.all.n)
}

// exportLook is the interval at which the size of a growing export is checked. Even a fast disk writes less than
// leastExport in this time.
const exportLook = 100 * time.Millisecond

// boundFile cancels the query when the file becomes too large. stop ends the checks and waits for them.
func (r *Rows) boundFile(path string, x *export) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(exportLook)
		defer look.Stop()
		for {
			select {
			case <-quit:
				return
			case <-look.C:
			}
			if st, err := os.Stat(path); err == nil && x.grows(st.Size()) {
				r.cancel(
					remedy.Add(&Error{Msg: fmt.Sprintf("the files of exports would have more than %d bytes, "+
						"the session's bound of disk", x.most), Kind: ErrCalledOff},
						"export less at a time"))
			}
		}
	}()
	return func() { close(quit); <-done }
}
