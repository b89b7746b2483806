"""The agent's control socket: docs/formats/control.md. One thread serves all connections, without blocking on any."""
import _socket
import os
import select
import struct
from time import monotonic

from .. import allowance, gil, state, workers
from ..pipe import Pipe, Sock, identity, release
from .connection import COUNTED, ERROR, HELLO, OK, PONG, STACKS, Connection, encode

MAJOR, MINOR = 1, 2

EVAL, INTERRUPT, PING, DETACH, SETTINGS, BACKTRACE, CENSUS, EVAL_AT = range(1, 9)

MAX_CONNECTIONS = 8       # a user's terminals, and a collector; each may run code in the trainer
SPARE = 1                 # beyond these: if all of them run code, a client must still be able to see why, or to detach
SETTLED = 1.0             # s without a request after which a connection may be closed for a new one
MAX_PATH = 100            # bytes; sockaddr_un takes 108 with the zero (unix(7))
EVENT_TEXT = 2000         # characters of the code that memgauge.events keeps
BEGIN_TEXT = 200          # of the note that code begins: enough to know which code killed the process

_EVAL_HEAD = struct.Struct("<BBd")   # where, whether memgauge itself asks, timeout in s
_PEER = struct.Struct("3i")   # struct ucred: pid, uid, gid


def earliest(a, b):
    """Of two times, each None for never."""
    return b if a is None else a if b is None else min(a, b)


