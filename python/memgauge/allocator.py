"""memgauge.device(): device memory with a cache and exact statistics, through libmemgauge_alloc.so (docs/allocator.md).

An observed process does not load this module before its program uses it.
"""
import ctypes
import json
import os
import sys
import threading

from . import feed
from ._agent import torchhook

LIBRARY = "libmemgauge_alloc.so"
MAX_FRAMES = 32  # of a stack that set_memory_debug records, innermost first
DRIVERS = {"cuda": b"cuda", "cpu": b"host", "fake": b"fake"}
NO_STREAM = None
MAX_SIZE = (1 << 63) - 1  # bytes of a request
NO_GPU = ('the device "cuda" needs a GPU: without one there are memgauge.device("cpu"), the memory of this machine, '
          'and "fake", which only counts')

_lock = threading.Lock()
_library = None
_devices = {}  # (type, index): Device, for ours
_debug = False
OUT_OF_MEMORY = 2   # memgauge_error_code (memgauge_alloc.h)
_installed = False  # our allocator is PyTorch's
_log = None  # where set_memory_debug logs

# Functions that PyTorch calls in a pluggable allocator besides alloc and free: names of its setters
# (torch/csrc/cuda/Module.cpp; the second of two is that of torch 2.0 and 2.1), our functions, and what goes wrong
# without them.
HOOKS = (
    (("set_record_stream_fn",), ("record_stream",), "a block that another stream uses would be reused at once"),
    (("set_begin_allocate_to_pool", "set_begin_allocate_stream_to_pool"), ("begin_pool", "begin_pool_stream"),
     "CUDA graphs would share memory with what runs beside them"),
    (("set_end_allocate_to_pool_fn", "set_end_allocate_stream_to_pool_fn"), ("end_pool", "end_pool_stream"),
     "CUDA graphs would share memory with what runs beside them"),
    (("set_release_pool",), ("release_pool",), "the memory of CUDA graphs would never be free again"),
    (("set_reset_fn",), ("reset",), "torch.cuda.empty_cache() would do nothing"),
    (("set_memory_fraction_fn",), ("fraction",), "torch.cuda.set_per_process_memory_fraction() would do nothing"),
    (("set_base_alloc_fn",), ("base",), ""),  # for sharing between processes
    (("set_init_fn",), ("init",), ""),
)


class AllocatorError(RuntimeError):
    """A call that the allocator refused; its text says why."""


class OutOfMemoryError(AllocatorError):
    """No memory for a request. Its text has "CUDA OOM" and "CUDA out of memory", and what holds the memory."""


