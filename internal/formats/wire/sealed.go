package wire

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A process of another user gets its ring from us as a descriptor. With the descriptor of a regular file it could fill
// that file's disk for as long as it lives, even after the file's name is removed. So it gets a sealed memory file,
// whose size nobody can change (memfd_create(2), F_ADD_SEALS). The directory of rings holds a reference instead, and a
// reader finds the memory file among the process's mappings.

const (
	sealedName  = "memgauge-ring"
	sealedMagic = sealedName + " in memory, inode "
	sealedSeals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	sealedSize  = HeaderSize + 65536*SlotSize + 1<<20 // bytes; the agent's LARGE (ring.py)

	maxReference = 128      // bytes of a reference
	maxMaps      = 64 << 20 // bytes of /proc/PID/maps: 65,530 mappings with long paths are 18 MB
)

// SealedRing makes a sealed memory file for a ring, and the reference to it for the directory of rings. It fails if the
// kernel has no such files, or if we could not open it again by the reference (that needs CAP_CHECKPOINT_RESTORE or
// CAP_SYS_ADMIN).
func SealedRing() (ring *os.File, reference []byte, err error) {
	fd, err := unix.MemfdCreate(sealedName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("make a ring in memory: %w", err)
	}
	ring = os.NewFile(uintptr(fd), sealedName)
	var st unix.Stat_t
	if err = unix.Ftruncate(fd, sealedSize); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealedSeals)
	}
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil {
		err = findable(fd, st.Ino)
	}
	if err != nil {
		ring.Close()
		return nil, nil, fmt.Errorf("make a ring in memory: %w", err)
	}
	return ring, fmt.Appendf(nil, "%s%d\n", sealedMagic, st.Ino), nil
}

// findable tries in this process what a reader will do later.
func findable(fd int, inode uint64) error {
	area, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(area)
	f, err := openMapped(os.Getpid(), inode)
	if err != nil {
		return err
	}
	return f.Close()
}

// OpenRingFile opens a ring for reading, a file or memory. It refuses links, and pipes, whose opening would block. The
// error is os.ErrNotExist also if a ring in memory is gone with its process.
func OpenRingFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxReference {
		return f, nil // reading it will fail with the reason
	}
	text, err := io.ReadAll(io.LimitReader(f, maxReference))
	digits, ok := strings.CutPrefix(string(text), sealedMagic)
	inode, perr := strconv.ParseUint(strings.TrimSuffix(digits, "\n"), 10, 64)
	name, named := ParseRingName(filepath.Base(path))
	if err != nil || !ok || perr != nil || !named {
		return f, nil
	}
	f.Close()
	return openMapped(name.PID, inode)
}

// openMapped finds a sealed ring among a process's mappings.
func openMapped(pid int, inode uint64) (*os.File, error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	text, err := io.ReadAll(io.LimitReader(maps, maxMaps))
	if err != nil {
		return nil, fmt.Errorf("look for a ring in process %d: %w", pid, os.ErrNotExist) // it is just ending
	}
	want := strconv.FormatUint(inode, 10)
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("/memfd:"+sealedName)) {
			continue
		}
		if fields := strings.Fields(string(line)); len(fields) > 4 && fields[4] == want {
			return openSealed(fmt.Sprintf("/proc/%d/map_files/%s", pid, fields[0]), inode)
		}
	}
	return nil, fmt.Errorf("process %d has no ring %d in memory: %w", pid, inode, os.ErrNotExist)
}

// openSealed opens a mapping and checks inode and seals, since any process may map a memory file of that name.
func openSealed(path string, inode uint64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil || st.Ino != inode || seals&sealedSeals != sealedSeals {
		f.Close()
		return nil, fmt.Errorf("%s is not a ring of ours: %w", path, os.ErrNotExist)
	}
	return f, nil
}
