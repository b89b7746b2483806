"""Readings of memory, each by the cheapest way and not more often than the cost of its last reading allows.

Costs on a 2-core machine, in µs: statm by pread 1.6, getrusage 1.0, mallinfo2 0.4 to 300,000 (it walks the free lists:
glibc malloc/malloc.c, int_mallinfo), sys.getallocatedblocks 22 to 38, torch's own CUDA counters 0.2 when indexed raw.
"""
import os
import sys
from time import monotonic_ns as now
from time import thread_time_ns as cpu_now

from .. import persistent, state
from ..record._spec import NOT_TAKEN
from ..pipe import high, identity, release

HEAP_SHARE = 0.2  # average share of the budget for heap readings: no other gauge shows a leak so clearly; …
MALLOC_PART, BLOCKS_PART = 0.85, 0.15  # … divided like this
DENSITY = 48  # readings while a run grows e times as old: verdicts look at shares of the run so far, so that each needs
# the same number of readings at any age, and a young or short run needs them sooner than its share comes in
BOOST = 3  # … by so much at most: half of the budget, for half a minute where a reading takes 4 ms
HEAP_LIMIT = 5_000_000  # ns: readings that take longer stall the trainer visibly; a census's slices keep to the same
FAR = 10  # times the limit: one such reading is enough for …
HEAP_REST = 60_000_000_000  # ns until such a heap is read again: it may have been emptied
CENSUS_TAKES = 200_000_000  # ns, about: no reading meanwhile
NEVER = 1 << 62


class Gate:
    """Allows readings such that their cost stays within a share of the time. early: they may come sooner while the run
    is young. Readings go on until the run's end, however much they cost."""

    def __init__(self, part, limit=None, early=False):
        self.part = part
        self.limit = limit
        self.early = early
        self.usual = self.due = 0
        self.began = None

    def open(self, at):
        return at >= self.due

    def took(self, at, cost, budget, beside=0):
        """Accounts for a reading. beside: further ns to be paid for that are not the cost of the reading itself."""
        far = bool(self.limit) and cost > FAR * self.limit
        slow = bool(self.limit) and cost > self.limit
        cost += beside
        share = max(budget * HEAP_SHARE * self.part, 1e-6)
        if self.began is None:
            self.began, self.usual = at, cost
        self.usual = max(cost // 2, (3 * self.usual + cost) // 4)     # the assumed cost of the next one
        wait = self.usual / share
        if self.early and not slow:
            wait = min(wait, max(wait / BOOST, (at - self.began) / DENSITY))
        if far:
            wait = max(wait, HEAP_REST)
        self.due = at + int(wait)


class Host:
    """The process's own memory. Opens its files at the first reading, in the process that reads."""

    def __init__(self):
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.fd, self.known = -1, None
        self.heap_gate = Gate(MALLOC_PART, HEAP_LIMIT, early=True)
        self.blocks_gate = Gate(BLOCKS_PART, early=True)
        self._mallinfo = False
        self._usage = None

    def close(self):
        """Also right in a forked child: its copy of the descriptor shows the parent's memory."""
        fd, self.fd = self.fd, -1
        release(fd, self.known)

    def memory(self):
        """(resident, resident - shared) in bytes; NOT_TAKEN twice if /proc/self/statm can't be read."""
        try:
            if self.fd < 0:
                self.fd = high(os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC))
                self.known = identity(self.fd)
            fields = os.pread(self.fd, 96, 0).split()
            if len(fields) != 7 or fields[4] != b"0" or fields[6] != b"0":
                raise ValueError    # a file of the program's by now
            resident = int(fields[1])
            return resident * self.page, max(0, resident - int(fields[2])) * self.page
        except (OSError, ValueError, IndexError):
            # A program that closes every descriptor (a daemon) may by now use our number for a file of its own: forget
            # it, don't close it. What it says tells, at 0.1 µs: the kernel's 7 numbers, two of which are 0 since Linux
            # 2.6 (fs/proc/array.c, proc_pid_statm). Asking fstat would cost 1 µs; a pread moves no offset, and of a
            # pipe or a socket it is an error.
            self.fd = -1
            return NOT_TAKEN, NOT_TAKEN

    def max_resident(self):
        """ru_maxrss in bytes. Linux counts it in KiB."""
        if self._usage is None:
            import resource

            self._usage = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return self._usage() << 10

    def heap_step(self, step, period):
        """The step at whose end the heap or Python's blocks may be read next, when one takes `period` ns (0: not
        known)."""
        due = self.blocks_gate.due
        if self.mallinfo() is not None:
            due = min(due, self.heap_gate.due)
        return step + max(1, -(-(due - now()) // period) if period else 1)

    def heap_due(self, at):
        """Whether a reading is due. One of all private memory goes with it, at 1.6 µs: what malloc does not hold is the
        difference of the two."""
        if state.census is not None:
            # for a moment it holds objects that the last step would have freed: locals of frames, activations
            self.heap_gate.due = max(self.heap_gate.due, at + CENSUS_TAKES // 4)
            self.blocks_gate.due = max(self.blocks_gate.due, at + CENSUS_TAKES // 4)
            return False
        return self.heap_gate.open(at) and self.mallinfo() is not None or self.blocks_gate.open(at)

    def heap(self, at, budget, beside=0):
        """(in use, held, blocks, ns) or None when nothing is due. beside: ns that are taken for this reading's sake
        alone."""
        if not self.heap_due(at):
            return None
        in_use = held = NOT_TAKEN
        start = now()
        mallinfo = self.mallinfo() if self.heap_gate.open(at) else None
        if mallinfo:
            before = cpu_now()  # a preempted reading says nothing of the heap
            info = mallinfo()
            in_use, held = info.uordblks + info.hblkhd, info.arena + info.hblkhd
            self.heap_gate.took(at, cpu_now() - before, budget, beside)
        before = cpu_now()
        blocks = sys.getallocatedblocks()    # with each: its own gate lets it through where the heap's is slow
        self.blocks_gate.took(at, cpu_now() - before, budget)
        return in_use, held, blocks, now() - start

    def mallinfo(self):
        """glibc's mallinfo2 (2.33 and newer) or None: musl and older glibc have only counters of 32 bits or nothing."""
        if self._mallinfo is False:
            self._mallinfo = _find_mallinfo()
        return self._mallinfo


def _find_mallinfo():
    """Made once in a process: each ctypes type is a circle of references that only a garbage collection frees."""
    return persistent.get("mallinfo.1", _make_mallinfo)


def _make_mallinfo():
    try:
        import ctypes

        # PyDLL keeps the GIL: giving it up for a microsecond could cost the trainer a switch interval (5 ms).
        function = ctypes.PyDLL(None).mallinfo2
    except (ImportError, OSError, AttributeError):
        return None
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    function.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_size_t) for n in names]})
    function.argtypes = []
    return function


