"""Shuts this process and its children in, before anything of the script runs.

    memgauge_estimate_fence.py SETTINGS        tries it: exit code 0 if all of it can be had here

SETTINGS is JSON. "scratch": a directory that is written for real. "view": directories whose changes go to copies that
nobody else sees (overlayfs, in a mount namespace of ours). "writes": true where files may be written for real.
"network": "" as it is, "own" (a namespace of ours, in which loopback is started), "none" (unix sockets alone)."""
import ctypes
import errno
import json
import os
import struct
import sys

# linux/landlock.h, linux/mount.h; the numbers of the calls are those of all architectures
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, MOUNT_SETATTR = 444, 445, 446, 442
VERSION = 1 << 0
PATH_BENEATH = 1
WRITE_FILE = 1 << 1
CHANGES = sum(1 << n for n in range(4, 13))  # to remove, and to make, files, directories and the rest
REFER, TRUNCATE = 1 << 13, 1 << 14           # since versions 2 and 3
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
AT_RECURSIVE, MOUNT_READ_ONLY = 0x8000, 1
NO_NEW_PRIVS, SET_SECCOMP, CAP_AMBIENT, CLEAR_ALL = 38, 22, 47, 4   # linux/prctl.h
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1                        # linux/sockios.h, if.h

libc = ctypes.CDLL(None, use_errno=True)


def done(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def call(what, number, *args):
    return done(libc.syscall(number, *args), what)


def mount(source, target, kind, flags, data=None):
    encode = os.fsencode
    done(libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), data and encode(data)),
         "mount %s" % target)


def enclose(told):
    """Threads that were there before keep their rights, so it comes first of all."""
    if told["network"] == "own":
        start_loopback()
    writable = [told["scratch"]]
    if told["view"]:
        here = os.getcwd()
        mount("none", "/", "none", MS_REC | MS_PRIVATE)  # nothing of ours is seen outside
        for number, directory in enumerate(sorted({os.path.realpath(d) for d in told["view"]}, key=len)):
            if os.path.isdir(directory) and directory != "/":
                view(directory, told["scratch"], number)
                writable.append(directory)
        os.chdir(here)  # what lies there now
    if os.geteuid() != 0 and (told["view"] or told["network"] == "own"):
        drop_capabilities()
    done(libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if told["network"] == "none":
        no_sockets()
    if not told["writes"]:
        shut(writable)


def start_loopback():
    """A script of one process may meet itself there: torch.distributed does."""
    import fcntl
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        flags = struct.unpack_from("=H", fcntl.ioctl(s, GET_FLAGS, request(0)), 16)[0]
        fcntl.ioctl(s, SET_FLAGS, request(flags | UP))


def request(flags):
    return struct.pack("=16sH22x", b"lo", flags)  # struct ifreq


# --- files ---------------------------------------------------------------------------------------------------------


def view(directory, scratch, number):
    """Mounts a copy-on-write view of a directory over it. What is mounted below it is not part of it (overlayfs sees
    one file system), and is bound into it, read-only."""
    within, points = mounts_below(directory)
    if within.startswith("memgauge-view"):
        return  # a view of a directory above it is here already
    inner = [(p, os.open(p, os.O_PATH)) for p in points]
    own = os.open(scratch, os.O_PATH) if below(scratch, directory) else None
    lower = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        upper = os.path.join(scratch, "view%d" % number)
        os.mkdir(upper)
        try:
            if own is not None:
                raise OSError(errno.ELOOP, "the copies would lie in what is copied")
            overlay(directory, lower, upper, number)
        except OSError:  # no overlay can be made on this file system (a container's own is one): in memory, then
            mount("memgauge", upper, "tmpfs", 0, "mode=700")
            overlay(directory, lower, upper, number)
        for path, fd in inner:
            mount("/proc/self/fd/%d" % fd, path, "none", MS_BIND | MS_REC)
            attributes = struct.pack("=4Q", MOUNT_READ_ONLY, 0, 0, 0)
            call("mount_setattr", MOUNT_SETATTR, -100, os.fsencode(path), AT_RECURSIVE, attributes, ctypes.c_size_t(32))
        if own is not None:
            mount("/proc/self/fd/%d" % own, scratch, "none", MS_BIND | MS_REC)
    finally:
        for fd in [fd for _, fd in inner] + [lower] + ([] if own is None else [own]):
            os.close(fd)


def overlay(directory, lower, upper, number):
    paths = [os.path.join(upper, name) for name in ("files", "work")]
    for path in paths:
        os.mkdir(path)
    os.chmod(paths[0], os.fstat(lower).st_mode & 0o7777)
    fds = [os.open(path, os.O_PATH) for path in paths]  # paths may have characters that mean something in options
    try:
        options = "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d" % (lower, *fds)
        mount("memgauge-view%d" % number, directory, "overlay", 0, options + ",userxattr")
    finally:
        for fd in fds:
            os.close(fd)


def below(path, directory):
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def mounts_below(directory):
    """The source of the mount that a directory lies in, and the outermost mount points below it."""
    source, length, points = "", -1, []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            point = unescaped(left.split()[4])
            if below(directory, point) and len(point) >= length:  # of two at one place the later covers the other
                source, length = right.split()[1], len(point)
            elif below(point, directory):
                points.append(point)
    outermost = [p for p in points if not any(p != o and below(p, o) for o in points)]
    return source, sorted(set(outermost))


def unescaped(text):
    """proc(5): blanks and the like in octal."""
    for octal, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, char)
    return text


