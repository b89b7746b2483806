#!/usr/bin/env python3
"""Writes a PyTorch memory snapshot of a made-up training, of any size, without PyTorch and without a GPU.

    snapshots.py --megabytes 1300 [--devices 1] [--protocol 4] [--sites 1500] [--leak BYTES] [--oom] FILE

It is built as torch's C++ builds what torch.cuda.memory._snapshot() returns (torch/csrc/cuda/Module.cpp,
THCPModule_memorySnapshot): one dict for each distinct frame, one list for each traceback, which free_requested and
free_completed share, keys shared by all dicts, a fresh tuple for each pool_id. pickle.dump then writes it, about 220
bytes an event. A training step allocates activations, frees them in backward, and runs an optimizer; --leak keeps that
many bytes of each step.
"""
import argparse
import gc
import pickle
import random

MIB = 1 << 20


def fresh(text):
    """A text object of its own, as pybind11 makes."""
    return text.encode().decode()


def make_frames():
    cpp = [{"name": fresh("at::native::op_%d(at::Tensor const&, c10::optional<at::Tensor> const&)" % i),
            "filename": fresh("??" if i % 3 else "/pytorch/aten/src/ATen/native/File%d.cpp" % (i % 97)),
            "line": 0 if i % 3 else 10 + i % 4000} for i in range(1800)]
    lib = [{"name": fresh("fn_%d" % (i % 700)), "filename": fresh("/opt/lib/python3.11/site-packages/torch/mod_%d.py" % (i % 211)),
            "line": 1 + i % 2500} for i in range(3000)]
    user = [{"name": fresh(name), "filename": fresh("train/%s.py" % file), "line": line} for name, file, line in (
        ("forward", "model", 41), ("attention", "model", 77), ("mlp", "model", 93), ("training_step", "train", 120), ("main", "train", 201))]
    return cpp, lib, user