class Control:
    """Listens at path, or through a door. hooks answers the requests: hello() -> str, event(name, text, a, b),
    detach(), settings(dict), tick(), gone(), ring(fd). event() is also called from the threads that run evals."""

    def __init__(self, path, hooks, door=None):
        self.path, self.hooks, self.door = path, hooks, door
        self.listener = None
        self.connections = {}    # fd -> Connection
        self.jobs = []           # evals that run, including those that were given up and still run
        self.detached = False
        self.asker = None        # connection of the client that had the agent detached
        self.last = None         # its socket, which tells by its end that nothing of ours is left
        self.evals = 0

    def open(self):
        self._wakes = Pipe()
        gil.serve(True)
        if self.door is not None:
            self.listener = self.door
            return
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            _bind(listener, self.path)
            os.chmod(self.path, 0o600)   # until now its directory, which is 0700, keeps others out
            listener.listen(MAX_CONNECTIONS)
            self.listener = Sock(listener)
            self.listener.setblocking(False)
        except BaseException:
            listener.close()
            raise

    def run(self, wake):
        """Serves until wake, a pipe, is readable ("wake"), a client has had the agent detached ("detach"; everything is
        closed then, but for `last`) or the program has closed our descriptors ("lost"). After "wake" it may be called
        again, from any thread."""
        gil.punctual()
        while not self.detached:
            ready = self._wait(wake.reader)
            if self.hooks.gone():
                break
            if not (wake.intact() and self._wakes.intact() and self.listener.mine()):
                self.close()
                return "lost"
            if wake.reader in ready:
                return "wake"
            if self._wakes.reader in ready:
                self._wakes.drain()
            if self.listener.fileno() in ready:
                self._accept()
            for connection in list(self.connections.values()):
                self._serve(connection, ready.get(connection.fd, 0))
        if self.asker is not None and self.asker.open:
            self.last = self.connections.pop(self.asker.fd).sock
        self.close()
        return "detach"

    def close(self):
        """Closes and unlinks."""
        gil.serve(False)
        if self.listener is not None:
            try:
                if self.path is not None:
                    os.unlink(self.path)
            except OSError:
                pass
        for job in self.jobs:   # nothing watches their deadlines from now on
            job.interrupt()
            job.tick()
        self.close_in_child()

    def close_in_child(self):
        """Closes this process's descriptors; the parent's socket and connections are not touched."""
        if self.listener is None:
            return
        self.listener.close()
        self.listener = None
        for connection in self.connections.values():
            connection.abandon()
        self.connections, self.jobs = {}, []
        self._wakes.close()

    def wake(self):
        """Makes run() check its jobs; from any thread."""
        self._wakes.wake()

    # ------------------------------------------------------------ the loop

    def _wait(self, wake_fd):
        """{descriptor: events}, empty when a job is due."""
        due = self._tick()
        poll = select.poll()
        poll.register(wake_fd, select.POLLIN)
        poll.register(self._wakes.reader, select.POLLIN)
        poll.register(self.listener.fileno(), select.POLLIN)
        for connection in self.connections.values():
            poll.register(connection.fd, select.POLLIN | (select.POLLOUT if connection.unsent else 0))
        timeout = None if due is None else max(0, int((due - monotonic()) * 1000) + 1)
        return dict(poll.poll(timeout))

    def _tick(self):
        """Runs every job that is due; returns when the next one is due."""
        due = earliest(earliest(self.hooks.tick(), gil.due()), _course())
        due = earliest(due, state.native and state.native())
        if state.census is not None and state.census not in self.jobs:     # begun by the schedule
            self.jobs.append(state.census)
        for job in list(self.jobs):
            when = job.tick()
            if when is not None:
                due = earliest(due, when)
            elif job.outcome is not None:
                self.jobs.remove(job)
        return due

    def _accept(self):
        try:
            if self.door is not None:
                sock = self.door.accept(self.hooks)
            else:
                sock = Sock(_socket.socket(fileno=self.listener._accept()[0]))
        except OSError:   # it has gone again, or no descriptor is free
            return
        if sock is None:
            return
        if sock.fileno() in self.connections:   # of one whose descriptor the program has closed
            self._drop(self.connections[sock.fileno()])
        if not _is_friend(sock) or not self._room():
            sock.close()
            return
        sock.setblocking(False)
        gil.hurry()              # its first request is on the way
        connection = Connection(sock)
        self.connections[connection.fd] = connection
        version = struct.pack("<HHI", MAJOR, MINOR, os.getpid())
        connection.send(HELLO, version, encode(self.hooks.hello()))

    def _room(self):
        """Whether one more connection can be served. If necessary, one that is idle and has long been silent is
        closed."""
        if len(self.connections) >= MAX_CONNECTIONS:
            idle = [c for c in self.connections.values() if c.idle() and c.heard < monotonic() - SETTLED]
            if idle:
                self._drop(min(idle, key=lambda c: c.heard))
        return len(self.connections) < MAX_CONNECTIONS + SPARE

    def _serve(self, connection, events):
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            connection.receive()
            try:
                for kind, payload in connection.frames():
                    self._answer(connection, kind, payload)
            except ValueError as error:
                connection.send(ERROR, encode(str(error)))
                connection.open = False
        connection.flush()
        if not connection.open:
            self._drop(connection)

    def _drop(self, connection):
        if self.connections.pop(connection.fd, None) is None:
            return
        if connection.job is not None:
            connection.job.interrupt()
        connection.abandon()

    # ------------------------------------------------------------ requests

    def _answer(self, connection, kind, payload):
        if kind == PING:
            connection.send(PONG, payload)
        elif kind == INTERRUPT:
            if connection.job is not None:
                connection.job.interrupt()
        elif kind == BACKTRACE:     # also while code of this connection runs: where it is may be the question
            self._stacks(connection, payload[:1] == b"\1")
        elif kind not in (EVAL, EVAL_AT, DETACH, SETTINGS, CENSUS):
            connection.send(ERROR, b"request of unknown type %d" % kind)
        elif connection.job is not None:
            connection.send(ERROR, b"one request at a time: the code of this connection still runs")
        elif kind in (EVAL, EVAL_AT):
            self._eval(connection, payload, kind == EVAL_AT)
        elif kind == CENSUS:
            self._census(connection, payload)
        else:
            self._order(connection, kind, payload)

    def _order(self, connection, kind, payload):
        try:
            if kind == DETACH:
                self.hooks.detach()
                self.detached, self.asker = True, connection
            else:
                self.hooks.settings(_settings(payload))
        except Exception as error:
            connection.send(ERROR, encode("%s: %s" % (type(error).__name__, error)))
        else:
            connection.send(OK)

    def _stacks(self, connection, with_locals):
        from . import stacks
        try:
            text = allowance.readers.take(stacks.report, with_locals)
        except allowance.Spent as error:
            connection.send(ERROR, encode("backtrace: %s" % error))
        except Exception as error:
            connection.send(ERROR, encode("backtrace: %s: %s" % (type(error).__name__, error)))
        else:
            connection.send(STACKS, text)

    def _eval(self, connection, payload, told):
        """`told`: two bytes say where and for whom; else the moment is the default one."""
        from ..evaluate.job import REQUESTS, Job
        try:
            where, own, timeout = _EVAL_HEAD.unpack_from(payload if told else b"\0\0" + payload)
            if where not in REQUESTS:
                raise ValueError("a place of unknown number %d" % where)
            source = payload[_EVAL_HEAD.size if told else 8:].decode("utf-8")
        except (struct.error, ValueError) as error:    # also UnicodeDecodeError
            connection.send(ERROR, encode("eval: %s" % error))
            return
        if not own:
            self.evals += 1
            self.hooks.event("eval begin", source[:BEGIN_TEXT], self.evals, 0)
        gil.hurry()
        job = Job(source, timeout, self.wake, lambda job: self._finished(connection, job), where, bool(own))
        connection.job = job
        try:
            job.start()
        except RuntimeError as error:   # no more threads, or the interpreter is ending
            connection.job = None
            connection.send(ERROR, encode("eval: %s" % error))
            return
        self.jobs.append(job)

    def _census(self, connection, payload):
        from ..census import census

        def finished(job):
            if job.outcome == "done":
                connection.send(COUNTED, encode("".join("%s\t%s\n" % line for line in job.summary())))
            else:
                connection.send(ERROR, b"the census was interrupted: the process ended, or its agent was detached")

        try:
            job, fresh = census.request(_settings(payload).get("deep") == "1", finished)
        except (ValueError, UnicodeDecodeError) as error:
            connection.send(ERROR, encode(str(error)))
            return
        if fresh:
            self.jobs.append(job)

    def _finished(self, connection, job):
        """Records the eval before its client gets the result, so that a query right after finds it."""
        gil.hurry()     # it often has another question
        try:
            if not job.own:
                self.hooks.event("eval", job.source[:EVENT_TEXT], job.outcome, job.nanoseconds // 1000)
        except Exception:   # the ring is gone; the client still gets its answer
            pass
        connection.finish(job)
        self.wake()


def _course():
    """Takes the training's own censuses when they are due."""
    if not state.followed and (state.observer is None or state.observer.ring is None and not workers.is_one()):
        return None
    from ..census import schedule
    return schedule.tick()


def _bind(sock, path):
    """Binds the socket. If the path is longer than a socket's name may be, the directory is given as a descriptor."""
    try:
        os.unlink(path)   # of this very process: the name carries its pid and start
    except FileNotFoundError:
        pass
    if len(os.fsencode(path)) <= MAX_PATH:
        sock.bind(path)
        return
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    known = identity(fd)
    try:
        sock.bind("/proc/self/fd/%d/%s" % (fd, name))
    finally:
        release(fd, known)


def _is_friend(sock):
    """Of a socket that came through a door, this process itself is the peer."""
    _, uid, _ = _PEER.unpack(sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER.size))
    return uid in (0, os.geteuid())


def _settings(payload):
    lines = payload.decode("utf-8").splitlines()
    return dict(line.split("\t", 1) for line in lines if line)