def shut(writable):
    """Leaves the directories that are named open to writing, devices and shared memory."""
    version = call("landlock", CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    rights = WRITE_FILE | CHANGES | (REFER if version > 1 else 0) | (TRUNCATE if version > 2 else 0)
    rules = call("landlock", CREATE_RULESET, struct.pack("=Q", rights), ctypes.c_size_t(8), 0)
    for path, allowed in [(p, rights) for p in writable] + [("/dev", WRITE_FILE), ("/dev/shm", rights)]:
        if not os.path.isdir(path):
            continue
        place = os.open(path, os.O_PATH)
        call("landlock", ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", allowed, place), 0)
        os.close(place)
    call("landlock", RESTRICT_SELF, rules, 0)
    os.close(rules)


# --- rights --------------------------------------------------------------------------------------------------------


def drop_capabilities():
    """Those that the namespace gave, so that the script can't undo the mounts."""
    done(libc.prctl(CAP_AMBIENT, CLEAR_ALL, 0, 0, 0), "capabilities")
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)  # linux/capability.h, version 3
    done(libc.capset(header, none), "capabilities")


def no_sockets():
    """A filter of system calls, for where no namespace can be had: sockets of IPv4 and IPv6 are refused, and io_uring,
    which makes some too."""
    machine = os.uname().machine
    if machine not in ("x86_64", "aarch64"):
        raise OSError(errno.ENOSYS, "no filter of system calls for " + machine)
    arch, socket = (0xC000003E, 41) if machine == "x86_64" else (0xC00000B7, 198)
    load, equal, end = 0x20, 0x15, 0x06  # linux/bpf_common.h
    allow, refuse, absent = 0x7FFF0000, 0x00050000 | errno.ENETUNREACH, 0x00050000 | errno.ENOSYS
    code = [(load, 0, 0, 4), (equal, 0, 8, arch),        # another ABI: it has no such numbers; refused as absent
            (load, 0, 0, 0), (equal, 5, 0, 425), (equal, 0, 3, socket),
            (load, 0, 0, 16), (equal, 4, 0, 2), (equal, 3, 0, 10),
            (end, 0, 0, allow), (end, 0, 0, absent), (end, 0, 0, absent), (end, 0, 0, refuse)]
    text = b"".join(struct.pack("=HBBI", *line) for line in code)
    held = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("@HP", len(code), ctypes.addressof(held))
    done(libc.prctl(SET_SECCOMP, 2, program, 0, 0), "seccomp")


if __name__ == "__main__":
    try:
        enclose(json.loads(sys.argv[1]))
    except OSError as error:
        sys.exit(str(error))
