#!/usr/bin/env python3
"""Writes a PyTorch memory snapshot of a made-up training, of any size, without PyTorch and without a GPU.

    snapshots.py --megabytes 1300 [--devices 1] [--protocol 4] [--sites 1500] [--leak BYTES] [--oom] [--expandable] FILE

It is what pickle.dump writes of torch.cuda.memory._snapshot() as torch's C++ builds it (torch/csrc/cuda/Module.cpp,
THCPModule_memorySnapshot): one dict for each distinct frame, one list for each traceback, which free_requested and
free_completed share, keys shared by all dicts, a fresh tuple for each pool_id; about 220 bytes an event. A training
step allocates activations, frees them in backward, and runs an optimizer; --leak keeps that many bytes of each step.
Devices of odd numbers have expandable segments, with --expandable all.

The opcodes are written as the training goes, so that 5 GB need no more memory than 5 MB. Segments come first in such a
file, and they tell what is live at the end: so the training is made up twice, with the same random numbers.
"""
import argparse
import random
import struct

import expandable

MIB = 1 << 20


class Frame:
    """A line of code, which is one dict in the file."""

    def __init__(self, name, filename, line):
        self.dict = {"name": Fresh(name), "filename": Fresh(filename), "line": line}


class Fresh(str):
    """A text object of its own, as pybind11 makes: written again although an equal one was."""


class Trace:
    """A traceback, which is one list in the file. `serial` counts them in the order in which they are made."""

    __slots__ = ("frames", "serial")

    def __init__(self, frames, serial):
        self.frames, self.serial = frames, serial


class Pickle:
    """Writes opcodes (Lib/pickle.py; what they mean is in Lib/pickletools.py) and remembers what has which memo."""

    FRAME = 64 << 10     # bytes, as pickle has it

    def __init__(self, file, protocol):
        self.file, self.protocol = file, protocol
        self.count = 0               # objects in the memo
        self.gets = {}               # text, id of a Frame, serial of a Trace -> opcode that fetches it
        self.parts, self.size = [], 0
        file.write(b"\x80" + bytes([protocol]))

    def put(self, code):
        self.parts.append(code)
        self.size += len(code)
        if self.size >= self.FRAME:
            self.flush()

    def flush(self):
        if self.protocol >= 4:
            self.file.write(b"\x95" + struct.pack("<Q", self.size))
        self.file.writelines(self.parts)
        self.parts, self.size = [], 0

    def close(self):
        self.put(b".")
        self.flush()

    def memo(self, key=None):
        """The opcode that puts what was written into the memo, under a key if it is to be fetched again."""
        n, self.count = self.count, self.count + 1
        if key is not None:
            self.gets[key] = b"h%c" % n if n < 256 else b"j" + struct.pack("<I", n)
        if self.protocol >= 4:
            return b"\x94"
        return b"q%c" % n if n < 256 else b"r" + struct.pack("<I", n)

    def of(self, value):
        """The code of a value that may be met again."""
        kind = type(value)
        if kind is int:
            return integer(value)
        if kind is str:
            return self.gets.get(value) or self.text(value, value)
        if kind is Fresh:
            return self.text(value)
        if kind is list:
            return self.list(value)
        if kind is Trace:
            return self.gets.get(value.serial) or self.trace(value)
        if kind is Frame:
            return self.gets.get(id(value)) or self.dict(value.dict, id(value))
        if kind is tuple:
            return b"".join(map(self.of, value)) + b"\x86" + self.memo()
        if kind is dict:
            return self.dict(value)
        if kind is float:
            return b"G" + struct.pack(">d", value)
        if kind is bool:
            return b"\x88" if value else b"\x89"
        raise TypeError(kind)

    def text(self, value, key=None):
        data = value.encode()
        head = b"\x8c%c" % len(data) if self.protocol >= 4 and len(data) < 256 else b"X" + struct.pack("<I", len(data))
        return head + data + self.memo(key)

    def dict(self, value, key=None):
        head, of = b"}" + self.memo(key) + b"(", self.of
        return head + b"".join([of(k) + of(v) for k, v in value.items()]) + b"u"

    def begin_list(self, items):
        """Begins a list of so many items; returns what ends it."""
        self.put(b"]" + self.memo() + b"(" * (items > 1))
        return b"e" if items > 1 else b"a"

    def list(self, values):
        """A short one."""
        head, of = b"]" + self.memo(), self.of
        if len(values) == 1:
            return head + of(values[0]) + b"a"
        for i in range(0, len(values), 1000):
            head += b"(" + b"".join(map(of, values[i:i + 1000])) + b"e"
        return head

    def trace(self, trace):
        head = b"]" + self.memo(trace.serial)
        return head + b"(" + b"".join(map(self.of, trace.frames)) + b"e" if trace.frames else head


class List:
    """A list that is written as its items come, in batches of 1,000, as pickle has it."""

    def __init__(self, pickle):
        self.pickle, self.items = pickle, 0
        pickle.put(b"]" + pickle.memo())

    def push(self, value):
        if self.items % 1000 == 0:
            self.pickle.put(b"e(" if self.items else b"(")
        self.items += 1
        self.pickle.put(self.pickle.of(value))

    def end(self):
        if self.items:
            self.pickle.put(b"e")


