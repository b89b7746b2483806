"""A ring file, written: docs/formats/ring.md. One process writes it, from any of its threads, and never waits.
slots.py tells how."""
import mmap
import os
import sys
import time

from ..pipe import LOW, identity as file_identity, proc, release, same
from . import _spec as S, redact
from .slots import Slots, clock, step_writer, trace_writer

SMALL = (256, 16 << 10)     # slots, bytes of names: a process that may never train
LARGE = (65536, 1 << 20)    # 4 MiB: 650 sampled steps of 50 modules; 1 MiB: 10,000 names of 100 bytes
NAMES_HEAD, NAMES_DROPPED = S.OFF_NAMES_HEAD >> 3, S.OFF_NAMES_DROPPED >> 3  # as 64-bit words
KEEP_END = 480              # bytes kept of both ends of a long name: ring.md
MAX_VALUE = 1000            # characters of an info line's value: argv's limit in ring.md


def start_ticks():
    """Field 22 of /proc/self/stat; the name in field 2 may hold spaces and brackets."""
    return int(proc("/proc/self/stat", 4096).rpartition(b")")[2].split()[19])


class Ring:
    """An open ring. trace and step are closures over its memory: a method call would look everything up again."""

    __slots__ = ("path", "generation", "large", "pid", "start", "name", "trace", "step", "put", "errors",
                 "_lost", "_map", "_fd", "_words", "_halves", "_slots", "_names", "__weakref__")

    def __init__(self, place, generation=0, large=False, info=(), identity=None):
        """Creates the file in the directory `place`, or takes the one whose descriptor that is, and closes it; any
        OSError means that the process stays unobserved. A number that is taken belongs to the program that this process
        ran before an exec: then the next one is used. `identity` is (pid, start) where others see other numbers than we
        do."""
        slots, names = LARGE if large else SMALL
        self.pid, self.start = identity or (os.getpid(), start_ticks())
        self.large = large
        self._lost, self.errors = {}, [0]   # batches that found the queue full, by thread; values that did not fit
        size = S.HEADER_SIZE + slots * S.SLOT_SIZE + names
        _check_limit(place, size)
        if isinstance(place, int):
            fd, self.path, self.generation = place, None, generation
        else:
            fd = self._create(place, generation)
        known = file_identity(fd)
        try:
            os.posix_fallocate(fd, 0, size)  # a disk that fills up later must not turn a store into SIGBUS
            self._map, self._fd = _map(fd, size)
        except BaseException:
            if self.path is not None:
                os.unlink(self.path)
            raise
        finally:
            release(fd, known)
        view = memoryview(self._map)
        self._words, self._halves = view[:512].cast("Q"), view[:512].cast("i")
        self._slots = view[S.HEADER_SIZE:S.HEADER_SIZE + slots * S.SLOT_SIZE]
        self._names = view[S.HEADER_SIZE + slots * S.SLOT_SIZE:]
        self._write_header(slots, names, info)
        core = Slots(self._slots, self._words, slots, self._lost, self.errors)
        self.put, self.trace, self.step = core.put, trace_writer(core), step_writer(core)
        self.name = _interner(self._names, self._words, names)
        self._words[S.OFF_STATE >> 3] = S.STATE_LIVE

    def _create(self, directory, generation):
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        for self.generation in range(generation, generation + 1000):  # 1,000 execs by one process
            self.path = "%s/%d.%d.%d.ring" % (directory, self.pid, self.start, self.generation)
            try:
                fd = os.open(self.path, flags, 0o600)
            except FileExistsError:
                continue
            os.fchmod(fd, 0o600)    # whatever the umask has taken away: the collector must be able to open it
            return fd
        raise OSError("no free generation")

    def _write_header(self, slots, names, info):
        if sys.byteorder != "little":
            raise OSError("rings are little-endian")
        wall, mono = _clocks()
        ring_id = int.from_bytes(os.urandom(8), "little") or 1
        S.HEADER.pack_into(
            self._map, 0, S.MAGIC, S.MAJOR, S.MINOR, S.HEADER_SIZE, ring_id, S.SLOT_SIZE, slots, S.HEADER_SIZE,
            S.HEADER_SIZE + slots * S.SLOT_SIZE, names, 0, 0, S.STATE_CREATING, 0, self.pid, -1, -1, self.generation,
            self.start, wall, mono)
        text = _info(info)
        self._map[S.INFO_OFFSET:S.INFO_OFFSET + 4 + len(text)] = len(text).to_bytes(4, "little") + text

    @property
    def head(self):
        """Records published."""
        return self._words[S.OFF_HEAD >> 3]

    @property
    def lost(self):
        """Batches that were dropped because too many waited already."""
        return sum(self._lost.values())

    def set_rank(self, rank, world):
        """Each number is one aligned 4-byte store, so a reader never sees half of it."""
        try:
            self._halves[S.OFF_RANK >> 2], self._halves[S.OFF_WORLD_SIZE >> 2] = rank, world
        except ValueError:      # closed meanwhile, or no 32-bit number
            self.errors[0] += 1

    def heap(self, *fields, ts=None):
        """flags, gc_count, step, gc_young, heap_in_use, heap_held, py_blocks, cost_ns"""
        self.put(ts, ((S.HEAP_STRUCT.pack_into, (S.HEAP,) + fields),))

    def device(self, *fields, ts=None):
        """flags, reserved0, device, step, pad, allocated, max_allocated, reserved, max_reserved"""
        self.put(ts, ((S.DEVICE_STRUCT.pack_into, (S.DEVICE,) + fields),))

    def overhead(self, *fields, ts=None):
        """flags, reserved0, name, steps, ns, count, covered, gap"""
        self.put(ts, ((S.OVERHEAD_STRUCT.pack_into, (S.OVERHEAD,) + fields),))

    def event(self, name, text="", a=0, b=0, c=0, d=0, ts=None, code=0):
        """The text's pieces, then the event, without another record between them. text is for people, code (one of
        S.CODE_…) for programs."""
        batch, length, pieces = _pieces(text)
        batch.append((S.EVENT_STRUCT.pack_into, (S.EVENT, code, length, self.name(name), pieces, a, b, c, d)))
        self.put(ts, batch)

    def tensors(self, text, flags, census, step, count, oldest_step, fresh, size):
        """text: shape, dtype, device, role, site and holder, separated by tabs"""
        batch, length, pieces = _pieces(text)
        batch.append((S.TENSORS_STRUCT.pack_into, (S.TENSORS, flags, length, pieces, 0, census, step, count,
                                                   oldest_step, fresh, size)))
        self.put(None, batch)

    def objects(self, text, flags, census, step, count, delta, length, size):
        """text: evidence, type, holder, site and detail, separated by tabs"""
        batch, text_len, pieces = _pieces(text)
        batch.append((S.OBJECTS_STRUCT.pack_into, (S.OBJECTS, flags, text_len, pieces, 0, census, step, count, delta,
                                                   length, size)))
        self.put(None, batch)

    def close(self, state=S.STATE_CLOSED):
        """Sets the state and unmaps the memory. With None the state stays, as in a forked child, whose parent owns the
        ring. A thread that is still writing gets a ValueError from struct or memoryview, and ignores it."""
        try:
            if state is not None:
                self._words[S.OFF_STATE >> 3] = state
            for view in (self._words, self._halves, self._slots, self._names):
                view.release()
            if self._fd is None or same(*self._fd):
                self._map.close()
            else:
                _keep(self._map)
        except (ValueError, BufferError):   # closed before; or used at this moment: freed with the last reference
            pass


