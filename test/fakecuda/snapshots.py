"""Has PyTorch itself write memory snapshots, into DIR, on a machine without a GPU: see cudart.c.

    LD_LIBRARY_PATH=BUILT LD_PRELOAD=BUILT/libfakecudart.so python snapshots.py DIR
"""
import ctypes
import os
import pickle
import random
import sys

import torch

RND = random.Random(5)


def work(devices, steps):
    """Steps of allocations; some stay, some are used by another stream, some lie in a private pool."""
    kept, pool, side = [], torch.cuda.MemPool(), torch.cuda.Stream()
    for step in range(steps):
        with torch.profiler.record_function("## step %d ##" % step):
            made = [torch.empty(RND.randrange(1, 1 << 22), device="cuda:%d" % RND.randrange(devices))
                    for _ in range(40)]
            with torch.cuda.use_mem_pool(pool):
                made.append(torch.empty(RND.randrange(1, 1 << 20), device="cuda:0"))
            made.append(torch.empty(1 << 12, pin_memory=True))
            with torch.cuda.stream(side):
                made.append(torch.empty(1 << 18, device="cuda:0"))
            made[0].record_stream(side) # its memory is free when the stream's event is over, later
            RND.shuffle(made)
            kept.append(made.pop())
            if step % 7 == 3:
                del kept[::2]
    return kept


def in_parts():
    """Every second of some blocks goes, and with expandable segments the pages in between: a segment in several parts.
    At last something is freed that another stream still uses."""
    blocks = [torch.empty(48 << 20, dtype=torch.int8, device="cuda:0") for _ in range(21)]
    blocks[-1].record_stream(torch.cuda.Stream())
    del blocks[1:-1:2]
    torch.cuda.empty_cache()
    return blocks[:-1]


def out_of_memory():
    try:
        torch.empty(7 << 30, dtype=torch.int8, device="cuda:0"), torch.empty(3 << 30, dtype=torch.int8, device="cuda:0")
    except torch.OutOfMemoryError:
        pass


def from_cpp(path):
    """torch::cuda::_memory_snapshot_pickled() returns a std::string: where its bytes are, and how many."""
    text, lib = (ctypes.c_size_t * 4)(), ctypes.CDLL("libtorch_cuda.so")
    getattr(lib, "_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev")(ctypes.byref(text))
    with open(path, "wb") as f:
        f.write(ctypes.string_at(text[0], text[1]))


def main():
    directory, kind = sys.argv[1], "expandable" if "expandable" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF",
        "") else "plain"
    before = [torch.empty(1 << 20, device="cuda:0") for _ in range(9)]
    torch.cuda.memory._record_memory_history(stacks="python", global_record_annotations=True,
                                             record_pinned_host_memory=True)
    kept = work(2, 20)
    torch.cuda.memory._set_memory_metadata("phase two")
    del before[::2]
    out_of_memory()
    torch.cuda.empty_cache()
    kept += work(2, 3) + in_parts()
    if hasattr(torch.cuda.memory, "_annotate_tensor"):
        torch.cuda.memory._annotate_tensor(kept[0], "weights")
    for protocol in range(2, 6):
        with open(os.path.join(directory, "%s%d.pickle" % (kind, protocol)), "wb") as f:
            pickle.dump(torch.cuda.memory._snapshot(), f, protocol=protocol)
    from_cpp(os.path.join(directory, kind + "-cpp.pickle"))
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=100)  # a ring buffer that has overrun
    kept += work(2, 10)
    torch.cuda.memory._dump_snapshot(os.path.join(directory, kind + "-middle.pickle"))
    sys.stdout.flush()
    os._exit(0)  # nothing is left to be freed on a device that is not there


if __name__ == "__main__":
    main()
