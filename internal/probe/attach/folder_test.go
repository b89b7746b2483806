package attach

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/test/env"
)

const (
	nobody = 65534
	become = "setpriv --reuid=65534 --regid=65534 --clear-groups "
)

// ways are those in which a user's process gets a mount namespace: a container's, made by root, and one of its own. The
// shell script has run in it.
var ways = map[string]func(script string) *exec.Cmd{
	"made by root": func(script string) *exec.Cmd {
		return exec.Command("unshare", "--mount", "sh", "-ec",
			script+"\nexec "+become+"sh -c 'echo $$; exec sleep 1000'")
	},
	"made by the user": func(script string) *exec.Cmd {
		argv := append(strings.Fields(become), "unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
			script+"\necho $$; exec sleep 1000")
		return exec.Command(argv[0], argv[1:]...)
	},
}

// mounted calls test for each way, with the PID of such a process of nobody's and a directory of root's, to which
// /tmp/… leads in both namespaces. Root's groups may write in it, and it has a secret, root's alone.
func mounted(t *testing.T, script string, test func(t *testing.T, pid int, victim string)) {
	env.Root(t)
	env.Program(t, "setpriv")
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			if out, err := way("exit").CombinedOutput(); err != nil {
				env.Missing(t, "unshare", fmt.Sprintf("%v %s", err, out))
			}
			victim := publicDir(t, 0o775)
			if err := os.WriteFile(filepath.Join(victim, "secret"), []byte("root's"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := way(strings.ReplaceAll(script, "VICTIM", victim))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
			})
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("it has ended: %v", err)
			}
			test(t, cmd.Process.Pid, victim)
			untouched(t, victim)
		})
	}
}

// publicDir is a directory that every user can reach, unlike t.TempDir.
func publicDir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "memgauge-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// untouched checks that a directory of root's has only its secret, and is still root's.
func untouched(t *testing.T, victim string) {
	t.Helper()
	entries, err := os.ReadDir(victim)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "secret" {
		t.Errorf("root's directory has %v", entries)
	}
	var st unix.Stat_t
	if err := unix.Stat(victim, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 0 || st.Gid != 0 || st.Mode&0o777 != 0o775 {
		t.Errorf("root's directory belongs to %d:%d, mode %04o", st.Uid, st.Gid, st.Mode&0o7777)
	}
}

// bind mounts something in a process's mount namespace.
func bind(t *testing.T, pid int, what, where string) {
	t.Helper()
	out, err := exec.Command("nsenter", "--mount", "--target", fmt.Sprint(pid), "mount", "--bind", what,
		where).CombinedOutput()
	if err != nil {
		t.Fatalf("mount: %v\n%s", err, out)
	}
}

// ownedBy checks owner and mode of what a process sees under a name.
func ownedBy(t *testing.T, pid int, path string, mode uint32) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root%s", pid, path), &st); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if st.Uid != nobody || st.Gid != nobody || st.Mode&0o777 != mode {
		t.Errorf("%s belongs to %d:%d, mode %04o", path, st.Uid, st.Gid, st.Mode&0o7777)
	}
}

