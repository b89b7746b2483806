"""The way in and out of a process that can't see the session's directory: another mount namespace, or another user's
files. It opens no path. There is a pair of connected sockets of which the program keeps both ends; who may trace the
process takes a copy of the far end (pidfd_getfd(2)) and asks through it, in messages, for what a path would have given:

    new    comes with a stream socket, which then speaks docs/formats/control.md
    ring   comes with the descriptor of a ring's file, allocated in full

Each is answered with "ok" or "error TEXT". Descriptors go in, and none comes out: whoever traces a hostile process
takes no file of its choice. Several clients may hold copies of the far end at once, so their answers may be swapped.
"""
import _socket
import array
import os

from ..pipe import Sock

MAX_MESSAGE = 1024   # bytes
MAX_FDS = 1


class Door:
    """Listens like a socket that is bound to a path. `identity` is (pid, start) as the one outside sees this
    process."""

    def __init__(self, pid, start):
        self.identity = pid, start
        self._near, self._far = _pair(_socket.SOCK_SEQPACKET)
        self._near.setblocking(False)

    def address(self):
        """The number of the far end's descriptor."""
        return self._far.fileno()

    def fileno(self):
        return self._near.fileno()

    def accept(self, hooks):
        """Answers one message; returns the socket of a new connection, or None."""
        text, fds = self._receive()
        if text == b"new" and fds:
            taken = []
            self._send(_try(lambda: taken.append(_socket_of(fds[0]))))
            return taken[0] if taken else None
        if text == b"ring" and fds:
            self._send(_try(hooks.ring, fds[0]))
        else:
            for fd in fds:
                os.close(fd)
            self._send(b"error unknown message")
        return None

    def _receive(self):
        try:
            text, extra, _, _ = self._near.recvmsg(MAX_MESSAGE, _socket.CMSG_SPACE(4 * MAX_FDS),
                                                   _socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return b"", []
        fds = array.array("i")
        for level, kind, data in extra:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                fds.frombytes(data[:len(data) - len(data) % 4])
        return text, list(fds)

    def _send(self, text):
        try:
            self._near.send(text[:MAX_MESSAGE])
        except OSError:     # no client reads; the next one will find a full queue and fail
            pass

    def mine(self):
        return self._near.mine() and self._far.mine()

    def close(self):
        self._near.close()
        self._far.close()


def _pair(kind):
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, kind)
    try:
        ours = Sock(ours)
        return ours, Sock(theirs)
    except BaseException:
        ours.close()
        theirs.close()
        raise


def _socket_of(fd):
    """The stream socket that somebody has given us; the descriptor is closed where it is none."""
    try:
        sock = _socket.socket(fileno=fd)
    except BaseException:
        os.close(fd)
        raise
    if (sock.family, sock.type & 15) != (_socket.AF_UNIX, _socket.SOCK_STREAM):
        sock.close()
        raise ValueError("not a stream socket")
    return Sock(sock)


def _try(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return ("error %s: %s" % (type(error).__name__, error)).encode("utf-8", "backslashreplace")
    return b"ok"
