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


def fake_gpu(size):
    """Loads a libcuda.so.1 made of libcuda.c, a GPU of so many bytes; or says why it can't. Whoever asks the loader for
    libcuda.so.1 from then on gets it, since names are compared before paths."""
    import subprocess
    import tempfile
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["FAKECUDA_BYTES"] = str(size)
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "libcuda.so.1")
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-pthread", "-Wl,-soname,libcuda.so.1", "-o", made,
                            os.path.join(here, "libcuda.c")], check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
            ctypes.CDLL(made)
        except (OSError, subprocess.CalledProcessError) as e:
            return "no libcuda for tests: %s" % e
    return None
