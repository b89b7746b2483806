"""PyTorch's memory history: switches its recording on and off, and keeps a snapshot when an allocation fails.

What is on in the program stays as it is unless a command says otherwise. With MEMGAUGE_RECORD ("MAX_ENTRIES STACKS
MAX_BYTES", set by `memgauge run --record-memory`) recording begins when the program starts CUDA, and the allocator's
own out-of-memory observer has the snapshot written before the error is raised: what filled the device is still there.
It goes into the runtime directory as snapshot.PID.pickle, in place of an older one of the session.
"""
import os
import time

from .. import state, torchhook

KEEP_EVERY = 60     # s between two snapshots, so that a program that searches its batch size by failing is not slow
_kept = -KEEP_EVERY


def _cuda():
    """torch, if the program uses it on CUDA; else None. This imports nothing and doesn't initialise CUDA."""
    torch = torchhook.loaded("torch")
    if torchhook.cuda() is None:
        built = getattr(torch, "version", None)
        if built is not None and built.cuda is None and getattr(built, "hip", None) is None:
            raise RuntimeError("the process does not use CUDA: its PyTorch is built for the CPU, whose allocator keeps "
                               "no history")
        raise RuntimeError("the process does not use CUDA")
    return torch


def _recorder(torch):
    record = getattr(torch.cuda.memory, "_record_memory_history", None)
    if record is None or not hasattr(torch.cuda.memory, "_record_memory_history_impl"):
        raise RuntimeError("PyTorch %s can't record a history of allocations: 2.1 is the first that can"
                           % torch.__version__)
    return record


def on(max_entries, stacks, torch=None):
    """torch is given where CUDA is just being initialized: until that has ended torch says that it is not."""
    _recorder(torch or _cuda())("all", stacks=stacks, max_entries=max_entries)
    state.event("record", "memory history on: at most %d entries, stacks %s" % (max_entries, stacks), max_entries)


def off():
    _recorder(_cuda())(None)
    state.event("record", "memory history off")


def recording(torch):
    """Whether a history is recorded; None where PyTorch doesn't tell."""
    asked = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return None if asked is None else bool(asked())


def dump(path):
    """Writes the snapshot to a path. Returns whether it has a history: "yes", "no" or "unknown"."""
    torch = _cuda()
    torch.cuda.memory._dump_snapshot(path)
    return {None: "unknown", True: "yes", False: "no"}[recording(torch)]


# From the start

def install(torch):
    """Arranges that recording begins when the program initialises CUDA, which it may never do. Raises nothing."""
    try:
        entries, stacks, most = os.environ["MEMGAUGE_RECORD"].split()
        entries, most = int(entries), int(most)
        torch.cuda._lazy_call(lambda: _begin(torch, entries, stacks, most))
    except Exception:
        state.error("record memory")


def _begin(torch, entries, stacks, most):
    """Runs at the end of torch.cuda's initialization, on the program's thread: what it raises would end that."""
    try:
        if state.current is None:
            return
        on(entries, stacks, torch)
        torch._C._cuda_attach_out_of_memory_observer(lambda device, *sizes: _keep(device, most))
    except Exception:
        state.error("record memory")


def _keep(device, most):
    """The allocator's observer: it can't be taken off, and must not raise."""
    global _kept
    try:
        directory = _directory()
        now = time.monotonic()
        if directory is None or now - _kept < KEEP_EVERY:
            return
        _kept = now
        size = keep(directory, most)
        state.event("snapshot", "an allocation on cuda:%d failed: the snapshot is kept" % device if size else
                      "an allocation on cuda:%d failed: its snapshot would have been larger than %d bytes"
                      % (device, most), size, device)
    except Exception:
        state.error("keep snapshot")


def _directory():
    """The directory where this process may write files for the session; None if it can't see it, or is not observed."""
    s = state.current
    return None if s is None or s.door is not None else s.runtime


def keep(directory, most):
    """Writes the snapshot of this process in place of those that the directory has. Returns its bytes, 0 where it has
    more than `most` and is not kept."""
    name = "snapshot.%d.pickle" % os.getpid()
    temp = os.path.join(directory, ".taking.%d" % os.getpid())
    os.close(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
    try:
        torchhook.cuda().memory._dump_snapshot(temp)
        size = os.stat(temp).st_size
        if size > most:
            return 0
        os.replace(temp, os.path.join(directory, name))
        temp = None
    finally:
        if temp is not None:
            os.unlink(temp)
    _remove_older(directory, name)
    return size


def _remove_older(directory, name):
    """Removes older snapshots. Ranks may fail at the same moment: the newest snapshot stays."""
    def age(other):
        return os.stat(os.path.join(directory, other)).st_mtime_ns, other

    ours = age(name)
    for other in os.listdir(directory):
        if other.startswith("snapshot.") and other.endswith(".pickle") and other != name:
            try:
                if age(other) < ours:
                    os.unlink(os.path.join(directory, other))
            except OSError:
                pass    # another rank was faster
