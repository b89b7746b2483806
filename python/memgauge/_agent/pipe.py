"""Our descriptors in the program's process, and the pipe that wakes the control thread.

A program may close all descriptors (daemons do), and files that it opens later get our numbers. We must not read, write
or close those. So our descriptors have high numbers, which the kernel gives to new files last, and fstat identifies
them right before each use. A descriptor that is not ours any more is forgotten.
"""
import os

LOW = 3              # numbers below are the program's standard streams, even while it has none
# just below where the kernel doubles a process's table (fs/file.c, alloc_fdtable: 1,024 numbers of 8 bytes)
HIGH = 960


def high(fd):
    """The descriptor at another number; `fd` is closed. Below the limit, whatever that is; it stays where no other is
    free."""
    import fcntl
    try:
        limit = os.sysconf("SC_OPEN_MAX")
        for lowest in (min(HIGH, limit - limit // 4) if limit > 0 else HIGH, LOW):
            try:
                moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
            except (OSError, ValueError):    # the last numbers are taken
                continue
            release(fd, identity(moved))
            return moved
        if fd < LOW:
            raise OSError("no descriptor is free")
    except BaseException:
        os.close(fd)
        raise
    return fd


def identity(fd):
    """Identifies the file behind a descriptor. Raises OSError."""
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def same(fd, known):
    try:
        return fd >= 0 and identity(fd) == known
    except OSError:
        return False


def release(fd, known):
    """Closes a descriptor if it is still that file."""
    if same(fd, known):
        os.close(fd)


def proc(path, most):
    """What a small file of /proc says, as bytes, up to `most`: one read. Raises OSError. Its descriptor has a low
    number for a moment, and the program may close that and take it meanwhile."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    known = identity(fd)
    try:
        return os.read(fd, most)
    finally:
        release(fd, known)


class Sock:
    """A socket that knows whether its number is still its own. What is asked of one that is not raises OSError."""

    __slots__ = ("sock", "known")

    def __init__(self, sock):
        import _socket
        self.sock = _socket.socket(fileno=high(sock.detach()))
        self.known = identity(self.sock.fileno())

    def mine(self):
        return same(self.sock.fileno(), self.known)

    def __getattr__(self, name):
        if not self.mine():
            raise OSError("the program has closed our socket")
        return getattr(self.sock, name)

    def fileno(self):
        return self.sock.fileno()

    def detach(self):
        return self.sock.detach()

    def close(self):
        self.sock.close() if self.mine() else self.sock.detach()


class Pipe:
    """Wakes the control thread."""

    __slots__ = ("reader", "writer", "known")

    def __init__(self):
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.reader = high(self.reader)
        except BaseException:
            os.close(self.writer)
            raise
        try:
            self.writer = high(self.writer)
        except BaseException:
            os.close(self.reader)
            raise
        self.known = identity(self.reader)

    def wake(self):
        try:
            if same(self.writer, self.known):
                os.write(self.writer, b".")
        except OSError:     # full: it is awake already
            pass

    def drain(self):
        try:
            while same(self.reader, self.known) and len(os.read(self.reader, 4096)) == 4096:
                pass
        except OSError:     # empty
            pass

    def intact(self):
        return same(self.reader, self.known) and same(self.writer, self.known)

    def close(self):
        release(self.reader, self.known)
        release(self.writer, self.known)