def integer(n):
    if 0 <= n < 1 << 8:
        return b"K%c" % n
    if 0 <= n < 1 << 16:
        return b"M" + struct.pack("<H", n)
    if -1 << 31 <= n < 1 << 31:
        return b"J" + struct.pack("<i", n)
    data = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a%c" % len(data) + data


def make_frames():
    cpp = [Frame("at::native::op_%d(at::Tensor const&, c10::optional<at::Tensor> const&)" % i,
                 "??" if i % 3 else "/pytorch/aten/src/ATen/native/File%d.cpp" % (i % 97),
                 0 if i % 3 else 10 + i % 4000)
           for i in range(1800)]
    lib = [Frame("fn_%d" % (i % 700), "/opt/lib/python3.11/site-packages/torch/mod_%d.py" % (i % 211), 1 + i % 2500)
           for i in range(3000)]
    user = [Frame(name, "train/%s.py" % file, line) for name, file, line in (
        ("forward", "model", 41), ("attention", "model", 77), ("mlp", "model", 93), ("training_step", "train", 120),
        ("main", "train", 201))]
    return cpp, lib, user


class Device:
    """The caching allocator of one device, as far as its history goes."""

    def __init__(self, number, options, rnd, frames, serial):
        self.number, self.o, self.rnd, (self.cpp, self.lib, self.user) = number, options, rnd, frames
        self.serial = serial             # of the next Trace, shared by all devices: [int]
        self.write = None                # takes an event, and whether its traceback comes again with the next one
        self.events, self.segments, self.free, self.live = 0, [], {}, {}
        self.bump, self.end, self.time = 0x7F0000000000 + (number << 40), 0, 1763000000000000
        self.streams = [0, 0, 0, 0x55D0C0DE1000 + number * 4096]
        self.sites = [(self.stack(i), 512 * rnd.choice([1, 1, 1, 2, 4, 16, 64, 512, 4096]) * rnd.randint(1, 7))
                      for i in range(4000)]

    def stack(self, i):
        c, p = self.rnd.randrange(1700), self.rnd.randrange(100, 2900)
        return (self.cpp[c:c + self.rnd.randint(10, 22)] + self.lib[p:p + self.rnd.randint(8, 24)]
                + self.user[i % 3:i % 3 + 1] + self.user[3:])

    def trace(self, site):
        self.serial[0] += 1
        return Trace(self.sites[site][0], self.serial[0])

    def record(self, action, addr, size, stream, frames, context="N/A", pool=(0, 0), key="addr", again=False):
        self.time += self.rnd.randrange(3, 40)
        self.events += 1
        if self.write is not None:
            self.write({"action": action, key: addr, "size": size, "stream": stream, "time_us": self.time,
                        "compile_context": Fresh(context), "user_metadata": "", "pool_id": pool, "frames": frames},
                       again)

    def alloc(self, site):
        size = self.sites[site][1]
        stream, pooled = self.streams[site & 3], self.free.get(size)
        if pooled:
            addr = pooled.pop()
        else:
            addr = self.carve(size, stream, site)
        mine = self.trace(site)
        self.record("alloc", addr, size, stream, mine, "0/0" if site % 50 == 0 else "N/A",
                    (0, 1) if site % 40 == 0 else (0, 0))
        self.live[addr] = (size, stream, mine)
        return addr

    def carve(self, size, stream, site):
        if self.bump + size > self.end:
            whole = max(20 * MIB, -(-size // (2 * MIB)) * 2 * MIB)
            self.bump = -(-max(self.bump, self.end) // (2 * MIB)) * 2 * MIB
            self.end = self.bump + whole
            self.segments.append((self.bump, whole, stream, self.trace(site)))
            self.record("segment_alloc", self.bump, whole, stream, self.segments[-1][3])
        self.bump += size
        return self.bump - size

    def release(self, addr, site):
        size, stream, _ = self.live.pop(addr)
        frames = self.trace(site)
        self.record("free_requested", addr, size, stream, frames, again=True)
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
        out, live, i = [], sorted((a, *rest) for a, rest in self.live.items()), 0
        nothing = Trace([], -1 - self.number)
        for base, whole, stream, frames in self.segments:
            blocks, at = [], base
            while i < len(live) and live[i][0] < base + whole:
                addr, size, _, stack = live[i]
                i += 1
                if addr > at:
                    blocks.append(block(at, addr - at, 0, "inactive", nothing))
                blocks.append(block(addr, size, size - 4, "active_allocated", stack))
                at = addr + size
            if at < base + whole:
                blocks.append(block(at, base + whole - at, 0, "inactive", nothing))
            active = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
            out.append({"device": self.number, "address": base, "total_size": whole, "allocated_size": active,
                        "active_size": active, "requested_size": active, "stream": stream, "segment_type": "large",
                        "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames,
                        "blocks": blocks})
        return out


class Expandable(Device):
    """A device with expandable segments. Now and then the program empties the cache, and another stream holds a block
    that the program has freed."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.arenas, self.pending, self.steps = {}, [], 0

    def arena(self, site):
        size, stream = self.sites[site][1], self.streams[site & 3]
        key = stream, size <= expandable.SMALL
        if key not in self.arenas:
            def moved(action, at, size, trace):
                self.record(action, at, size, stream, trace)
            self.arenas[key] = expandable.Arena(self.bump + (len(self.arenas) << 36), 1 << 36, key[1], moved)
        return self.arenas[key]

    def alloc(self, site):
        arena, mine, requested = self.arena(site), self.trace(site), self.sites[site][1] - 4
        block = arena.alloc(requested, mine)
        self.record("alloc", block.at, requested, self.streams[site & 3], mine)
        self.live[block.at] = arena, block, self.streams[site & 3]
        return block.at

    def release(self, addr, site):
        frames, (arena, block, stream) = self.trace(site), self.live.pop(addr)
        late = self.rnd.random() < 0.01
        self.record("free_requested", addr, block.requested, stream, frames, again=not late)
        if late:
            block.state = expandable.PENDING
            self.pending.append((arena, block, stream, site))
            return
        self.complete(arena, block, stream, frames)

    def complete(self, arena, block, stream, frames):
        self.record("free_completed", block.at, block.requested, stream, frames)
        arena.give(block)

    def step(self, first):
        while len(self.pending) > 3:
            arena, block, stream, site = self.pending.pop(0)
            self.complete(arena, block, stream, self.trace(site))
        super().step(first)
        self.steps += 1
        if self.steps % 2:
            for arena in self.arenas.values():
                arena.empty(self.trace(3))

    def state(self):
        out, nothing = [], Trace([], -1 - self.number)
        for (stream, small), arena in self.arenas.items():
            for part in arena.parts():
                held = [b for b in part if b.state == expandable.HELD]
                active = [b for b in part if b.state != expandable.FREE]
                blocks = [block(b.at, b.size, b.requested, b.state, b.trace or nothing) for b in part]
                out.append({"device": self.number, "address": part[0].at, "total_size": sum(b.size for b in part),
                            "allocated_size": sum(b.size for b in held), "active_size": sum(b.size for b in active),
                            "requested_size": sum(b.requested for b in active), "stream": stream,
                            "segment_type": "small" if small else "large", "segment_pool_id": (0, 0),
                            "is_expandable": True, "frames": part[0].mapped_by or nothing, "blocks": blocks})
        return sorted(out, key=lambda segment: segment["address"])


def block(address, size, requested, state, frames):
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames}


def train(o, frames, sink=None):
    """Makes the training up; returns its devices and its annotations. sink(): a List for a device's events."""
    rnd, serial, notes = random.Random(7), [0], []
    devices = [(Expandable if o.expandable or n & 1 else Device)(n, o, rnd, frames, serial) for n in range(o.devices)]
    each = int(o.megabytes * 1e6 / 217 / o.devices)
    for d in devices:
        events = sink() if sink else None
        d.write = events and events.push
        step = 0
        while d.events < each:
            if d.number == 0:
                notes.append({"stage": "START", "name": Fresh("## step %d ##" % step), "device": 0, "time_us": d.time})
            d.step(step == 0)
            step += 1
        if o.oom:
            d.record("oom", 1 << 30, 8 << 30, 0, d.trace(1), key="device_free")
        d.record("snapshot", 0, 0, 0, d.trace(2))
        if events:
            events.end()
    return devices, notes


class Events(List):
    """A device's events. A traceback's place in the memo is forgotten once its last event was written, unless a segment
    or a block has it too."""

    def __init__(self, pickle, kept):
        super().__init__(pickle)
        self.kept = kept

    def push(self, event, again=False):
        super().push(event)
        serial = event["frames"].serial
        if not again and serial not in self.kept:
            del self.pickle.gets[serial]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--megabytes", type=float, default=10)
    p.add_argument("--devices", type=int, default=1)
    p.add_argument("--protocol", type=int, default=4)
    p.add_argument("--sites", type=int, default=1500, help="allocations of one step")
    p.add_argument("--leak", type=int, default=0, help="bytes that each step keeps")
    p.add_argument("--oom", action="store_true", help="end with an allocation that does not fit")
    p.add_argument("--expandable", action="store_true", help="expandable segments on every device")
    p.add_argument("file")
    o = p.parse_args()
    frames = make_frames()
    devices, _ = train(o, frames)
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                "expandable_segments": o.expandable, "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
    with open(o.file, "wb") as f:
        out = Pickle(f, o.protocol)
        out.put(b"}" + out.memo() + b"(" + out.of("segments"))
        segments = List(out)
        for d in devices:
            for segment in d.state():
                segments.push(segment)
        segments.end()
        kept = {key for key in out.gets if type(key) is int}
        out.put(out.of("device_traces"))
        traces = out.begin_list(len(devices))
        _, notes = train(o, frames, lambda: Events(out, kept))
        out.put(traces)
        out.put(out.of("allocator_settings") + out.of(settings) + out.of("external_annotations") + out.of(notes) + b"u")
        out.close()


if __name__ == "__main__":
    main()
