"""What PyTorch allocates on the CPU in sections of code, as its own profiler sees it: for profiler.profile_memory().

PyTorch's allocator for the CPU has no statistics, but tells a profiler of each block, on the thread that has one. Only
one profiler runs at a time, so open sections share ours: where one begins, ends or is asked, what was seen so far is
divided up, and the profiler starts anew.
"""
import os
import threading

from ._agent import torchhook

NAME = "torch cpu"
MARK = "memgauge.profile_memory"    # an event of ours: whose thread's number in the profiler is known
UNSEEN = ("not seen: other threads, frees of older blocks, memory that libraries take elsewhere (numpy, malloc), and "
          "how long an allocation took; PyTorch has no cache for the CPU")
QUIET = "KINETO_LOG_LEVEL", "99"    # else starting the profiler writes to stderr (libkineto_init)

_recorder = None    # while there are open sections


class Unseen(Exception):
    """Why a section's memory on the CPU can't be measured."""


class Section:
    """A stretch of the program on one thread: events, and bytes of the blocks that it has allocated."""

    def __init__(self):
        self.events, self.held, self.peak, self.count = [], 0, 0, 0
        self._live = {}     # address: (bytes, ns)

    def take(self, address, size, at, thread):
        """One event: size is negative for a free."""
        event = {"kind": "alloc" if size > 0 else "free_completed", "timestamp": at / 1e9, "size": abs(size),
                 "address": address, "thread_id": thread, "stream": None}
        if size > 0:
            event.update(duration_ns=None, cache_hit=False)
            self._live[address] = size, at
            self.held, self.count = self.held + size, self.count + 1
            self.peak = max(self.peak, self.held)
        else:
            known, since = self._live.pop(address, (0, None))
            event["lifetime_ns"] = None if since is None else at - since
            self.held -= known
        self.events.append(event)

    def holds(self, address):
        """Whether it has allocated the block that lies there."""
        return address in self._live

    def stats(self):
        """Genesis's keys."""
        return {"allocated_bytes": self.held, "cached_bytes": 0, "reserved_bytes": self.held,
                "inactive_split_bytes": 0, "active_bytes": self.held, "cache_hit_rate": 0.0,
                "num_allocations": self.count, "num_cache_hits": 0, "num_cache_misses": self.count,
                "peak_allocated": self.peak, "peak_cached": 0}

    def summary(self):
        """The same for people."""
        from .integrations.sizes import show
        return "memory of PyTorch on the CPU: %d allocations, %s at most at once, %s still held\n  %s" % (
            self.count, show(self.peak), show(self.held), UNSEEN)


class _Recorder:
    """The profiler of one thread."""

    def __init__(self):
        self.thread, self.native = threading.get_ident(), threading.get_native_id()
        self.sections, self._profile = [], None

    def start(self):
        from torch.autograd import _profiler_enabled, profiler
        if _profiler_enabled() or getattr(profiler, "_is_profiler_enabled", False):
            raise Unseen("the program's own profiler of PyTorch runs")  # which a second one would cancel
        before = os.environ.get(QUIET[0])
        if before is None:
            os.environ[QUIET[0]] = QUIET[1]     # read when the first profiler of the process starts
        try:
            self._profile = profiler.profile(profile_memory=True)
            self._profile.__enter__()
        finally:
            if before is None:
                os.environ.pop(QUIET[0], None)
        with profiler.record_function(MARK):
            pass

    def stop(self):
        """Divides up what was seen."""
        done, self._profile = self._profile, None
        if done is None:
            return
        done.__exit__(None, None, None)
        events = sorted(_flat(done.kineto_results.experimental_event_tree()), key=lambda e: e.start_time_ns)
        mine = next((e.start_tid for e in events if e.name == MARK), None)
        for e in events:
            size = getattr(e.extra_fields, "alloc_size", None)
            if size and str(e.extra_fields.device) == "cpu" and self._knows(e.extra_fields.ptr, size):
                thread = self.native if e.start_tid == mine else None
                for section in self.sections:
                    section.take(e.extra_fields.ptr, size, e.start_time_ns, thread)

    def _knows(self, address, size):
        """Whether it is no free of an older block. PyTorch tells of one by chance: where it lies at the address of
        another that an earlier profiler saw, and whose free came when there was none (c10/core/CPUAllocator.cpp,
        ProfiledCPUMemoryReporter, size_table_)."""
        return size > 0 or any(section.holds(address) for section in self.sections)


def begin():
    """Opens a section on this thread. None without PyTorch; Unseen says why it can't be measured."""
    if torchhook.loaded("torch") is None:
        return None
    if _recorder is not None and _recorder.thread != threading.get_ident():
        raise Unseen("a section on another thread is being measured")
    section = Section()
    _turn(_recorder or _Recorder(), section, True)
    return section


def look(section):
    """Brings a section up to date."""
    if _recorder is not None and section in _recorder.sections and _recorder.thread == threading.get_ident():
        _turn(_recorder, section, True)


def end(section):
    """Closes a section."""
    if _recorder is not None and section in _recorder.sections:
        if _recorder.thread != threading.get_ident():
            raise Unseen("the section has ended on another thread than it began on")
        _turn(_recorder, section, False)


def _turn(recorder, section, measured):
    """Stops the profiler, and starts it again where there are sections left."""
    global _recorder
    try:
        recorder.stop()
        recorder.sections = [s for s in recorder.sections if s is not section] + [section] * measured
        if recorder.sections:
            recorder.start()
        _recorder = recorder if recorder.sections else None
    except (AssertionError, AttributeError, ImportError, RuntimeError) as error:
        _recorder = None    # the program has started a profiler meanwhile, or this is no PyTorch that we know
        raise Unseen(str(error).partition("\n")[0])
    except Unseen:
        _recorder = None
        raise


def _flat(events):
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting += event.children
