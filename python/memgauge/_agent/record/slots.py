"""The slots of a ring and who writes them.

Whoever holds the token writes. A writer that finds the token taken (another thread, or the very code that a signal
handler interrupted) leaves its records in a bounded queue, and the holder writes them when it is done; the queue is
looked at again after the token is given back, so nothing stays behind.

The token is popped from a list and appended again: both are atomic, and together they take 40 ns less than a lock's
try-acquire and release. An exception that lands between the pop and the try (KeyboardInterrupt, at a bytecode border)
would lose it; drain() notices that nobody who could hold it is running.
"""
import _thread
import sys
import time
from collections import deque

from .. import frames, state
from . import _spec as S

MAX_WAITING = 4096          # batches, at most 2 MB: what 20 threads write while the holder is preempted for 100 µs
# batches; from here on a writer offers the GIL first, so that a preempted holder gets its turn
CROWDED = 1024
SUSPECT = 64                # with each so many batches waiting (or lost by a thread), look whether the token is lost
HEAD = S.OFF_HEAD >> 3      # as a 64-bit word

# time.monotonic_ns is CLOCK_MONOTONIC on Linux, and perf_counter_ns is the same clock at the same price
# (CPython Python/pytime.c: py_get_monotonic_clock serves both). test_ring.py checks it.
clock = time.monotonic_ns


class Slots:
    """What the writers of one ring share."""

    __slots__ = ("slots", "words", "mask", "token", "waiting", "lost", "errors", "told")

    def __init__(self, slots, words, slot_count, lost, errors):
        self.slots, self.words, self.mask = slots, words, slot_count - 1
        self.token, self.waiting = [1], deque()
        self.lost, self.errors, self.told = lost, errors, 0

    def put(self, ts, batch):
        """Writes records one after another, of the same time: (pack_into, (kind, field, ...)) each."""
        count = len(self.waiting) + 1
        if count > MAX_WAITING:
            me = _thread.get_ident()    # each thread counts its own: += on a shared number is not atomic
            self.lost[me] = count = self.lost.get(me, 0) + 1
        else:
            self.waiting.append((clock() if ts is None else ts, batch))
            if count > CROWDED:
                time.sleep(0)
        self.drain(count % SUSPECT == 0)

    def drain(self, suspicious=False):
        """Writes what waits, unless somebody holds the token: then that one does."""
        waiting, token = self.waiting, self.token
        while waiting:
            try:
                token.pop()
            except IndexError:
                if not suspicious or _being_written():
                    return
                token.append(1)
                suspicious = False
                continue
            try:
                while waiting:
                    self._write(*waiting.popleft())
            except Exception:  # a value that does not fit its field, or a ring that was closed meanwhile
                self.errors[0] += 1
            finally:
                token.append(1)

    def _write(self, ts, batch):
        words, slots, mask = self.words, self.slots, self.mask
        for pack, fields in batch:
            seq = words[HEAD] + 1
            pack(slots, (seq & mask) << 6, seq, ts, *fields, (seq * 0x9E3779B1 ^ ts) & 0xFFFFFFFF)
            words[HEAD] = seq


# trace and step are the hot path. Publishing is one aligned 8-byte store: memoryview's pack_single copies an unsigned
# long long with a memcpy of constant size (CPython Objects/memoryobject.c, PACK_SINGLE), where struct.pack_into first
# zeroes the bytes (Modules/_struct.c, s_pack_internal) and would show a head of 0 in between. On x86 stores become
# visible in their order; elsewhere a reader may see the head first, and the check tells it.

def trace_writer(core):
    pack, slots, words, mask = S.TRACE_STRUCT.pack_into, core.slots, core.words, core.mask
    take, give, waiting, put, drain, errors = (core.token.pop, core.token.append, core.waiting, core.put, core.drain,
                                               core.errors)
    now, at = clock, HEAD

    def trace(stage, flags, device, name, step, allocated, max_allocated, cached, max_cached, ts=None):
        if ts is None:
            ts = now()
        try:
            take()
        except IndexError:
            put(ts, ((pack, (1, stage, flags, device, name, step, allocated, max_allocated, cached, max_cached)),))
            return
        try:
            seq = words[at] + 1
            pack(slots, (seq & mask) << 6, seq, ts, 1, stage, flags, device, name, step,
                 allocated, max_allocated, cached, max_cached, (seq * 0x9E3779B1 ^ ts) & 0xFFFFFFFF)
            words[at] = seq
        except Exception:
            errors[0] += 1
        finally:
            give(1)
        if waiting:
            drain()

    return trace


def step_writer(core):
    pack, slots, words, mask = S.STEP_END_STRUCT.pack_into, core.slots, core.words, core.mask
    take, give, waiting, put, drain, errors = (core.token.pop, core.token.append, core.waiting, core.put, core.drain,
                                               core.errors)
    now, at, room = clock, HEAD, S.STEP_END_ROOM
    pack_host, host_room = S.HOST_STRUCT.pack_into, S.HOST_ROOM
    work, told = state.work, state.tokens

    def step(flags, steps, step, agent_ns, duration, host=None, ts=None):
        """host: rss, anon and max_rss, or None where they were not read."""
        if ts is None:
            ts = now()
        kind, tokens = work[0], _sum(told) if told else S.NOT_TAKEN
        try:
            take()
        except IndexError:
            batch = ((pack, (10, flags, steps, step, agent_ns, duration, kind, tokens, room)),)
            if host is not None:
                batch = ((pack_host, (11, 0, 0, step) + host + (host_room,)),) + batch
            put(ts, batch)
            return
        try:
            seq = words[at] + 1
            if host is not None:
                pack_host(slots, (seq & mask) << 6, seq, ts, 11, 0, 0, step, *host, host_room,
                          (seq * 0x9E3779B1 ^ ts) & 0xFFFFFFFF)
                words[at] = seq
                seq += 1
            pack(slots, (seq & mask) << 6, seq, ts, 10, flags, steps, step, agent_ns, duration,
                 kind, tokens, room,
                 (seq * 0x9E3779B1 ^ ts) & 0xFFFFFFFF)
            words[at] = seq
        except Exception:
            errors[0] += 1
        finally:
            give(1)
        if waiting:
            drain()

    return step


def _sum(told):
    """The tokens that units of work have told of so far, which are taken off. From any thread."""
    total = 0
    for _ in range(len(told)):
        try:
            total += told.popleft()
        except IndexError:      # another thread writes a record too
            break
    return min(total, S.NOT_TAKEN - 1)


_names_of_writers = frozenset(("trace", "step", "put", "drain", "_write"))


def _is_writer(frame):
    return frame.f_code.co_filename == __file__ and frame.f_code.co_name in _names_of_writers


def _being_written():
    """Whether anybody may hold a token: a frame of a writer in another thread, or, in this one, below the call that
    asks (that is what a signal handler interrupted). Seldom called, since it walks every stack."""
    frame = sys._getframe(1)
    while frame is not None and _is_writer(frame):
        frame = frame.f_back
    return any(_is_writer(f) for top in [frame, *frames.innermost().values()] for f in frames.stack(top))
