"""Wakes the control thread."""
import os


class Pipe:
    """Its numbers may have become files of the user's, after a daemon's close-everything, so each use
    makes sure that they are still the pipe."""

    __slots__ = ("reader", "writer", "identity")

    def __init__(self):
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        info = os.fstat(self.reader)
        self.identity = (info.st_dev, info.st_ino)

    def _mine(self, fd):
        try:
            info = os.fstat(fd)
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == self.identity

    def wake(self):
        try:
            if self._mine(self.writer):
                os.write(self.writer, b".")
        except OSError:     # full: it is awake already
            pass

    def drain(self):
        try:
            if self._mine(self.reader):
                os.read(self.reader, 4096)
        except OSError:     # empty
            pass

    def intact(self):
        return self._mine(self.reader) and self._mine(self.writer)

    def close(self):
        for fd in (self.reader, self.writer):
            if self._mine(fd):
                os.close(fd)
