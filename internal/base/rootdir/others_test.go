package rootdir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/test/env"
)

// Two uids of nobody here.
const (
	user     = 12345
	stranger = 12346
)

// openTo is a directory that others reach, with exactly that mode.
func openTo(t *testing.T, mode os.FileMode) string {
	t.Helper()
	top := t.TempDir()
	for at, n := top, 0; n < 2; at, n = filepath.Dir(at), n+1 {
		must(t, os.Chmod(at, 0o755))
	}
	dir := filepath.Join(top, "d")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, mode))
	return dir
}

// Temporary files are not made where others can exchange the directory that they are in.
func TestTempOfOthers(t *testing.T) {
	open, sticky := openTo(t, 0o777), openTo(t, os.ModeSticky|0o777)
	below := filepath.Join(open, "below")
	must(t, os.Mkdir(below, 0o700))
	refused := []string{open, below}
	if os.Geteuid() == 0 {
		theirs := openTo(t, 0o755)
		must(t, os.Chown(theirs, stranger, stranger))
		link := filepath.Join(sticky, "link")
		must(t, os.Symlink(t.TempDir(), link))
		must(t, os.Lchown(link, stranger, stranger))
		refused = append(refused, theirs, link)
	}
	for _, dir := range refused {
		d, err := Temp(dir, "temp-")
		others := errors.Is(err, trust.ErrOthers) && remedy.Of(err) != ""
		if !others && !errors.Is(err, ErrForeign) {
			t.Errorf("below %s: %v", dir, err)
		}
		if err == nil {
			must(t, d.Discard())
		}
		if _, err := firstPlace(dir, dir); err == nil || remedy.Of(err) == "" {
			t.Errorf("no other place than %s: %v", dir, err)
		}
		other, err := firstPlace(dir, sticky)
		must(t, err)
		if other.Path() != sticky {
			t.Errorf("in place of %s: %s", dir, other.Path())
		}
		must(t, other.Close())
		t.Setenv("TMPDIR", dir) // both go to /tmp, or fail where that can't be used
		if d, err := Temp("", "temp-"); err == nil {
			if filepath.Dir(d.Path()) == dir {
				t.Errorf("made %s", d.Path())
			}
			must(t, d.Discard())
		}
		if f, err := Anonymous("temp-"); err == nil {
			if filepath.Dir(f.Name()) == dir {
				t.Errorf("made %s", f.Name())
			}
			must(t, f.Close())
		}
	}
	t.Setenv("TMPDIR", sticky)
	d, err := Temp("", "temp-")
	must(t, err)
	if filepath.Dir(d.Path()) != sticky {
		t.Errorf("in a sticky directory: %s", d.Path())
	}
	must(t, d.Discard())
}

// In a directory like /tmp nobody follows a stranger's link, whatever the kernel's fs.protected_symlinks is.
func TestLinksInSharedDirectories(t *testing.T) {
	env.Root(t)
	target := openTo(t, 0o755)
	links := func(mode os.FileMode) string {
		dir := openTo(t, mode)
		for _, uid := range []int{0, user, stranger} {
			link := filepath.Join(dir, name(uid))
			must(t, os.Symlink(target, link))
			must(t, os.Lchown(link, uid, uid))
		}
		return dir
	}
	shared, open, theirs := links(os.ModeSticky|0o777), links(0o777), links(0o755)
	check := func(path string, good bool) {
		t.Helper()
		d, err := Open(path)
		if err == nil {
			d.Close()
		}
		if (err == nil) != good || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("on the way, %s: %v", path, err)
		}
		d, _, err = Named(path)
		if err == nil {
			d.Close()
		}
		if (err == nil) != good || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("named, %s: %v", path, err)
		}
	}
	env.As(t, user, func() {
		for _, dir := range []string{shared, open} {
			check(filepath.Join(dir, name(user)), true)
			check(filepath.Join(dir, name(0)), true) // the directory's owner
			check(filepath.Join(dir, name(stranger)), false)
		}
		check(filepath.Join(theirs, name(stranger)), true)
	})
}

func name(uid int) string { return map[int]string{0: "root", user: "user", stranger: "stranger"}[uid] }

// pipe makes a named pipe of a user's with a reader.
func pipe(t *testing.T, path string, uid int) *os.File {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o600))
	must(t, os.Chmod(path, 0o666))
	must(t, os.Lchown(path, uid, uid))
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// A stranger's pipe in a directory like /tmp gets nothing.
func TestDevicesOfOthers(t *testing.T) {
	env.Root(t)
	for mode, refused := range map[os.FileMode]bool{os.ModeSticky | 0o777: true, 0o777: true, 0o755: false} {
		dir := openTo(t, mode)
		own, theirs, roots := filepath.Join(dir, "own"), filepath.Join(dir, "theirs"), filepath.Join(dir, "roots")
		r := pipe(t, own, user)
		pipe(t, roots, 0)
		pipe(t, theirs, stranger)
		env.As(t, user, func() {
			d, err := Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			for _, name := range []string{"own", "roots", "theirs"} {
				f, err := d.Device(name)
				if err == nil {
					_, err = f.WriteString("rows")
					f.Close()
				}
				if bad := refused && name == "theirs"; bad != errors.Is(err, ErrRefused) || !bad && err != nil {
					t.Errorf("%s/%s: %v", dir, name, err)
				}
			}
		})
		if b, err := io.ReadAll(r); err != nil || string(b) != "rows" {
			t.Errorf("read: %q, %v", b, err)
		}
	}
}

// What has come to a device's name since it was looked at is not written: neither a file nor what a link leads to.
func TestDeviceThatIsNone(t *testing.T) {
	y := newYard(t)
	must(t, os.Symlink(filepath.Join(y.victim, "a"), filepath.Join(y.at, "link")))
	must(t, os.Symlink("/dev/null", filepath.Join(y.at, "null")))
	must(t, y.MakeText("file", []byte(precious)))
	for _, name := range []string{"link", "null", "file"} {
		if f, err := y.Device(name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	d, err := Open("/proc/self/fd")
	must(t, err)
	defer d.Close()
	i, err := d.Lstat(filepath.Base((&Dir{f: w}).FD()))
	must(t, err)
	f, err := d.Device(i.Name)
	must(t, err)
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_WRONLY == 0 {
		t.Errorf("flags %o, %v", flags, err)
	}
	must(t, f.Close())
	must(t, In("/dev/null", func(d *Dir, name string) error {
		f, err := d.Device(name)
		if err != nil {
			return err
		}
		return f.Close()
	}))
}
