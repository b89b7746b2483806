package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

const (
	// maxUpload bounds what is dropped onto the page, in bytes: three times the largest snapshot that we have met. It
	// is read as it comes and never lies on the disk.
	maxUpload = 16 << 30
	// snapshotMemory bounds what reading one may take, as memgauge snapshot's --memory does.
	snapshotMemory = 4 << 30
	// maxSnapshots are kept in memory, each with a third of its file's size: two are compared, and one is looked at.
	maxSnapshots = 3
	// maxUploads bounds the list: the oldest are forgotten.
	maxUploads = 32
)

// snapshots are the memory snapshots that the page can show: files that the user or a session names, and what was
// dropped onto the page. Only the last used are in memory; a file is read again when it is asked for.
type snapshots struct {
	ctx     context.Context
	stop    context.CancelFunc
	readers sync.WaitGroup
	reading chan struct{} // one at a time: each may take snapshotMemory
	mu      sync.Mutex
	list    []*shot
	uploads int
}

// shot is one snapshot.
type shot struct {
	key, name, origin string // origin: file, session, upload
	path              string // "": it can't be read again
	here              bool   // it was recorded on this machine, so the files that it names are those here
	total             atomic.Int64
	read              atomic.Int64

	// guarded by snapshots.mu
	history *anatomy.History
	boxes   map[int]*anatomy.Boxes
	err     error
	busy    bool
	users   int
	last    time.Time
}

func (s *snapshots) init(files []string, here bool) {
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.reading = make(chan struct{}, 1)
	for i, path := range files {
		s.list = append(s.list, &shot{key: fmt.Sprint(i + 1), name: filepath.Base(path), origin: "file", path: path,
			here: here})
	}
}

// begin reads the files of the command line before anybody asks, the first one first.
func (s *snapshots) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list[:min(len(s.list), maxSnapshots)] {
		s.load(x)
	}
}

// close waits for readers, and gives all memory back.
func (s *snapshots) close() {
	s.stop()
	s.readers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		x.drop()
	}
}

// load reads a file in the background. s.mu is held.
func (s *snapshots) load(x *shot) {
	if x.busy || x.history != nil || s.ctx.Err() != nil {
		return
	}
	x.busy, x.err = true, nil
	x.read.Store(0)
	s.readers.Go(func() {
		f, err := openSnapshot(x)
		if err == nil {
			defer f.Close()
			err = s.take(s.ctx, x, f)
		}
		_ = s.done(x, err) // who asks for it is told
	})
}

func openSnapshot(x *shot) (*os.File, error) {
	f, err := rootdir.OpenNamed(x.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	x.total.Store(info.Size())
	return f, nil
}

// take reads a snapshot, and works out what the page needs of it.
func (s *snapshots) take(ctx context.Context, x *shot, r io.Reader) error {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	columns, err := snapshot.ReadColumns(ctx, &progress{r, &x.read}, snapshotMemory)
	if err != nil {
		return err
	}
	h := anatomy.New(columns)
	boxes := map[int]*anatomy.Boxes{}
	for _, d := range h.Devices {
		boxes[d.Number] = h.Boxes(d)
	}
	if err := ctx.Err(); err != nil {
		h.Close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.history, x.boxes, x.last = h, boxes, time.Now()
	s.evict(x)
	return nil
}

type progress struct {
	io.Reader
	n *atomic.Int64
}

func (c *progress) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (s *snapshots) done(x *shot, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.busy = false
	if err != nil {
		x.err = explained(err)
	}
	return x.err
}

// explained adds what the user can do about a file that can't be read.
func explained(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return remedy.Add(fmt.Errorf("the file has more than %d GiB", maxUpload>>30),
			"memgauge web --snapshot FILE reads it from the disk")
	case errors.Is(err, snapshot.ErrFormat):
		return remedy.Add(fmt.Errorf("this is no PyTorch memory snapshot that can be read: %w", err),
			cmp.Or(remedy.Of(err), "torch.cuda.memory._dump_snapshot(FILE) writes one"))
	}
	return err
}

// evict gives up the history that was not used for longest, if there are too many. s.mu is held.
func (s *snapshots) evict(but *shot) {
	var held []*shot
	for _, x := range s.list {
		if x.history != nil && x != but {
			held = append(held, x)
		}
	}
	order.By(held, func(a, b *shot) int { return a.last.Compare(b.last) })
	for _, x := range held {
		if len(held) < maxSnapshots {
			return
		}
		if x.users > 0 {
			continue
		}
		x.drop()
		held = held[1:]
		if x.path == "" {
			x.err = remedy.Add(errors.New("this snapshot was given up for newer ones"), "drop it onto the page again")
		}
	}
}

func (x *shot) drop() {
	if x.history != nil {
		x.history.Close()
	}
	x.history, x.boxes = nil, nil
}

// find is the one of a key. s.mu is held.
func (s *snapshots) find(key string) *shot {
	for _, x := range s.list {
		if x.key == key {
			return x
		}
	}
	return nil
}

var (
	errNoShot = remedy.Add(errors.New("there is no such snapshot"),
		"it was dropped onto a page of an earlier memgauge web: drop it again")
	errReading = errors.New("the snapshot is still being read")
)

// use holds a snapshot that was read, until release.
func (s *snapshots) use(key string) (x *shot, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x = s.find(key)
	switch {
	case x == nil:
		return nil, nil, errNoShot
	case x.err != nil:
		return nil, nil, x.err
	case x.history == nil:
		s.load(x)
		return nil, nil, errReading
	}
	x.users++
	x.last = time.Now()
	return x, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.users--
	}, nil
}

