"""Finds the allocator's library for tests: MEMGAUGE_ALLOC_LIBRARY, else what `make build` has made."""
import ctypes
import os

BUILT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bin", "libmemgauge_alloc.so")


def find():
    """(path, None), or (None, why there is none)."""
    path = os.environ.get("MEMGAUGE_ALLOC_LIBRARY") or os.path.normpath(BUILT)
    if not os.path.exists(path):
        return None, "no %s: make build" % path
    try:
        ctypes.CDLL(path)
    except OSError as e:  # built against a newer C library than this interpreter's
        return None, str(e)
    return path, None


PATH, REASON = find()
if PATH:
    os.environ["MEMGAUGE_ALLOC_LIBRARY"] = PATH
