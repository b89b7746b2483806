"""Programs that leak about 1 MB/s of native memory, each at one line, which ends in the comment "leak".

    python leaks.py NAME SECONDS [CALLS]    runs one; it says "leaking" after so many calls
    python leaks.py --list                  names them, and the line of each
"""
import atexit
import ctypes
import importlib.util
import io
import mmap
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import time
import zlib

PACE = 20                   # calls a second
SIZE = 1_000_000 // PACE    # bytes each
kept = []                   # what a program keeps by mistake: Python sees a small object


def numpy_views():
    import numpy
    return lambda: kept.append(numpy.ones(SIZE, numpy.uint8)[:1])  # leak


def numpy_kept_by_c():
    import numpy
    keep = ctypes.pythonapi.Py_IncRef
    keep.argtypes = [ctypes.py_object]
    return lambda: keep(numpy.ones(SIZE, numpy.uint8))  # leak


def pillow_images():
    from PIL import Image
    return lambda: kept.append(Image.new("L", (SIZE // 100, 100)))  # leak


def opencv_resize():
    import cv2
    import numpy
    small = numpy.zeros((10, 10), numpy.uint8)
    return lambda: kept.append(cv2.resize(small, (SIZE // 100, 100)))  # leak


def arrow_buffers():
    import pyarrow.compute
    data = pyarrow.array([1] * (SIZE // 8))
    twice = pyarrow.compute.multiply
    return lambda: kept.append(twice(data, 2))  # leak


def pandas_frames():
    import numpy
    import pandas
    return lambda: kept.append(pandas.DataFrame(numpy.ones((SIZE // 80, 10))).copy(deep=True))  # leak


def tokenizers_encodings():
    from tokenizers import Tokenizer, models, pre_tokenizers
    t = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    text = "a " * (SIZE // 100)
    return lambda: kept.append(t.encode(text))  # leak


def ctypes_malloc():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    return lambda: libc.memset(libc.malloc(SIZE), 1, SIZE)  # leak


EXTENSION = r"""
#include <Python.h>
#include <stdlib.h>
#include <string.h>
static PyObject *lose(PyObject *self, PyObject *size) {
    size_t n = PyLong_AsSize_t(size);
    char *p = malloc(n);
    if (p) memset(p, 1, n);
    return PyLong_FromVoidPtr(p);  /* else the compiler leaves the malloc out */
}
"""

EXTENSION_CPP = r"""
#include <Python.h>
#include <vector>
static PyObject *lose(PyObject *self, PyObject *size) {
    return PyLong_FromVoidPtr(new std::vector<char>(PyLong_AsSize_t(size), 1));
}
"""

EXTENSION_MMAP = r"""
#include <Python.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static PyObject *lose(PyObject *self, PyObject *size) {
    size_t n = 2 * PyLong_AsSize_t(size);  /* maps below 64 KiB are not sampled */
    void *p = (void *)syscall(SYS_mmap, NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (p != MAP_FAILED) memset(p, 1, n);
    return PyLong_FromVoidPtr(p);
}
"""

MODULE = r"""
static PyMethodDef methods[] = {{"lose", lose, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "loser", 0, -1, methods};
PyMODINIT_FUNC PyInit_loser(void) { return PyModule_Create(&module); }
"""


def built(text, compiler="cc", suffix=".c"):
    """The function lose of a module that is made of that text."""
    where = tempfile.mkdtemp(prefix="memgauge-loser-")
    atexit.register(shutil.rmtree, where)   # the file tells the function's name
    source, library = os.path.join(where, "loser" + suffix), os.path.join(where, "loser.so")
    with open(source, "w") as f:
        f.write(text + MODULE)
    include = "-I" + sysconfig.get_paths()["include"]
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", include, "-o", library, source], check=True)
    spec = importlib.util.spec_from_file_location("loser", library)
    loser = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loser)
    return loser.lose


def own_extension():
    lose = built(EXTENSION)
    return lambda: lose(SIZE)  # leak


def cpp_extension():
    lose = built(EXTENSION_CPP, "c++", ".cc")
    return lambda: lose(SIZE)  # leak


def raw_maps():
    lose = built(EXTENSION_MMAP)
    return lambda: lose(SIZE)  # leak


def memfd_maps():
    def one():
        fd = os.memfd_create("leak")
        os.ftruncate(fd, 2 * SIZE)
        kept.append(mmap.mmap(fd, 2 * SIZE))  # leak
        os.close(fd)
        kept[-1].write(bytes(2 * SIZE))
    return one


def zlib_objects():
    return lambda: kept.append(zlib.compressobj(9))  # leak


def sqlite_databases():
    def one():
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE t (b BLOB)")
        db.execute("INSERT INTO t VALUES (zeroblob(?))", (SIZE,))  # leak
        kept.append(db)
    return one


def lxml_trees():
    from lxml import etree
    text = b"<a>" + b"<b/>" * (SIZE // 120) + b"</a>"
    return lambda: kept.append(etree.parse(io.BytesIO(text)))  # leak


PROGRAMS = [numpy_views, numpy_kept_by_c, pillow_images, opencv_resize, arrow_buffers, pandas_frames,
            tokenizers_encodings, ctypes_malloc, own_extension, cpp_extension, raw_maps, memfd_maps, sqlite_databases,
            lxml_trees, zlib_objects]


def line_of(program):
    with open(__file__) as f:
        lines = f.read().splitlines()
    first = program.__code__.co_firstlineno
    return next(i for i in range(first, first + 20) if lines[i - 1].endswith("# leak"))


def main():
    if sys.argv[1] == "--list":
        for p in PROGRAMS:
            print(p.__name__, line_of(p))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    leak = {p.__name__: p for p in PROGRAMS}[sys.argv[1]]()
    before = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    end, calls = time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < end:
        if calls == before:
            print("leaking", flush=True)
        calls += 1
        leak()
        time.sleep(1 / PACE)


if __name__ == "__main__":
    main()
