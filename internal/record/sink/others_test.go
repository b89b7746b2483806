package sink

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/test/env"
)

// Two uids of nobody here.
const (
	user     = 12345
	stranger = 12346
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shared is a directory like /tmp.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, os.ModeSticky|0o777)))
	return dir
}

func write(out Sink, err error) error {
	if err != nil {
		return err
	}
	defer out.Discard()
	if _, err := io.WriteString(out, "rows"); err != nil {
		return err
	}
	return out.Commit()
}

// A default name is not written through a link that comes at the last moment. A look followed by another one lost this
// within some tens of rounds.
func TestDefaultNameBecomesALink(t *testing.T) {
	dir := t.TempDir()
	victim, path, aside := filepath.Join(dir, "victim"), filepath.Join(dir, "out"), filepath.Join(dir, "aside")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Symlink(victim, aside))
	stop := env.Exchange(path, aside)
	for range 300 {
		_ = os.Remove(path)
		_ = os.Remove(aside)
		_ = os.WriteFile(path, nil, 0o600)
		_ = os.Symlink(victim, aside)
		_ = write(CreateNamed(path))
	}
	stop()
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the victim has %q, %v", b, err)
	}
}

// What a stranger has put at a name in a directory like /tmp gets no rows: no pipe, and nothing behind a link.
func TestNamesOfStrangers(t *testing.T) {
	env.Root(t)
	dir, home := shared(t), shared(t)
	must(t, errors.Join(os.Chown(home, user, user), os.Chmod(home, 0o755)))
	victim, link, pipe := filepath.Join(home, "victim"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Chown(victim, user, user))
	must(t, errors.Join(os.Symlink(victim, link), os.Lchown(link, stranger, stranger)))
	must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Chmod(pipe, 0o666), os.Chown(pipe, stranger, stranger)))
	r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer r.Close()
	env.As(t, user, func() {
		if err := write(Create(link)); !errors.Is(err, rootdir.ErrForeign) {
			t.Errorf("the link: %v", err)
		}
		if err := write(Create(pipe)); !errors.Is(err, rootdir.ErrRefused) {
			t.Errorf("the pipe: %v", err)
		}
	})
	if b, err := io.ReadAll(r); err != nil || len(b) != 0 {
		t.Errorf("the pipe got %q, %v", b, err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the victim has %q, %v", b, err)
	}
}

// A file keeps its mode only if it is ours: a stranger who has prepared it does not choose who reads the rows.
func TestModeOfAStrangersFile(t *testing.T) {
	env.Root(t)
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o027))
	for owner, want := range map[int]fs.FileMode{0: 0o666, stranger: 0o640} {
		path := filepath.Join(dir, "out")
		must(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666), os.Chown(path, owner, owner)))
		must(t, write(Create(path)))
		if st, err := os.Stat(path); err != nil || st.Mode() != want || st.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("a file of uid %d became %v, %v", owner, st.Mode(), err)
		}
	}
}
