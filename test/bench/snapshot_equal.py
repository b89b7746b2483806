#!/usr/bin/env python3
"""Sets memgauge's reading of memory snapshots beside an independent one: pickle.load and a naive replay.

    snapshot_equal.py [--memgauge bin/memgauge] [--moments 1000] FILE...

For each file it compares the sums of all events by device and action (sizes, times, addresses, streams, frames), live
and reserved bytes after events chosen at random, what live_at gives for them, both peaks, the blocks that are alive at
the end, and the segments. It prints a line a file and exits 1 on a difference. Nothing that is in a file runs.
"""
import argparse
import collections
import csv
import gzip
import io
import json
import pickle
import random
import subprocess
import sys

RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
MANY = 200_000  # events from which on live_at, which goes through all blocks, is asked about 20 moments only


class Plain(pickle.Unpickler):
    """Loads plain data: a file from somewhere runs nothing here either."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError("the file wants %s.%s" % (module, name))


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        d = Plain(f).load()
    return d if isinstance(d, dict) else {"segments": d}  # torch 1.13 gives the segments alone


def segment_blocks(segment):
    """Address, size, requested bytes and state of each block, in every spelling since torch 1.13."""
    at = segment["address"]
    for b in segment["blocks"]:
        at = b.get("address", at)
        history = b.get("history") or [{}]
        state = "active_pending_free" if b["state"] == "active_awaiting_free" else b["state"]
        yield at, b["size"], history[0].get("real_size", b.get("requested_size", b["size"])), state
        at += b["size"]


class Device:
    """One device's history, replayed event by event on a dict of its live blocks."""

    def __init__(self, number, events, segments, first):
        self.number, self.events, self.first = number, events, first
        self.segments = [s for s in segments if s.get("device", 0) == number]
        self.replay({a: r for s in self.segments for a, _, r, state in segment_blocks(s) if state != "inactive"})

    def replay(self, live):
        live = dict(live)
        for e in reversed(self.events):  # back from the end to what there was before
            if e["action"] == "alloc":
                live.pop(e["addr"], None)
            elif e["action"] == "free_completed":
                live[e["addr"]] = e["size"]
        self.before, at = dict(live), sum(live.values())
        reserved = self.reserved_before()
        self.levels, self.reserved = [], []
        for e in self.events:
            if e["action"] == "alloc":
                live[e["addr"]] = e["size"]
                at += e["size"]
            elif e["action"] == "free_completed":
                at -= live.pop(e["addr"])
            reserved += RESERVES.get(e["action"], 0) * e["size"]
            self.levels.append(at)
            self.reserved.append(reserved)
        self.live = live

    def reserved_before(self):
        moves = [RESERVES.get(e["action"], 0) * e["size"] for e in self.events]
        if self.segments:
            return sum(s["total_size"] for s in self.segments) - sum(moves)
        at = lowest = 0  # nothing says what there was: the least that it can have been
        for m in moves:
            at += m
            lowest = min(lowest, at)
        return -lowest


def sums(devices):
    out = collections.defaultdict(lambda: [0] * 9)
    for d in devices:
        for e in d.events:
            s, frames = out[d.number, e["action"]], e.get("frames") or []
            lines = sum(f["line"] if f["line"] < 1 << 63 else -1 for f in frames)  # 2**64-1 is torch's for no line
            for i, n in enumerate((1, e.get("size", 0), e.get("time_us", 0),
                                   0 if e["action"] == "oom" else e.get("addr", 0),
                                   e.get("stream", 0), len(frames), lines, e.get("device_free", 0),
                                   tuple(e.get("pool_id", (0, 0))) != (0, 0))):
                s[i] += n
    return dict(out)


SUMS = """SELECT device, action, count(*), sum(size), coalesce(sum(epoch_us(ts)), 0), sum(coalesce(addr, 0)::HUGEINT), sum(stream::HUGEINT),
  sum(n), sum(lines), coalesce(sum(device_free), 0), count(pool)
  FROM events LEFT JOIN (SELECT stack_id, count(*) AS n, sum(lineno) AS lines FROM frames GROUP BY 1) USING (stack_id) GROUP BY 1, 2"""


class Memgauge:
    def __init__(self, binary, path):
        self.binary, self.path = binary, path

    def ask(self, sql):
        out = subprocess.run([self.binary, "snapshot", "query", "-f", "csv", self.path, "-"], input=sql, text=True,
                             check=True,
                             stdout=subprocess.PIPE).stdout
        return [[int(x) if x.lstrip("-").isdigit() else x for x in row]
                for row in list(csv.reader(io.StringIO(out)))[1:]]

    def page(self):
        r = subprocess.run([self.binary, "snapshot", "--json", self.path], text=True, stdout=subprocess.PIPE)
        if r.returncode not in (0, 3):
            raise RuntimeError("the page: exit %d" % r.returncode)
        return json.loads(r.stdout)


def devices_of(d):
    """The devices by number, and behind them pinned host memory, which has keys of its own."""
    traces, host = d.get("device_traces", []), d.get("host_segments", [])
    numbers = max([n + 1 for n, t in enumerate(traces) if t] + [1 + s.get("device", 0) for s in d["segments"]],
                  default=0)
    parts = [(traces[n] if n < len(traces) else [], d["segments"]) for n in range(numbers)]
    if host or d.get("host_traces"):
        parts.append((d.get("host_traces", []), [dict(s, device=numbers) for s in host]))
    devices, first = [], 0
    for number, (events, segments) in enumerate(parts):
        devices.append(Device(number, events, segments, first))
        first += len(events)
    return devices


