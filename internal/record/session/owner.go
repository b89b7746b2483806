package session

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// errForeign means that a session belongs to another user. Root gets it too: that user can forge every file of the
// session, the links, the sockets and the processes that session.json names included, and a reader with root's rights
// lends those rights to the forger. To refuse is simpler than to read without trust, and costs root nothing: with sudo
// -u root has the owner's own rights, and gets what the owner would get, a live session's answers included.
var errForeign = rootdir.ErrForeign

// checkOwner refuses what another user made.
func checkOwner(dir string) error {
	d, err := rootdir.Open(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return remedy.Add(fmt.Errorf("%w: no such directory", ErrNone),
				"memgauge list -a shows the sessions that there are")
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("%w: not a directory", ErrNone)
		}
		return err
	}
	defer d.Close()
	uid, err := d.Owner()
	if err != nil {
		return err
	}
	return checkUID(uid)
}

func checkUID(uid uint32) error {
	if int(uid) == os.Geteuid() {
		return nil
	}
	hint := "ask its owner for a copy, or run as that user"
	if os.Geteuid() == 0 {
		hint = "ask with its owner's rights: sudo -u " + userName(uid) + " memgauge …"
	}
	return remedy.Add(fmt.Errorf("%w, uid %d", errForeign, uid), hint)
}

// userName is what sudo -u takes.
func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("'#%d'", uid)
}

// made are the files of a session's directory, each of the kind that memgauge makes.
var made = map[string]fs.FileMode{metaFile: 0, endFile: 0, lockFile: 0, keepFile: 0, dbFile: 0, dbFile + ".wal": 0,
	logFile: 0, ringsDir: fs.ModeDir, ctlDir: fs.ModeDir, nativeDir: fs.ModeDir, socket: fs.ModeSocket}

// checkFiles refuses a directory that isn't ours, or that contains something other than what we put there: a link in
// place of a file that we would write or execute (a session received from somebody may contain such links), a named
// pipe that we would wait for, or another user's file. A file that does not exist yet is made by us.
func checkFiles(dir string) error {
	if err := checkOwner(dir); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		st, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if kind := st.Mode().Type(); kind != made[name] {
			return fmt.Errorf("%s is %s, where memgauge makes %s", name, rootdir.Kind(kind), rootdir.Kind(made[name]))
		}
		if err := checkUID(st.Sys().(*syscall.Stat_t).Uid); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	return nil
}

// ownsRuntime distinguishes a runtime directory that was made for this very session from one that a copied session.json
// names: the files in it are drained and removed.
func (s *Session) ownsRuntime() bool {
	if !s.InPlace() {
		return false
	}
	var st syscall.Stat_t
	err := syscall.Lstat(s.Meta.Runtime, &st)
	return err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR && int(st.Uid) == os.Geteuid() &&
		filepath.Base(s.Meta.Runtime) == s.Meta.ID
}
