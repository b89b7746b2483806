// Package trust owns the question of who else can change what lies at a path: it checks owners and modes of the path
// and of every directory on the way to it. It changes nothing, and does not know what the files are for.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ErrOthers means that somebody else, who is not root, owns or can write a file, or a directory on the way to it.
var ErrOthers = errors.New("others can change it")

// Level is how strict the checks of a path are.
type Level int

const (
	// Data may lie below directories that the user's own group can write.
	Data Level = iota
	// Code will be executed: nobody but its user and root may be able to replace it.
	Code
)

// maxLinks is how many symbolic links are followed on one path, as the kernel does (path_resolution(7)).
const maxLinks = 40

// Path checks every existing component of an absolute path, including symbolic links and their targets. The last one
// must belong to the user, those above it to the user or root. A component that does not exist yet can be created, and
// then belongs to the user. A directory below one that only its owner may enter can have any mode: nobody else gets
// there.
func Path(path string, level Level) error {
	w := walk{level: level}
	return w.to(filepath.Clean(path))
}

// Place is Path for a directory in which something new is made: it may be root's, as /tmp is.
func Place(dir string, level Level) error {
	w := walk{level: level, place: true}
	return w.to(filepath.Clean(dir))
}

type walk struct {
	level   Level
	place   bool // the last component may be root's
	links   int
	private bool // a directory on the way admits only its owner
}

func (w *walk) to(path string) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := "/"
	for i, part := range append([]string{""}, parts...) {
		at = filepath.Join(at, part) // of no links, so that ".." leads where the kernel goes
		w.private = w.private && part != ".."
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := w.owner(at, info); err != nil {
				return err
			}
			return w.through(at, parts[i:])
		}
		if err := w.step(at, info, i == len(parts)); err != nil {
			return err
		}
	}
	return nil
}

// through follows a link that its directory's owner has made. A private directory on the way to the link says nothing
// about its target.
func (w *walk) through(link string, rest []string) error {
	if w.links++; w.links > maxLinks {
		return fmt.Errorf("%s: %w", link, syscall.ELOOP)
	}
	target, err := os.Readlink(link)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(target) {
		target = filepath.Dir(link) + "/" + target
	}
	w.private = false
	return w.to(strings.Join(append([]string{target}, rest...), "/"))
}

func (w *walk) step(at string, info fs.FileInfo, last bool) error {
	if err := w.owner(at, info); err != nil {
		return err
	}
	uid, mode := info.Sys().(*syscall.Stat_t).Uid, info.Mode()
	if last && !w.place && int(uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d: %w", at, uid, ErrOthers)
	}
	if mode&fs.ModeSticky == 0 && !w.private {
		switch {
		case mode&0o002 != 0:
			return fmt.Errorf("everybody can write %s: %w", at, ErrOthers)
		case mode&0o020 != 0 && w.level == Code:
			return fmt.Errorf("its group can write %s: %w", at, ErrOthers)
		}
	}
	w.private = w.private || mode.IsDir() && mode&0o011 == 0
	return nil
}

func (w *walk) owner(at string, info fs.FileInfo) error {
	uid := info.Sys().(*syscall.Stat_t).Uid
	if Foreign(uid) {
		return fmt.Errorf("%s belongs to uid %d: %w", at, uid, ErrOthers)
	}
	return nil
}

// Tree checks a directory and everything in it: all belongs to the user, nobody else can write it, there are only files
// and directories, and expected knows each by its path below dir.
func Tree(dir string, expected func(path string, isDir bool) bool) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that has just been renamed
		}
		if err != nil {
			return err
		}
		below, _ := filepath.Rel(dir, path)
		switch {
		case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
			return fmt.Errorf("%s belongs to uid %d: %w", path, info.Sys().(*syscall.Stat_t).Uid, ErrOthers)
		case info.Mode()&0o022 != 0 && info.Mode()&fs.ModeSymlink == 0:
			return fmt.Errorf("%s can be written by others: %w", path, ErrOthers)
		case !info.IsDir() && !info.Mode().IsRegular(), below != "." && !expected(below, info.IsDir()):
			return fmt.Errorf("%s is none of ours: %w", path, ErrOthers)
		}
		return nil
	})
}

// Foreign recognises a user who is neither we nor root. In a user namespace the kernel shows all unmapped users as one
// (user_namespaces(7)). The machine's root, to whom / and /usr belong, is one of them.
func Foreign(uid uint32) bool {
	return uid != 0 && int(uid) != os.Geteuid() && !(nested() && uid == overflow())
}

var nested = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(text))
	return err == nil && !(len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295")
})

var overflow = sync.OnceValue(func() uint32 {
	text, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
	uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 65534 // DEFAULT_OVERFLOWUID, include/linux/highuid.h
	}
	return uint32(uid)
})