def _pieces(text):
    """(Text records, bytes, how many)"""
    raw = redact.text(text).encode("utf-8", "backslashreplace")
    if len(raw) > S.MAX_TEXT:
        raw = raw[:S.MAX_TEXT].decode("utf-8", "ignore").encode("utf-8")
    pieces = [raw[i:i + S.TEXT_CHUNK] for i in range(0, len(raw), S.TEXT_CHUNK)]
    return [(S.TEXT_STRUCT.pack_into, (S.TEXT, len(p), i, p)) for i, p in enumerate(pieces)], len(raw), len(pieces)


def _check_limit(place, size):
    """A file beyond the limit brings SIGXFSZ, which ends a program that has set it back to its default."""
    import resource
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and size > limit:
        if isinstance(place, int):
            os.close(place)
        raise OSError("a ring of %d bytes is beyond the limit of a file's size" % size)


def _map(fd, size):
    """Maps the file. Before 3.13 (trackfd) mmap keeps a duplicate of the descriptor, at the lowest free number
    (Python/fileutils.c, _Py_dup), which it never uses but closes in the end, even if it is a file of the user's by
    then. So we keep it away from the standard streams, and remember which file it was."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, size, trackfd=False), None
    below = []
    try:
        while True:
            probe = os.dup(fd)  # mmap's duplicate gets the same number, unless another thread is quicker
            if probe >= LOW:
                break
            below.append(probe)
        os.close(probe)
        area, known = mmap.mmap(fd, size), file_identity(fd)
    finally:
        for number in below:
            os.close(number)
    return area, (probe, known) if same(probe, known) else None


def _keep(area):
    """For ever: the descriptor of this map is a file of the program's, and freeing it would close that."""
    import ctypes
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(area))


