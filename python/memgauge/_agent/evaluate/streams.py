"""Whose output is it? Stands in for sys.stdout, sys.stderr and sys.stdin while an eval runs.

A stand-in decides by the thread: output of the eval's own threads goes to that eval, output of any other thread to the
original stream. It is installed for the first running eval and removed after the last one, unless the program has
replaced the stream meanwhile; then the program's stays. Only Python's own streams can be separated: output of C code or
child processes to descriptors 1 and 2 goes where the trainer's output goes.
"""
import _thread
import sys

from .. import persistent

STDOUT = 1
STDERR = 2

# Texts are cut to pieces of this many characters, and a sink holds so many pieces: at most 2 Mi characters wait for a
# slow client, 8 MiB in the worst case.
PIECE = 4096
QUEUED = 512

_lock = _thread.allocate_lock()  # guards what is installed; taken by eval threads and the control thread only
_running = set()                 # sinks of the evals that run
_sinks = {}                      # thread ident -> Sink
_installed = []                  # not empty while the stand-ins are in
_used = []                       # not empty once the stand-ins were in
_started = [None]                # threading.Thread.start as it was, while ours is in


class Sink:
    """Receives the output of one eval. `signal()` is called when new output is in `queue`."""

    def __init__(self, signal):
        from collections import deque
        self.queue = deque()     # (stream, text); append and popleft are atomic
        self.signal = signal
        self.signalled = False
        self.closed = False

    def write(self, stream, text):
        from time import sleep
        for start in range(0, len(text), PIECE):
            while len(self.queue) >= QUEUED and not self.closed:
                self.signal()
                sleep(0.002)     # the client is slow; the code waits for it, as it would for a pipe
            self.queue.append((stream, text[start:start + PIECE]))
            if not self.signalled:
                self.signalled = True   # first: the reader resets it before it takes
                self.signal()


class Stand:
    """In place of sys.stdout or sys.stderr."""

    def __init__(self, real, stream):
        self.__dict__.update(_real=real, _stream=stream)

    def write(self, text):
        sink = _mine()
        if sink is None:
            return len(text) if self._real is None else self._real.write(text)
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        sink.write(self._stream, text)
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        if _mine() is None and self._real is not None:
            self._real.flush()

    def isatty(self):
        return _mine() is None and self._real is not None and self._real.isatty()

    def fileno(self):
        if _mine() is not None:
            _unsupported("fileno")
        return self._real.fileno()

    @property
    def encoding(self):
        return "utf-8" if _mine() is not None else self._real.encoding

    @property
    def buffer(self):
        return _Bytes(self) if _mine() is not None else self._real.buffer

    def __getattr__(self, name):
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name, value):
        setattr(self._real, name, value)   # the trainer's: somebody patches sys.stdout.write, say

    def __delattr__(self, name):
        delattr(self._real, name)


class StandIn(Stand):
    """In place of sys.stdin: an eval reads end of file at once, and never takes a line from the trainer."""

    def _read(self, name, empty, arguments):
        return empty if _mine() is not None else getattr(self._real, name)(*arguments)

    def read(self, *arguments):
        return self._read("read", "", arguments)

    def readline(self, *arguments):
        return self._read("readline", "", arguments)

    def readlines(self, *arguments):
        return self._read("readlines", [], arguments)

    def __iter__(self):
        return iter(()) if _mine() is not None else iter(self._real)

    def __next__(self):
        if _mine() is not None:
            raise StopIteration
        return next(self._real)

    @property
    def buffer(self):
        if _mine() is not None:
            _unsupported("buffer")
        return self._real.buffer


class _Bytes:
    """sys.stdout.buffer of an eval."""

    def __init__(self, text):
        self._text = text

    def write(self, data):
        self._text.write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)

    def flush(self):
        pass


# Never freed, and they keep the last real streams: print() works with a borrowed reference to sys.stdout (until CPython
# gh-130163, 3.13.3), so whatever is taken out while another thread is in the middle of a print must outlive that print.
_stands = {"stdout": Stand(None, STDOUT), "stderr": Stand(None, STDERR), "stdin": StandIn(None, 0)}


def _unsupported(name):
    from io import UnsupportedOperation
    raise UnsupportedOperation(name + ": this stream belongs to a memgauge eval")


def _mine():
    """The sink of the calling thread, None for the trainer's threads."""
    sink = _sinks.get(_thread.get_ident())
    if sink is None and _sinks:
        sink = _inherited()
    return None if sink is None or sink.closed else sink


def _inherited():
    """Output of a thread that the eval's code has started goes to the eval, as long as the eval runs."""
    threading = sys.modules.get("threading")
    if threading is None:
        return None
    thread = threading._active.get(_thread.get_ident())
    return getattr(thread, "_memgauge_sink", None)


def enter(sink):
    """The calling thread runs an eval that prints to sink."""
    with _lock:
        _running.add(sink)
        _sinks[_thread.get_ident()] = sink
        if not _installed:
            _install()


def leave(sink):
    """The eval is over or given up: sink accepts no more output. Any thread may call this, more than once."""
    with _lock:
        sink.closed = True
        _running.discard(sink)
        for ident in [i for i, s in list(_sinks.items()) if s is sink]:
            del _sinks[ident]
        if not _running:
            _uninstall()


def after_fork():
    """In a forked child: the streams are the process's own again, whatever ran in the parent."""
    global _lock
    _lock = _thread.allocate_lock()   # the parent's may have been held at that moment
    for sink in _running:
        sink.closed = True
    _running.clear()
    _sinks.clear()
    _uninstall()


def _install():
    for name, stand in _stands.items():
        real = getattr(sys, name, None)
        if real is not stand:   # it is where somebody kept it and put it back after we had left
            stand.__dict__["_real"] = real
            setattr(sys, name, stand)
    _installed.append(True)
    _used[:] = [True]
    _watch_threads()


def _uninstall():
    for name, stand in _stands.items():
        if _installed and getattr(sys, name, None) is stand:
            setattr(sys, name, stand.__dict__["_real"])
    _installed.clear()
    _unwatch_threads()


KEPT = 60.0    # s; longer than an object takes to be turned into text in the middle of a print


def retire():
    """After a detach: stand-ins that were in stay for a while, see _stands. Says whether the module must stay with
    them."""
    from time import monotonic
    kept = persistent.get("streams.1", list)
    kept[:] = [entry for entry in kept if entry[0] > monotonic()]
    if _used:
        kept.append((monotonic() + KEPT, _stands))
    return bool(_used)


def _watch_threads():
    """Threads have no parents in Python, so Thread.start notes one while an eval runs."""
    threading = sys.modules.get("threading")
    if threading is None or _started[0] is not None:
        return
    start = _started[0] = threading.Thread.start

    def watched(self):
        sink = _mine()
        if sink is not None:
            self._memgauge_sink = sink
        return start(self)
    watched.memgauge = True
    threading.Thread.start = watched


def _unwatch_threads():
    threading = sys.modules.get("threading")
    if threading is not None and getattr(threading.Thread.start, "memgauge", False):
        threading.Thread.start = _started[0]
    _started[0] = None
