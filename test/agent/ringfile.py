"""A small reader of rings for the tests, made from the generated spec and from nothing of the writer."""
import os
import struct
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
AGENT = os.path.join(ROOT, "python")
if AGENT not in sys.path:
    sys.path.insert(0, AGENT)

from memgauge._agent.record import _spec as S  # noqa: E402

STRUCTS = {getattr(S, n[:-7]): (n[:-7].lower(), getattr(S, n)) for n in dir(S) if n.endswith("_STRUCT")}
HOST_VALUES = len(S.HOST_STRUCT.unpack(bytes(64))) - 8     # without prefix, flags, reserved0, step, room, check
HEADER = ("magic major minor header_size ring_id slot_size slot_count slots_offset names_offset names_size head names_head"
          " state names_dropped pid rank world_size generation start_ticks clock_wall clock_mono").split()


class Record:
    def __init__(self, seq, ts, kind, fields):
        self.seq, self.ts, self.kind, self.fields = seq, ts, kind, fields


class RingFile:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = f.read()
        for name, value in zip(HEADER, S.HEADER.unpack_from(self.raw)):
            setattr(self, name, value)
        length = struct.unpack_from("<I", self.raw, S.INFO_OFFSET)[0]
        text = self.raw[S.INFO_OFFSET + 4:S.INFO_OFFSET + 4 + length].decode()
        self.info = dict(line.split("\t", 1) for line in text.splitlines())
        self.names = list(self._names())
        self.records, self.damaged = [], []
        for seq in range(max(1, self.head - self.slot_count + 1), self.head + 1):
            self._read(seq)

    def _names(self):
        at, end = self.names_offset, self.names_offset + self.names_head
        while at < end:
            length = struct.unpack_from("<I", self.raw, at)[0]
            yield self.raw[at + 4:at + 4 + length].decode()
            at += 4 + (length + 3 & ~3)

    def _read(self, seq):
        at = self.slots_offset + seq % self.slot_count * 64
        slot = self.raw[at:at + 64]
        number, ts, kind = struct.unpack_from("<QQB", slot)
        check = struct.unpack_from("<I", slot, 60)[0]
        if number != seq or check != (seq * S.CHECK_MIX ^ ts) & 0xFFFFFFFF or kind not in STRUCTS:
            self.damaged.append(seq)
            return
        name, codec = STRUCTS[kind]
        fields = codec.unpack(slot)[3:-1]
        if hasattr(S, name.upper() + "_ROOM"):
            assert fields[-1] == b"\xff" * len(fields[-1]), fields
            fields = fields[:-1]
        self.records.append(Record(seq, ts, name, fields))

    def name(self, number):
        return self.names[number - 1] if number else "?"

    def codes(self, name):
        """The codes of the events of a name."""
        return [r.fields[0] for r in self.records if r.kind == "event" and self.name(r.fields[2]) == name]

    def events(self):
        """[(name, text, a, b, c, d)]; the text comes from the records just before."""
        out, text = [], b""
        for r in self.records:
            if r.kind == "text":
                text += r.fields[2][:r.fields[0]]
            elif r.kind == "event":
                flags, length, name, slots, a, b, c, d = r.fields
                assert len(text) == length, (len(text), length)
                out.append((self.name(name), text.decode("utf-8", "replace"), a, b, c, d))
                text = b""
            elif r.kind in ("tensors", "objects"):     # a census's, which have texts too
                text = b""
            else:
                assert not text, "a record came between a text and its event"
        return out


def read_all(runtime):
    """{(pid, generation): RingFile}; file names must agree with headers."""
    rings = {}
    for name in sorted(os.listdir(os.path.join(runtime, "rings"))):
        ring = RingFile(os.path.join(runtime, "rings", name))
        assert name == "%d.%d.%d.ring" % (ring.pid, ring.start_ticks, ring.generation), name
        rings[ring.pid, ring.generation] = ring
    return rings