def library_paths():
    """Returns the paths at which the library may lie; the first that exists is used."""
    named = os.environ.get("MEMGAUGE_ALLOC_LIBRARY")
    if named:
        return [named]
    folders = list(sys.modules[__package__].__path__)
    commands = [os.environ.get("MEMGAUGE_BINARY", "")] + list(feed.installed())
    commands += [os.path.join(folder, "memgauge") for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for command in commands:
        if command and os.access(command, os.X_OK):
            real = os.path.dirname(os.path.realpath(command))
            folders += [real, os.path.join(os.path.dirname(real), "lib")]
    return [os.path.join(folder, LIBRARY) for folder in folders]


def library():
    """Returns the loaded library. If it is not found, or another user may have put it where it is, the OSError names
    the paths."""
    global _library
    with _lock:
        if _library is None:
            paths, named = library_paths(), os.environ.get("MEMGAUGE_ALLOC_LIBRARY")
            there = [p for p in paths if os.path.exists(p)]
            path = next((p for p in there if named or not feed.planted(p)), None)
            if path is None and there:
                raise OSError("memgauge: %s is not loaded from %s: another user may have put it there; move it to a "
                              "directory that only you can write, or name it in MEMGAUGE_ALLOC_LIBRARY if you know "
                              "whose it is" % (LIBRARY, ", ".join(there)))
            if path is None:
                raise OSError("memgauge: %s not found (looked for %s); set MEMGAUGE_ALLOC_LIBRARY, or put it beside "
                              "the memgauge command" % (LIBRARY, ", ".join(paths)))
            _library = _declare(ctypes.CDLL(path))
            _library.path = path
        return _library


def _declare(lib):
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    number, word, wide = ctypes.c_int, ctypes.c_uint32, ctypes.c_int64
    for name, result, arguments in (
            ("open", number, (text, number, text)), ("alloc", pointer, (number, size, pointer, word)),
            ("free", number, (number, pointer)), ("free_at", number, (number, pointer, word)),
            ("configure", number, (text,)),
            ("copy_cuda", number, (number, pointer, pointer, size, number)), ("retain", number, (number, pointer)),
            ("record_stream", number, (number, pointer, pointer)), ("release_cached", wide, (number,)),
            ("reset_stats", number, (number, number, number)), ("set_fraction", number, (number, ctypes.c_double)),
            ("set_debug", number, (number, number)), ("window", number, (number,)),
            ("window_close", number, (number, number)),
            ("stats", pointer, (number, number, text)), ("events", pointer, (number, number)),
            ("text_free", None, (pointer,)),
            ("snapshot", number, (number, text, text)), ("stack", word, (number, text)), ("error", text, ()),
            ("error_code", number, ()),
            ("misuses", wide, ()), ("copy", number, (number, pointer, pointer, size, number)),
            ("matmul_f32", None, (pointer, pointer, pointer) + (wide,) * 7),
            ("fill_f32", None, (pointer, wide, ctypes.c_float)),
            ("rand_f32", None, (pointer, wide, pointer)),
            ("binary_f32", None, (pointer, pointer, pointer, wide, number))):
        function = getattr(lib, "memgauge_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


def failure(lib):
    """Returns the exception for this thread's last call."""
    text = (lib.memgauge_error() or b"memgauge: the call failed").decode("utf-8", "replace")
    return (OutOfMemoryError if lib.memgauge_error_code() == OUT_OF_MEMORY else AllocatorError)(text)


def device(name="cuda", conf=None):
    """Returns the device "cuda", "cuda:1", "cpu" or "fake". In a process whose PyTorch uses CUDA, "cuda" is PyTorch's
    own allocator, unless ours was installed in its place (install_allocator). conf are settings as in
    PYTORCH_ALLOC_CONF, for the first call for a device: those of an open one can't be changed (AllocatorError)."""
    if isinstance(name, (Device, TorchDevice)):
        return name if conf is None else device(str(name), conf)
    kind, index = _parse(name)
    if kind == "cuda" and not _installed and _torch_uses_cuda():
        if conf is not None:
            raise AllocatorError("memgauge: cuda:%d is PyTorch's own allocator: set %r in PYTORCH_ALLOC_CONF before "
                                 "the start, or call install_allocator(conf) instead" % (index, conf))
        return TorchDevice(index)
    lib = library()
    with _lock:
        found = _devices.get((kind, index))
        if found is None:
            handle = lib.memgauge_open(DRIVERS[kind], index, None if conf is None else conf.encode())
            if handle == 0:
                error = failure(lib)
                raise AllocatorError("%s; %s" % (error, NO_GPU)) if "open CUDA device" in str(error) else error
            found = _devices[kind, index] = Device(kind, index, lib, handle)
            found.conf = conf
            if _debug:
                found.set_memory_debug(True)
        elif conf not in (None, found.conf):
            raise AllocatorError("memgauge: %s is open already: its settings can't be changed to %r" % (found, conf))
    return found


def _parse(name):
    if isinstance(name, int):
        name = "cuda:%d" % name
    kind, _, index = str(name).partition(":")
    if kind not in DRIVERS or (index and not index.isdigit()):
        raise ValueError('device %r: not "cuda", "cuda:N", "cpu" or "fake"' % (name,))
    return kind, int(index or 0)


def _torch_uses_cuda():
    cuda = getattr(torchhook.loaded("torch"), "cuda", None)
    return cuda is not None and cuda.is_available()


def replaced():
    """Whether PyTorch's allocator is ours."""
    return _installed


def devices():
    """Returns our open devices."""
    with _lock:
        return list(_devices.values())


def set_memory_debug(enabled=True):
    """Records the stacks of allocations and frees from now on, so that errors about misuse and lack of memory name the
    places. Also logs each call, as logging's "memgauge.allocator"; on stderr if the program has set up no logging."""
    global _debug
    _debug = bool(enabled)
    for each in devices():
        each.set_memory_debug(enabled)


def _set_log(enabled):
    global _log
    import logging
    logger = logging.getLogger("memgauge.allocator")
    if _log is not None:
        logger.handlers = [h for h in logger.handlers if h is not _log[1]]
        logger.setLevel(_log[2])
        _log = None
    if not enabled:
        return
    handler, level = None, logger.level
    if not logger.hasHandlers():
        handler = logging.StreamHandler()  # to stderr
        handler.setFormatter(logging.Formatter("memgauge: %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    _log = logger, handler, level


def install_allocator(conf=None):
    """Makes ours PyTorch's CUDA allocator. Call it before PyTorch's first use of CUDA memory. conf are settings as in
    PYTORCH_ALLOC_CONF ("policy:vmm"), which replace the environment's."""
    global _installed
    import torch
    version = getattr(torch, "__version__", "of an unknown version")
    kind = getattr(getattr(torch.cuda, "memory", None), "CUDAPluggableAllocator", None)
    if kind is None:
        raise AllocatorError("memgauge: torch %s takes no other allocators: that came with 2.0" % version)
    lib = library()
    ours = kind(lib.path, "memgauge_torch_alloc", "memgauge_torch_free")
    _wire(ours.allocator() if hasattr(ours, "allocator") else ours._allocator, lib, version)
    if conf is not None:
        given = [d for d in devices() if d.type == "cuda"]
        if given:
            raise AllocatorError("memgauge: %s is open already: its settings can't be changed to %r" % (given[0], conf))
        if lib.memgauge_configure(conf.encode()):
            raise failure(lib)
    torch.cuda.memory.change_current_allocator(ours)
    _installed = True


def _wire(allocator, lib, version):
    """Sets every function for which PyTorch's object has a setter. Raises if a required setter is missing."""
    for setters, functions, otherwise in HOOKS:
        for setter, function in zip(setters, functions):
            set_it = getattr(allocator, setter, None)
            if set_it is not None:
                set_it(ctypes.cast(getattr(lib, "memgauge_torch_" + function), ctypes.c_void_p).value)
                break
        else:
            if otherwise:
                raise AllocatorError("memgauge: torch %s has no %s for pluggable allocators: %s" % (
                    version, " or ".join(setters), otherwise))


class _Methods:
    """The methods of Genesis's devices, computed from memory_stats()."""

    def memory_allocated(self):
        """Bytes in blocks that the program holds."""
        return self.memory_stats()["allocated_bytes"]

    def memory_cached(self):
        """Bytes in the cache: reserved, not allocated."""
        return self.memory_stats()["cached_bytes"]

    def memory_reserved(self):
        """Bytes that the driver gave."""
        return self.memory_stats()["reserved_bytes"]

    def max_memory_allocated(self):
        """The most bytes allocated at once since the last reset."""
        return self.memory_stats()["peak_allocated"]

    def max_memory_cached(self):
        """The most bytes cached at once since the last reset."""
        return self.memory_stats()["peak_cached"]

    def __eq__(self, other):
        return isinstance(other, _Methods) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __str__(self):
        return "%s:%d" % (self.type, self.index)

    def __repr__(self):
        return "memgauge.device(%r)" % str(self)


class Device(_Methods):
    """A device whose memory our allocator manages. device() makes it."""

    def __init__(self, kind, index, lib, handle):
        self.type, self.index, self.lib, self.handle = kind, index, lib, handle
        self.debug, self.conf = False, None     # conf: as it was given

    def _done(self, code):
        if code != 0:
            raise failure(self.lib)

    def _text(self, pointer):
        if not pointer:
            raise failure(self.lib)
        try:
            return ctypes.string_at(pointer).decode("utf-8", "replace")
        finally:
            self.lib.memgauge_text_free(pointer)

    def memory_stats(self, window=0):
        """Returns Genesis's eleven keys, and those of torch.cuda.memory_stats() with PyTorch's meanings, all from one
        instant."""
        return json.loads(self._text(self.lib.memgauge_stats(self.handle, window, b"all")))

    def memory_summary(self, window=0):
        """The statistics as a table for people."""
        return self._text(self.lib.memgauge_stats(self.handle, window, b"summary"))

    def empty_cache(self):
        """Gives the unused cached memory back to the driver; returns how many bytes."""
        released = self.lib.memgauge_release_cached(self.handle)
        if released < 0:
            raise failure(self.lib)
        if self.debug and _log is not None:
            _log[0].debug("%s: empty_cache gave back %d bytes", self, released)
        return released

    def reset_memory_stats(self):
        """Resets peaks, sums and the hit rate."""
        self._done(self.lib.memgauge_reset_stats(self.handle, 1, 1))

    def set_memory_fraction(self, fraction):
        """Caps what may be reserved at a share of the device's memory."""
        self._done(self.lib.memgauge_set_fraction(self.handle, fraction))

    def set_memory_debug(self, enabled=True):
        """Like the module's set_memory_debug, for this device alone."""
        self._done(self.lib.memgauge_set_debug(self.handle, int(bool(enabled))))
        self.debug = bool(enabled)
        _set_log(any(each.debug for each in list(_devices.values())))

    def memory_events(self, count=-1):
        """Returns the newest events, oldest first: dicts with kind, timestamp (s), size, address, thread_id, stream,
        and duration_ns and cache_hit of allocations, lifetime_ns of frees."""
        return [json.loads(line) for line in self._text(self.lib.memgauge_events(self.handle, count)).splitlines()]

    def memory_snapshot(self, path, format="pickle"):
        """Writes state and events to a file: "pickle" (PyTorch's viewers read it), "csv" (RMM's log) or "jsonl"."""
        self._done(self.lib.memgauge_snapshot(self.handle, os.fsencode(path), format.encode()))

    def allocate(self, size, stream=NO_STREAM):
        """Returns the address of size bytes, which the caller must free."""
        if not 0 <= size <= MAX_SIZE:
            raise ValueError("allocate %d bytes: from 0 to %d" % (size, MAX_SIZE))
        lines = _stack() if self.debug else b""
        stack = self.lib.memgauge_stack(self.handle, lines) if lines else 0
        address = self.lib.memgauge_alloc(self.handle, size, stream, stack)
        if not address and size:
            error = failure(self.lib)
            self._tell("no memory for", size, 0, lines)
            raise error
        self._tell("alloc", size, address or 0, lines)
        return address or 0

    def free(self, address):
        """Gives back what allocate returned."""
        lines = _stack() if self.debug else b""
        stack = self.lib.memgauge_stack(self.handle, lines) if lines else 0
        code = self.lib.memgauge_free_at(self.handle, address, stack)
        if code != 0:
            raise failure(self.lib)
        self._tell("free", None, address, lines)

    def _tell(self, what, size, address, lines):
        if _log is not None and self.debug:
            place = lines.split(b"\n", 1)[0].decode("utf-8", "replace")
            _log[0].debug("%s: %s%s at %#x, %s", self, what, "" if size is None else " %d bytes" % size, address, place)

    def copy(self, to, source, size, direction):
        """Copies between host and device memory; direction is 1 to the device, 2 to the host."""
        self._done(self.lib.memgauge_copy(self.handle, to, source, size, direction))


def _stack():
    """The caller's stack, innermost first, without our own frames."""
    frame, lines = sys._getframe(2), []
    here = os.path.dirname(__file__)
    while frame is not None and len(lines) < MAX_FRAMES:
        code = frame.f_code
        if os.path.dirname(code.co_filename) != here:
            lines.append("%s:%d:%s" % (code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return "\n".join(lines).encode("utf-8", "replace")


class TorchDevice(_Methods):
    """A CUDA device whose memory PyTorch's own allocator manages; its methods call PyTorch."""

    type = "cuda"

    def __init__(self, index):
        self.index = index

    @property
    def _cuda(self):
        return sys.modules["torch"].cuda

    def memory_stats(self):
        """Returns PyTorch's statistics, and Genesis's keys computed from them. peak_cached is a lower bound that
        follows from the other peaks, since PyTorch does not record it. active_bytes is, as in Genesis, what was
        requested."""
        stats = dict(self._cuda.memory_stats(self.index))
        get = lambda key, default=0: stats.get(key, default)
        allocated, reserved = get("allocated_bytes.all.current"), get("reserved_bytes.all.current")
        count = get("allocation.all.allocated")
        misses = min(count, get("num_device_alloc", get("segment.all.allocated")))
        stats.update({
            "allocated_bytes": allocated, "reserved_bytes": reserved, "cached_bytes": reserved - allocated,
            "inactive_split_bytes": get("inactive_split_bytes.all.current"),
            "active_bytes": get("requested_bytes.all.current", allocated),
            "num_allocations": count, "num_cache_misses": misses, "num_cache_hits": count - misses,
            "cache_hit_rate": (count - misses) / count if count else 0.0,
            "peak_allocated": get("allocated_bytes.all.peak"),
            "peak_cached": max(reserved - allocated, get("reserved_bytes.all.peak") - get("allocated_bytes.all.peak")),
        })
        return stats

    def memory_summary(self):
        """Returns PyTorch's table of statistics as text."""
        return self._cuda.memory_summary(self.index)

    def empty_cache(self):
        """Gives the cached memory back to the driver; returns how many bytes of this device."""
        before = self.memory_reserved()
        self._cuda.empty_cache()
        return before - self.memory_reserved()

    def reset_memory_stats(self):
        """Resets peaks and sums of this device in PyTorch's allocator."""
        self._cuda.reset_peak_memory_stats(self.index)
        self._cuda.reset_accumulated_memory_stats(self.index)

    def set_memory_fraction(self, fraction):
        """Caps what PyTorch may reserve at a share (0 to 1) of the device's memory."""
        self._cuda.set_per_process_memory_fraction(fraction, self.index)

    def set_memory_debug(self, enabled=True):
        """Returns PyTorch's own history with stacks, if it records one."""
        self._history()(enabled="all" if enabled else None)

    def _history(self):
        record = getattr(self._cuda.memory, "_record_memory_history", None)
        if record is None:
            raise AllocatorError("this torch records no history of its allocator: that came with 2.1")
        return record

    def memory_events(self, count=-1):
        """Returns the newest events of PyTorch's history, oldest first. They have neither threads nor durations of
        allocations."""
        traces = self._cuda.memory._snapshot()["device_traces"]
        events = traces[self.index] if self.index < len(traces) else []
        if not events:
            raise AllocatorError("PyTorch keeps no events of %s: call torch.cuda.memory._record_memory_history() first"
                                 % self)
        out, born, missed = [], {}, False
        for event in events:
            kind, address = event["action"], event["addr"]
            line = {"kind": kind, "size": event["size"], "address": address, "stream": event.get("stream"),
                    "thread_id": None,
                    "timestamp": event["time_us"] / 1e6 if "time_us" in event else None}
            if kind == "alloc":
                born[address] = event.get("time_us")
                line.update(cache_hit=not missed, duration_ns=None)
            elif kind.startswith("free"):
                since = born.get(address)
                line["lifetime_ns"] = None if since is None else (event["time_us"] - since) * 1000
            elif kind == "oom":
                line.update(address=None, device_free=event.get("device_free", address))
            missed = kind in ("segment_alloc", "segment_map")
            out.append(line)
        return out if count < 0 else out[len(out) - min(count, len(out)):]

    def memory_snapshot(self, path, format="pickle"):
        """Writes PyTorch's memory snapshot to a file. Only "pickle" is possible; else ValueError."""
        if format != "pickle":
            raise ValueError("PyTorch's allocator writes pickles only")
        self._cuda.memory._dump_snapshot(path)

    @property
    def lib(self):
        """The loaded library (library()); OSError if it is not found."""
        return library()

    def allocate(self, size, stream=NO_STREAM):
        """Returns the address of size bytes from PyTorch's allocator, which the caller must free."""
        if not 0 <= size <= MAX_SIZE:
            raise ValueError("allocate %d bytes: from 0 to %d" % (size, MAX_SIZE))
        if size == 0:
            return 0
        try:
            return self._cuda.caching_allocator_alloc(size, self.index, 0 if stream is None else stream)
        except RuntimeError as e:  # torch.OutOfMemoryError is one
            if "out of memory" in str(e):
                raise OutOfMemoryError("CUDA OOM: %s" % e) from e
            raise

    def free(self, address):
        """Gives back what allocate returned."""
        if address:
            self._cuda.caching_allocator_delete(address)

    def copy(self, to, source, size, direction):
        """Copies between host and device memory, after all that is queued on the device; direction is 1 to the device,
        2 to the host."""
        self._cuda.synchronize(self.index)
        if self.lib.memgauge_copy_cuda(self.index, to, source, size, direction):
            raise failure(self.lib)
