package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// networkTypes are the file systems whose pages depend on another machine, by statfs f_type. A mapped file there can
// kill its writer with SIGBUS or hang it. The list is from include/uapi/linux/magic.h; for those outside the kernel
// from coreutils, which marks them "remote": https://github.com/coreutils/coreutils/blob/master/src/stat.c
// (human_fstype).
var networkTypes = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.V9FS_MAGIC:        "9p",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x0BD00BD0:             "Lustre",
	0x47504653:             "GPFS",
	0x19830326:             "BeeGFS", // FHGFS in coreutils
	0x20030528:             "OrangeFS",
	0x01161970:             "GFS2",
	0xAAD7AAEA:             "PanFS",
	0xBEEFDEAD:             "StorNext",
	0x61636673:             "ACFS",
	0x013111A8:             "IBRIX",
	0xBACBACBC:             "VMware shared folder",
	0x786F4256:             "VirtualBox shared folder",
	0x7C7C6673:             "Parallels shared folder",
}

// localFUSE are the FUSE file systems that keep their data on a disk of this machine. Any other FUSE file system counts
// as a network file system (sshfs, gcsfuse, s3fs, glusterfs, JuiceFS, alluxio, virtiofs …). A wrong "network" costs
// nothing but another place for the rings; a wrong "local" may cost the training.
var localFUSE = []string{
	"fuseblk", // ntfs-3g, exfat
	"fuse.bindfs", "fuse.encfs", "fuse.ext2", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.lxcfs", "fuse.mergerfs",
	"fuse.ntfs", "fuse.ntfs-3g", "fuse.unionfs", "fuse.zfs",
}

// NetworkFS returns the kind of file system on which path lies, and whether its data are on another machine.
func NetworkFS(path string) (kind string, network bool, err error) {
	var st unix.Statfs_t
	for {
		err = unix.Statfs(path, &st)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("statfs %s: %w", path, err)
	}
	magic := uint32(st.Type) // int64 here, int32 or uint32 elsewhere; every magic has 32 bits
	if magic == unix.FUSE_SUPER_MAGIC {
		return fuseKind(path)
	}
	kind, network = classify(magic)
	return kind, network, nil
}

func classify(magic uint32) (kind string, network bool) {
	if kind, ok := networkTypes[magic]; ok {
		return kind, true
	}
	return fmt.Sprintf("a local file system (type %#x)", magic), false
}

// fuseKind reads the mount table, since all FUSE file systems have one magic number (virtiofs has it too).
func fuseKind(path string) (kind string, network bool, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", false, err
	}
	dev := uint64(st.Sys().(*syscall.Stat_t).Dev)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "FUSE", true, nil // unknown counts as network, see localFUSE
	}
	fsType, ok := mountedAs(string(mounts), fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)))
	if !ok {
		return "FUSE", true, nil
	}
	kind, network = classifyFUSE(fsType)
	return kind, network, nil
}

// mountedAs finds the type of a device's file system in mountinfo (proc_pid_mountinfo(5)): "ID PARENT MAJOR:MINOR … -
// TYPE …".
func mountedAs(mounts, device string) (fsType string, ok bool) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) > 2 && len(tail) > 0 && head[2] == device {
			return tail[0], true
		}
	}
	return "", false
}

func classifyFUSE(fsType string) (kind string, network bool) {
	return strings.TrimPrefix(fsType, "fuse."), !slices.Contains(localFUSE, fsType)
}