def compare(binary, path, moments, seed):
    """Yields what differs; the last value tells what was compared."""
    d, rnd = load(path), random.Random(seed)
    devices = devices_of(d)
    first = sum(len(d.events) for d in devices)
    m = Memgauge(binary, path)
    got = {(r[0], r[1]): [x or 0 for x in r[2:]] for r in m.ask(SUMS)}
    if got != sums(devices):
        yield "sums: %s, want %s" % (got, sums(devices))
    yield from at_moments(m, devices, sorted(rnd.sample(range(first), min(moments, first))), first)
    yield from peaks(m, devices)
    yield from at_end(m, devices)
    yield first


def at_moments(m, devices, chosen, events):
    want = {d.first + i: (d.levels[i], d.reserved[i]) for d in devices
            for i in range(len(d.events))} if events < MANY else Levels(devices)
    if not chosen:
        return
    m_list = "(VALUES %s) AS m(seq)" % ",".join("(%d)" % s for s in chosen)
    for seq, live, reserved in m.ask("SELECT seq, live_after, reserved_after FROM events SEMI JOIN %s USING (seq) ORDER BY 1" % m_list):
        if want[seq] != (live, reserved):
            yield "after event %d: live %d, reserved %d, want %s" % (seq, live, reserved, want[seq])
    some = chosen if events < MANY else chosen[::max(1, len(chosen) // 20)]
    sql = "SELECT m.seq, x.live FROM (VALUES %s) AS m(seq), LATERAL (SELECT coalesce(sum(requested), 0) AS live FROM live_at(m.seq)) x" % (
        ",".join("(%d)" % s for s in some))
    for seq, live in m.ask(sql):
        if want[seq][0] != live:
            yield "live_at(%d): %d, want %d" % (seq, live, want[seq][0])


class Levels:
    """The levels after an event of a large history, without a dict of all."""

    def __init__(self, devices):
        self.devices = [d for d in devices if d.events]

    def __getitem__(self, seq):
        d = max((d for d in self.devices if d.first <= seq), key=lambda d: d.first)
        return d.levels[seq - d.first], d.reserved[seq - d.first]


def peaks(m, devices):
    got = {r[0]: r[1:] for r in m.ask("SELECT device, max(live_after), max(reserved_after) FROM events GROUP BY 1")}
    want = {d.number: [max(d.levels), max(d.reserved)] for d in devices if d.events}
    if got != want:
        yield "peaks: %s, want %s" % (got, want)
    for r in m.page()["devices"]:
        d = devices[r["device"]]
        peak = max(d.levels) if d.events else sum(d.before.values())
        if r["peak"]["requested_bytes"] != peak:
            yield "the page's peak of device %d: %d, want %d" % (d.number, r["peak"]["requested_bytes"], peak)
        parts = sum(c["bytes"] for c in r["peak"]["categories"])
        if parts != peak:
            yield "the uses at the peak of device %d add up to %d, want %d" % (d.number, parts, peak)


def at_end(m, devices):
    got = sorted(map(tuple, m.ask("SELECT device, addr, requested FROM blocks WHERE free_seq IS NULL")))
    want = sorted((d.number, addr, size) for d in devices for addr, size in d.live.items())
    if got != want:
        yield "blocks at the end: %d of %d bytes, want %d of %d" % (len(got), sum(b[2] for b in got), len(want),
            sum(b[2] for b in want))
    got = sorted(map(tuple, m.ask("SELECT device, address, size, coalesce(requested, -1), state FROM segment_blocks")))
    want = sorted((d.number, a, size, -1 if state == "inactive" else r, state)
                  for d in devices for s in d.segments for a, size, r, state in segment_blocks(s))
    if got != want:
        yield "blocks of segments: %d, want %d; first difference %s" % (len(got), len(want),
            next((p for p in zip(got, want) if p[0] != p[1]), ""))
    got = m.ask("SELECT count(*), coalesce(sum(size), 0), coalesce(sum(allocated), 0) FROM segments")[0]
    want = [s for d in devices for s in d.segments]
    if got != [len(want), sum(s["total_size"] for s in want), sum(s.get("allocated_size", 0) for s in want)]:
        yield "segments: %s" % got
    # what the events say beside what the segments say: a history with a gap has no answer to compare with
    for d in devices:
        end = {a for s in d.segments for a, _, _, state in segment_blocks(s) if state != "inactive"}
        if d.segments and d.events and end != set(d.live):
            yield "device %d: the history leaves %d blocks that the segments do not have, and lacks %d" % (
                d.number, len(set(d.live) - end), len(end - set(d.live)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--memgauge", default="bin/memgauge")
    p.add_argument("--moments", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("file", nargs="+")
    o = p.parse_args()
    failed = 0
    for path in o.file:
        try:
            *wrong, events = compare(o.memgauge, path, o.moments, o.seed)
        except Exception as e:  # the next file is compared all the same
            wrong, events = ["%s: %s" % (type(e).__name__, e)], 0
        print("%s %s: %d events%s" % ("differs" if wrong else "equal  ", path, events,
                                      "".join("\n    " + w[:600] for w in wrong)), flush=True)
        failed += bool(wrong)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