class Cuda:
    """PyTorch's counters of its CUDA allocator, once the program itself has initialised CUDA."""

    def __init__(self, torch):
        self.raw = getattr(torch._C, "_cuda_memoryStats", None)
        self._initialized = getattr(torch.cuda, "is_initialized", None)
        self._current = getattr(torch._C, "_cuda_getDevice", None)
        self._capturing = getattr(torch.cuda, "is_current_stream_capturing", None)
        self.failed, self._told = {}, {}    # device -> allocations that failed

    def ready(self):
        return self.raw is not None and self._initialized is not None and self._initialized()

    def current(self):
        return self._current() if self._current else 0

    def capturing(self):
        """Whether a graph is being captured on the current stream: then no counter may be read."""
        return bool(self._capturing and self._capturing())

    def read(self, device):
        """(allocated, its peak, reserved, its peak) in bytes: one call, no synchronisation, no flattening."""
        stats = self.raw(device)
        self.failed[device] = stats.get("num_ooms", 0)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        return allocated["current"], allocated["peak"], reserved["current"], reserved["peak"]

    def failures(self, device):
        """How many allocations have failed so far, when that is more than at the last call; else 0. Of the last
        read()."""
        count = self.failed.get(device, 0)
        if count <= self._told.get(device, 0):
            return 0
        self._told[device] = count
        return count


def report():
    """For `memgauge where`: the bytes that malloc and Python's allocator hold; None for unknown ones."""
    out = {"in_use": None, "held": None, "mapped": None, "arenas": _arenas()}
    mallinfo = _find_mallinfo()
    if mallinfo:
        info = mallinfo()
        out.update(in_use=info.uordblks + info.hblkhd, held=info.arena + info.hblkhd, mapped=info.hblkhd)
    return out


def _arenas():
    """Bytes of pymalloc's arenas, out of the statistics that CPython prints (Objects/obmalloc.c,
    _PyObject_DebugMallocStats): "4 arenas * 1048576 bytes/arena". None where it has no such allocator."""
    try:
        import ctypes

        libc = ctypes.PyDLL(None)
        stats = ctypes.pythonapi._PyObject_DebugMallocStats
        stream, close, free = libc.open_memstream, libc.fclose, libc.free
    except (ImportError, OSError, AttributeError):
        return None
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream.restype, stream.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]
    stats.argtypes = close.argtypes = free.argtypes = [ctypes.c_void_p]
    file = stream(ctypes.addressof(text), ctypes.addressof(size))
    if not file:
        return None
    stats(file)
    close(file)
    try:
        for line in ctypes.string_at(text, size.value).split(b"\n"):
            words = line.split()
            if words[1:3] == [b"arenas", b"*"]:
                return int(words[0]) * int(words[3])
    finally:
        free(text)
    return None
