"""The blocks of allocators, on request: glibc's malloc_info(3) and PyTorch's segments.

Reading them stops the allocator: 1 µs a free chunk in glibc, a few µs a block in PyTorch. It is never done in a
step."""
import json
import os

from .. import allowance, torchhook

MAX_TEXT = 4 << 20    # bytes of malloc_info's XML: some 10 KiB an arena


def malloc_info():
    """The XML text of malloc_info(3), at most MAX_TEXT bytes; None if the C library lacks the function."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        info, stream, close = libc.malloc_info, libc.fdopen, libc.fclose
    except AttributeError:
        return None
    stream.restype, stream.argtypes, close.argtypes = ctypes.c_void_p, [ctypes.c_int,
        ctypes.c_char_p], [ctypes.c_void_p]
    info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    fd = os.memfd_create("malloc_info")
    try:
        file = stream(os.dup(fd), b"w")
        if not file:
            return None
        failed = info(0, file)
        close(file)
        return None if failed else os.pread(fd, MAX_TEXT, 0).decode()
    finally:
        os.close(fd)


def cuda_segments():
    """PyTorch's segments with their blocks as plain lists, [] without CUDA in use. Torch is never imported for it."""
    cuda = torchhook.cuda()
    if cuda is None:
        return []
    return [[s["device"], s["total_size"], [[b["size"], b["state"]] for b in s["blocks"]]]
            for s in cuda.memory_snapshot()]


def told():
    """Both as one line of JSON."""
    return json.dumps({"malloc_info": malloc_info(), "segments": cuda_segments()})


def asked():
    """told() for whoever may read the session, who may ask for any number: from the allowance of backtraces."""
    try:
        return allowance.readers.take(told)
    except allowance.Spent as error:
        return json.dumps({"spent": str(error)})