// TestFolderOfAnotherUser: the folder and what is in it are the target's from the beginning, and go away.
func TestFolderOfAnotherUser(t *testing.T) {
	mounted(t, ":", func(t *testing.T, pid int, _ string) {
		f, err := newFolder(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.fill("run.py", "here"); err != nil {
			t.Error(err)
		}
		ownedBy(t, pid, f.path, 0o700)
		ownedBy(t, pid, f.path+"/run.py", 0o600)
		if text, err := f.read("run.py"); text != "here" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		f.remove()
		if _, err := os.Lstat(f.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is left: %v", err)
		}
		uid, gid := unix.Geteuid(), unix.Getegid()
		if now, _ := unix.SetfsuidRetUid(-1); now != uid {
			t.Errorf("this thread has the rights of user %d", now)
		}
		if now, _ := unix.SetfsgidRetGid(-1); now != gid {
			t.Errorf("this thread has the rights of group %d", now)
		}
	})
}

// TestFolderOnMounts: the target has mounted a directory of root's wherever temporary files belong.
func TestFolderOnMounts(t *testing.T) {
	const script = "for dir in /dev/shm /var/tmp /tmp; do mount --bind VICTIM $dir; done"
	mounted(t, script, func(t *testing.T, pid int, _ string) {
		f, err := newFolder(pid)
		if err == nil {
			f.remove()
		}
		if !errors.Is(err, unix.EACCES) {
			t.Errorf("%v, want %v", err, unix.EACCES)
		}
	})
}

// TestFolderMountedOn: between two of our calls the target mounts a directory of root's on the folder.
func TestFolderMountedOn(t *testing.T) {
	mounted(t, ":", func(t *testing.T, pid int, victim string) {
		root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		s, err := readStatus(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDeputy(s)
		if err != nil {
			t.Fatal(err)
		}
		defer d.end()
		dir := publicDir(t, 0o777|os.ModeSticky)
		f := &folder{name: "folder", uid: nobody, deputy: d}
		if err := f.make(int(root.Fd()), dir); err != nil {
			t.Fatal(err)
		}
		bind(t, pid, victim, filepath.Join(dir, f.name))
		if err := f.enter(); !errors.Is(err, unix.EXDEV) {
			t.Errorf("%v, want %v", err, unix.EXDEV)
		}
		if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is left: %v", err)
		}
	})
}

// TestFolderReplaced: what has the folder's name and isn't the target's, or is open to others, is not entered, even if
// it isn't a mount.
func TestFolderReplaced(t *testing.T) {
	env.Root(t)
	for what, made := range map[string]struct {
		uid  int
		mode os.FileMode
	}{"root's": {0, 0o700}, "open to others": {nobody, 0o755}} {
		dir := publicDir(t, 0o755)
		path := filepath.Join(dir, "folder")
		if err := errors.Join(os.Mkdir(path, made.mode), os.Chown(path, made.uid, made.uid)); err != nil {
			t.Fatal(err)
		}
		d, err := newDeputy(status{fsuid: nobody, fsgid: nobody})
		if err != nil {
			t.Fatal(err)
		}
		parent, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := &folder{parent: parent, name: "folder", uid: nobody, deputy: d}
		if err := f.enter(); err == nil || !strings.Contains(err.Error(), "it belongs to user") {
			t.Errorf("%s: %v", what, err)
		}
		d.end()
		if _, err := os.Lstat(path); err != nil { // nobody may not remove it: the one above is root's
			t.Error(err)
		}
	}
}

// TestFolderReads: a file of root's that the target has mounted on the result is not read, nor is a pipe waited for.
func TestFolderReads(t *testing.T) {
	mounted(t, ":", func(t *testing.T, pid int, victim string) {
		f, err := newFolder(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer f.remove()
		if err := f.fill("part", ""); err != nil {
			t.Fatal(err)
		}
		bind(t, pid, filepath.Join(victim, "secret"), f.path+"/part")
		if text, err := f.read("part"); !errors.Is(err, unix.EXDEV) {
			t.Errorf("%q %v, want %v", text, err, unix.EXDEV)
		}
		out := filepath.Join(f.path, "out")
		if err := errors.Join(unix.Mkfifo(out, 0o600), os.Chown(out, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
		if text, err := f.read("out"); !errors.Is(err, unix.EINVAL) {
			t.Errorf("a pipe: %q %v", text, err)
		}
	})
}

// TestDeputyRefuses: a process whose user is unknown lends no rights, and root's aren't used in their stead.
func TestDeputyRefuses(t *testing.T) {
	env.Root(t)
	if d, err := newDeputy(parseStatus("Name:\tx\n")); err == nil {
		d.end()
		t.Error("it took the rights of nobody known")
	}
	s := parseStatus("Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n")
	if s.uid != 2 || s.fsuid != 4 || s.fsgid != 8 || fmt.Sprint(s.groups) != "[9 10]" {
		t.Errorf("%+v", s)
	}
}