def _clocks():
    """ns since the epoch and ns of CLOCK_MONOTONIC at the same instant, the closest of three tries."""
    tries = []
    for _ in range(3):
        before, wall, after = clock(), time.time_ns(), clock()
        tries.append((after - before, wall, (before + after) // 2))
    return min(tries)[1:]


def _info(pairs):
    """Lines "key TAB value" in the given order; what exceeds the header's page is left out, whole lines only."""
    room, out = S.HEADER_SIZE - S.INFO_OFFSET - 4, b""
    for key, value in pairs:
        value = str(value)[:MAX_VALUE].replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        line = ("%s\t%s\n" % (key, value)).encode("utf-8", "backslashreplace")
        if len(out) + len(line) <= room:
            out += line
    return out


def _shorten(raw):
    """Both ends of a long name, cut at character borders, and how many characters are missing between them."""
    first, last = (part.decode("utf-8", "ignore") for part in (raw[:KEEP_END], raw[-KEEP_END:]))
    missing = len(raw.decode("utf-8")) - len(first) - len(last)
    return "%s\u2026[%d characters]\u2026%s" % (first, missing, last)


def _interner(area, words, size):
    """name(text) -> its number, or 0: no room, or another thread is writing a name at this moment (so don't keep a 0).
    The cache is bounded by the area: every name in it takes at least 8 bytes there."""
    numbers, token = {}, [1]

    def add(text, raw):
        used = words[NAMES_HEAD]
        end = used + 4 + (len(raw) + 3 & ~3)
        if end > size:
            words[NAMES_DROPPED] += 1
            return 0
        area[used:used + 4] = len(raw).to_bytes(4, "little")
        area[used + 4:used + 4 + len(raw)] = raw    # the padding is zero since the file was made
        number = len(numbers) + 1
        words[NAMES_HEAD] = end
        numbers[text] = number
        return number

    def name(text):
        number = numbers.get(text)
        if number is not None:
            return number
        raw = text.encode("utf-8", "backslashreplace")
        if len(raw) > S.MAX_NAME:
            text = _shorten(raw)
            raw = text.encode("utf-8")
        try:
            token.pop()
        except IndexError:
            return 0
        try:
            return numbers.get(text) or add(text, raw)
        except ValueError:  # the ring was closed meanwhile
            return 0
        finally:
            token.append(1)

    return name
