"""Tells of allocations that failed, as events named `oom`: text is the error's message, a the bytes that were asked for
(0 if it does not say), b the CUDA device (-1: the host's memory). Nothing is hooked: an error that ends the program is
found at exit where the interpreter leaves it (sys.last_value: Python/pythonrun.c, _PyErr_PrintEx), and one that the
program has caught by the allocator's own count. An event `oom_hole` follows: a is the largest hole between the
allocator's blocks, b the device."""
import re
import sys
import time

from .. import state

MAX_CHAIN = 8    # errors raised while another was handled
MAX_MESSAGE = 1500
HOLE_EVERY = 60  # s between two readings: a program that searches its batch size by failing is not delayed each time
CHUNK = re.compile(r'<(?:size|unsorted) from="\d+" to="(\d+)"')
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_told = -HOLE_EVERY


def at_exit():
    """The error that ends the program, or one that it was raised from."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for _ in range(MAX_CHAIN):
        if error is None:
            return
        if is_oom(error):
            message = str(error)[:MAX_MESSAGE]
            at = device(error, message)
            state.event("oom", "%s: %s" % (type(error).__name__, message), requested(message), at)
            tell_hole(at)
            return
        error = error.__cause__ or error.__context__


def is_oom(error):
    # torch.OutOfMemoryError (torch.cuda.OutOfMemoryError before 2.5) by its name: torch may not be loaded. The CPU's
    # allocator raises a RuntimeError (c10/core/impl/alloc_cpu.cpp).
    return isinstance(error, MemoryError) or any(base.__name__ == "OutOfMemoryError"
                                                 for base in type(error).__mro__) or (
        isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))


def requested(message):
    """Of "Tried to allocate 2.00 GiB" (c10/cuda/CUDACachingAllocator.cpp), "you tried to allocate 123 bytes" and
    "Unable to allocate 7.45 GiB" (numpy)."""
    words = message.split()
    for i, word in enumerate(words[:-2]):
        if word == "allocate":
            try:
                return int(float(words[i + 1]) * UNITS[words[i + 2].rstrip(".,")])
            except (ValueError, KeyError):
                continue
    return 0


def device(error, message):
    """Of "GPU 0 has a total capacity of …"."""
    words = message.split()
    for i, word in enumerate(words[:-1]):
        if word == "GPU" and words[i + 1].rstrip(".;,").isdigit():
            return int(words[i + 1].rstrip(".;,"))
    return -1


def caught(device, count):
    """A step has ended and the allocator's count of failed allocations has risen to count."""
    state.event("oom", "cuda:%d: an allocation failed and the program went on (%d so far)" % (device, count), 0, device)
    tell_hole(device)


def tell_hole(device):
    """Writes the event. The error's traceback still keeps the blocks in use, so the holes are those that the request
    met."""
    global _told
    now = time.monotonic()
    if now - _told < HOLE_EVERY:
        return
    _told = now
    try:
        hole = largest_hole(device)
    except Exception:
        return    # memory may be so short that reading the segments fails too
    if hole is not None:
        state.event("oom_hole", "", hole, device)


def largest_hole(device):
    """Bytes; None if the allocator's segments can't be read."""
    from . import heap
    if device < 0:
        text = heap.malloc_info()
        return text and max((int(size) for size in CHUNK.findall(text)), default=0)
    segments = heap.cuda_segments()
    return max((size for at, _, blocks in segments if at == device for size, state in blocks if state == "inactive"),
               default=0) if segments else None
