"""The weights of the training's modules as a file: what is saved where the program's own checkpoint can't be."""
import os

from .. import torchhook
from . import lists

ROOM = 1.1        # times the weights that a disk must have free
IN_MEMORY = (0x01021994, 0x858458F6)      # tmpfs, ramfs (linux/magic.h): what lies there takes the memory that runs out


def save():
    """Of the modules that are part of no other, {number and class: {name: tensor}}; the path. Hooks of the program's,
    and collectives of its ranks, are not called: parameters are taken as they lie here."""
    torch = torchhook.loaded("torch")
    roots = _roots() if torch is not None else []
    if not roots:
        raise LookupError("no module of torch is known")
    tables = {"%d %s" % (n, type(m).__name__): _table(m) for n, m in enumerate(roots)}
    size = sum(t.numel() * t.element_size() for table in tables.values() for t in table.values())
    failed = LookupError("no directory has room for %d bytes" % size)
    for directory in _directories(size):
        path = os.path.join(directory, "memgauge-weights-%d.pt" % os.getpid())
        try:
            torch.save(tables, path + ".part")
            os.replace(path + ".part", path)
            return path
        except Exception as error:
            failed = error
            try:
                os.unlink(path + ".part")
            except OSError:
                pass
    raise failed


def _roots():
    modules = lists.modules_of_torch()
    children = {id(c) for m in modules for c in m.children()}
    return [m for m in modules if id(m) not in children and next(m.parameters(), None) is not None]


def _table(module):
    table = {name: p.detach() for name, p in module.named_parameters()}
    table.update((name, b.detach()) for name, b in module.named_buffers())
    return table


def _directories(size):
    """The session's own, the working directory, that for temporary files: those with room."""
    for directory in (os.environ.get("MEMGAUGE_RUNTIME"), os.getcwd(), os.environ.get("TMPDIR") or "/tmp"):
        if not directory or not os.access(directory, os.W_OK) or _kind(directory) in IN_MEMORY:
            continue
        disk = os.statvfs(directory)
        if disk.f_bavail * disk.f_frsize > ROOM * size:
            yield directory


def _kind(directory):
    """The file system's magic number; 0: not known. Python's statvfs leaves it out."""
    try:
        import ctypes
        held = (ctypes.c_long * 64)()       # struct statfs begins with it (statfs(2))
        return held[0] if ctypes.CDLL(None).statfs(os.fsencode(directory), held) == 0 else 0
    except (ImportError, OSError, AttributeError):
        return 0
