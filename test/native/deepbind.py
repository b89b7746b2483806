"""Blocks that cross between a module loaded with RTLD_DEEPBIND and the rest of the process. Prints ok.

    python deepbind.py MODULE
"""
import ctypes
import os
import sys

SIZE, COUNT = 20_000, 5_000

libc = ctypes.CDLL(None)
module = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
for library in (libc.malloc, module.make):
    library.restype, library.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
for library in (libc.free, module.drop):
    library.restype, library.argtypes = None, [ctypes.c_void_p]


def cross(make, drop):
    """The address comes again at once, so a block whose free was not seen gives way to the next."""
    for _ in range(COUNT):
        drop(make(SIZE))


cross(libc.malloc, module.drop)
cross(module.make, libc.free)
cross(module.make, module.drop)
kept = [libc.malloc(SIZE) for _ in range(COUNT)]
print("ok", flush=True)
os._exit(0)  # as it is now