// upload reads what is dropped onto the page, as it comes.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > maxUpload {
		w.Header().Set("Connection", "close") // else the server would wait for some of it first
		reply(w, nil, explained(&http.MaxBytesError{Limit: maxUpload}))
		return
	}
	m := &s.snapshots
	x := &shot{name: shortName(r.URL.Query().Get("name")), origin: "upload", busy: true}
	x.total.Store(r.ContentLength)
	m.mu.Lock()
	m.uploads++
	x.key = fmt.Sprintf("u%d", m.uploads)
	m.list = append(m.list, x)
	m.forget()
	m.mu.Unlock()
	err := m.take(r.Context(), x, r.Body)
	told := m.done(x, err)
	if err != nil {
		_, _ = io.Copy(io.Discard, r.Body) // a browser hears the answer only when it has sent all
	}
	reply(w, map[string]string{"key": x.key}, told)
}

// forget leaves out the oldest uploads. s.mu is held.
func (s *snapshots) forget() {
	n := 0
	for _, x := range s.list {
		if x.origin == "upload" {
			n++
		}
	}
	s.list = slices.DeleteFunc(s.list, func(x *shot) bool {
		if n <= maxUploads || x.origin != "upload" || x.busy || x.users > 0 {
			return false
		}
		n--
		x.drop()
		return true
	})
}

// longestName bounds a name that somebody chose, in characters.
const longestName = 200

func shortName(name string) string {
	text := []rune(strings.ToValidUTF8(filepath.Base(name), "�"))
	return string(text[:min(len(text), longestName)])
}

// ofSession finds the snapshot that a session on this machine keeps.
func (s *Server) ofSession(ctx context.Context, key string) error {
	id, is := strings.CutPrefix(key, "s-")
	if !is {
		return nil
	}
	d, err := s.doors.enter(ctx, id)
	if err != nil {
		return err
	}
	defer s.doors.leave(d)
	about, err := d.About(ctx)
	if err != nil {
		return err
	}
	path, err := d.SnapshotFile(ctx)
	if errors.Is(err, api.ErrElsewhere) {
		return remedy.Add(err, "copy it here, and drop it onto the page")
	}
	if err != nil {
		return err
	}
	_, elsewhere := d.SourceFile(ctx, path)
	m := &s.snapshots
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.find(key); x == nil || x.path != path { // the session keeps the newest
		m.list = slices.DeleteFunc(m.list, func(o *shot) bool { return o == x && x.users == 0 && !x.busy })
		m.list = append(m.list, &shot{key: key, name: about.Name + ": " + filepath.Base(path),
			origin: "session", path: path, here: elsewhere == nil})
	}
	return nil
}