class Device:
    """The caching allocator of one device, as far as its history goes."""

    def __init__(self, number, options, rnd, frames):
        self.number, self.o, self.rnd, (self.cpp, self.lib, self.user) = number, options, rnd, frames
        self.events, self.segments, self.free, self.live = [], [], {}, {}
        self.bump, self.end, self.time = 0x7F0000000000 + (number << 40), 0, 1763000000000000
        self.streams = [0, 0, 0, 0x55D0C0DE1000 + number * 4096]
        self.sites = [(self.stack(i), 512 * rnd.choice([1, 1, 1, 2, 4, 16, 64, 512, 4096]) * rnd.randint(1, 7)) for i in range(4000)]

    def stack(self, i):
        c, p = self.rnd.randrange(1700), self.rnd.randrange(100, 2900)
        return self.cpp[c:c + self.rnd.randint(10, 22)] + self.lib[p:p + self.rnd.randint(8, 24)] + self.user[i % 3:i % 3 + 1] + self.user[3:]

    def record(self, action, addr, size, stream, frames, context="N/A", pool=(0, 0), key="addr"):
        self.time += self.rnd.randrange(3, 40)
        self.events.append({"action": action, key: addr, "size": size, "stream": stream, "time_us": self.time,
                            "compile_context": fresh(context), "user_metadata": "", "pool_id": (pool[0], pool[1]), "frames": frames})

    def alloc(self, site):
        frames, size = self.sites[site]
        stream, pooled = self.streams[site & 3], self.free.get(size)
        if pooled:
            addr = pooled.pop()
        else:
            addr = self.carve(size, stream, site)
        mine = list(frames)
        self.record("alloc", addr, size, stream, mine, "0/0" if site % 50 == 0 else "N/A", (0, 1) if site % 40 == 0 else (0, 0))
        self.live[addr] = (size, stream, mine)
        return addr

    def carve(self, size, stream, site):
        if self.bump + size > self.end:
            whole = max(20 * MIB, -(-size // (2 * MIB)) * 2 * MIB)
            self.bump = -(-max(self.bump, self.end) // (2 * MIB)) * 2 * MIB
            self.end = self.bump + whole
            self.segments.append((self.bump, whole, stream, list(self.sites[site][0])))
            self.record("segment_map" if self.number & 1 else "segment_alloc", self.bump, whole, stream, self.segments[-1][3])
        self.bump += size
        return self.bump - size

    def release(self, addr, site):
        size, stream, _ = self.live.pop(addr)
        frames = list(self.sites[site][0])
        self.record("free_requested", addr, size, stream, frames)
        self.record("free_completed", addr, size, stream, frames)
        self.free.setdefault(size, []).append(addr)

    def step(self, first):
        order, kept = self.rnd.sample(range(4000), self.o.sites), []
        for site in order:  # forward: a quarter stays until backward
            addr = self.alloc(site)
            if self.rnd.random() < 0.25:
                kept.append((addr, site))
            else:
                self.release(addr, (site * 7 + 3) % 4000)
        if first:
            del kept[::20]  # weights
        for addr, site in reversed(kept):
            self.release(addr, (site * 5 + 1) % 4000)
        left = self.o.leak
        while left > 0:  # held by what grows: from the first site that is large enough
            site = min((s for s in range(4000)), key=lambda s: abs(self.sites[s][1] - left))
            left -= self.sites[site][1]
            self.alloc(site)

    def state(self):
        """The segments with their blocks at the end."""
        out, blocks = [], sorted((a, *rest) for a, rest in self.live.items())
        nothing, i = [], 0
        for base, whole, stream, frames in self.segments:
            mine, at = [], base
            while i < len(blocks) and blocks[i][0] < base + whole:
                addr, size, _, stack = blocks[i]
                i += 1
                if addr > at:
                    mine.append({"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": nothing})
                mine.append({"address": addr, "size": size, "requested_size": size - 4, "state": "active_allocated", "frames": stack})
                at = addr + size
            if at < base + whole:
                mine.append({"address": at, "size": base + whole - at, "requested_size": 0, "state": "inactive", "frames": nothing})
            active = sum(b["size"] for b in mine if b["state"] == "active_allocated")
            out.append({"device": self.number, "address": base, "total_size": whole, "allocated_size": active, "active_size": active,
                        "requested_size": active, "stream": stream, "segment_type": "large", "segment_pool_id": (0, 0),
                        "is_expandable": bool(self.number & 1), "frames": frames, "blocks": mine})
        return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--megabytes", type=float, default=10)
    p.add_argument("--devices", type=int, default=1)
    p.add_argument("--protocol", type=int, default=4)
    p.add_argument("--sites", type=int, default=1500, help="allocations of one step")
    p.add_argument("--leak", type=int, default=0, help="bytes that each step keeps")
    p.add_argument("--oom", action="store_true", help="end with an allocation that does not fit")
    p.add_argument("file")
    o = p.parse_args()
    gc.disable()
    rnd, frames = random.Random(7), make_frames()
    devices = [Device(n, o, rnd, frames) for n in range(o.devices)]
    notes, each = [], int(o.megabytes * 1e6 / 217 / o.devices)
    for d in devices:
        step = 0
        while len(d.events) < each:
            if d.number == 0:
                notes.append({"stage": "START", "name": fresh("## step %d ##" % step), "device": 0, "time_us": d.time})
            d.step(step == 0)
            step += 1
        if o.oom:
            d.record("oom", 1 << 30, 8 << 30, 0, list(d.sites[1][0]), key="device_free")
        d.record("snapshot", 0, 0, 0, list(d.sites[2][0]))
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False,
                "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
    with open(o.file, "wb") as f:
        pickle.dump({"segments": [s for d in devices for s in d.state()], "device_traces": [d.events for d in devices],
                     "allocator_settings": settings, "external_annotations": notes}, f, protocol=o.protocol)


if __name__ == "__main__":
    main()
