"""Ten programs that leak about 1 MB/s of native memory, each at one line, which ends in the comment "leak".

    python leaks.py NAME SECONDS      runs one
    python leaks.py --list            names them, and the line of each
"""
import ctypes
import importlib.util
import io
import os
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import time

PACE = 20                   # calls a second
SIZE = 1_000_000 // PACE    # bytes each
kept = []                   # what a program keeps by mistake: Python sees a small object


def numpy_views():
    import numpy
    return lambda: kept.append(numpy.ones(SIZE, numpy.uint8)[:1])  # leak


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
static PyMethodDef methods[] = {{"lose", lose, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "loser", 0, -1, methods};
PyMODINIT_FUNC PyInit_loser(void) { return PyModule_Create(&module); }
"""


def own_extension():
    where = tempfile.mkdtemp(prefix="memgauge-loser-")
    source, built = os.path.join(where, "loser.c"), os.path.join(where, "loser.so")
    with open(source, "w") as f:
        f.write(EXTENSION)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I" + sysconfig.get_paths()["include"], "-o", built, source],
                   check=True)
    spec = importlib.util.spec_from_file_location("loser", built)
    loser = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loser)
    for path in (source, built):
        os.unlink(path)
    os.rmdir(where)
    return lambda: loser.lose(SIZE)  # leak


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


PROGRAMS = [numpy_views, pillow_images, opencv_resize, arrow_buffers, pandas_frames, tokenizers_encodings,
            ctypes_malloc, own_extension, sqlite_databases, lxml_trees]


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
    leak = {p.__name__: p for p in PROGRAMS}[sys.argv[1]]()
    print("leaking", flush=True)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        leak()
        time.sleep(1 / PACE)


if __name__ == "__main__":
    main()
