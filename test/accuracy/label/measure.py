#!/usr/bin/env python3
"""Checks a corpus's labels by measuring what its programs keep, without memgauge.

    measure.py --python PYTHON [--corpus DIR] [--only h001,h002] [--write]

Every program runs with recorder/sitecustomize.py on its path, which reads memory in use at the end of optimizer steps.
What a program keeps is the sum of malloc's memory in use, Python's small objects, shared memory, private dirty pages of
mapped files and its children's private memory; where it keeps private anonymous maps, which none of them counts,
RssAnon. A floor is the least reading of a stretch; there are 20 in what is looked at, so that what a step gives back
does not count.

  leak     the floors rise from start_step (or settled_by, where something else fills up too) to the end: by 0.5 MB
           at least, and in each half of that stretch at 60 to 160 % of the whole's rate (Theil and Sen's slope;
           20 to 500 % by time, for machines change their pace)
  healthy  after settled_by, or 60 % of the run, the floors rise by no more than 0.3 MB, or 2 % of what the run
           kept at most; with a period of so many steps the last tooth is no more than 5 % higher than the one before

The rates in the manifest must be within 5 %. --write stores what was measured. Exits 1 where a label does not hold.
MB are 1,000,000 bytes.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEASURED = ("rate_mb_per_step", "resident_rate_mb_per_step", "seconds", "measured")
KEPT = ("heap", "pymalloc", "shm", "dirty", "workers")
FLOORS = 20
READINGS = 80  # of a run; one takes some 15 ms
SECONDS = 0.5  # between readings of a program without optimizer


def record(python, path, entry):
    out = tempfile.NamedTemporaryFile(suffix=".ndjson")
    every = SECONDS if entry.get("by_time") else max(1, entry["steps"] // READINGS)
    env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", LABEL_OUT=out.name, LABEL_EVERY=str(every),
               PYTHONPATH=os.path.join(HERE, "recorder"))
    began = time.time()
    done = subprocess.run([python, path], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("%s: exit %d: %s" % (path, done.returncode, done.stderr.strip()[-400:]))
    cpu = os.times()
    with open(out.name) as f:
        rows = [json.loads(line) for line in f]
    return rows, time.time() - began, cpu.children_user + cpu.children_system, done.stdout.strip().splitlines()[-1]


def summed(rows, memory):
    for r in rows:
        r["kept"] = r["anon"] if memory == "private maps" else sum(r[k] for k in KEPT)
        r["resident"] = r["anon"] + r["shm"] + r["workers"]  # a private page written to is anonymous
    return rows


def floors(rows, key, since, until, n=FLOORS):
    width = (until - since) / n
    lows = []
    for i in range(n):
        part = [r for r in rows if since + i * width <= r["at"] <= since + (i + 1) * width]
        if part:
            lows.append(min((r[key], r["at"]) for r in part)[::-1])
    return lows


def slope(points):
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1:]
                             if b[0] > a[0])


def spans(rows):
    """First, last and highest of each memory, MB."""
    return {k: [round(x / 1e6, 1) for x in (rows[0][k], rows[-1][k], max(r[k] for r in rows))]
            for k in KEPT + ("anon", "file")}


def judge(entry, rows):
    """(rate, resident rate, complaints), MB a step or second."""
    end, wrong = rows[-1]["at"], []
    if entry["label"] == "leak":
        since = max(entry["start_step"], entry.get("settled_by", 0), rows[0]["at"])
        since += 0.05 * (end - since)
        kept = floors(rows, "kept", since, end)
        rate = slope(kept)
        half = len(kept) // 2
        for name, part in (("first", kept[:half]), ("second", kept[half:])):
            least, most = (0.2, 5) if entry.get("by_time") else (0.6, 1.6)
            if not least * rate <= slope(part) <= most * rate:
                wrong.append("%s half at %.4f MB, the whole at %.4f" % (name, slope(part) / 1e6, rate / 1e6))
        if rate * (end - since) < 0.5e6:
            wrong.append("only %.2f MB kept" % (rate * (end - since) / 1e6))
        return rate / 1e6, slope(floors(rows, "resident", since, end)) / 1e6, wrong
    if "period" in entry:
        last, before = (max(r["kept"] for r in rows if lo < r["at"] <= lo + entry["period"])
                        for lo in (end - entry["period"], end - 2 * entry["period"]))
        if last > before + 0.05 * (before - rows[0]["kept"]):
            wrong.append("the last tooth is %.2f MB higher than the one before" % ((last - before) / 1e6))
        return 0.0, 0.0, wrong
    since = max(entry.get("settled_by", 0), 0.6 * end)
    kept = floors(rows, "kept", since, end, 6)
    change = min(y for _, y in kept[len(kept) // 2:]) - min(y for _, y in kept[:len(kept) // 2])
    if change > max(0.3e6, 0.02 * (max(r["kept"] for r in rows) - rows[0]["kept"])):
        wrong.append("still rose by %.2f MB after %.0f" % (change / 1e6, since))
    return 0.0, 0.0, wrong


def store(path, entry):
    """Into the manifest as it is now: somebody may have edited it since."""
    with open(path) as f:
        manifest = json.load(f)
    for e in manifest["programs"]:
        if e["name"] == entry["name"]:
            e.update((k, entry[k]) for k in MEASURED)
    with open(path, "w") as f:
        json.dump(manifest, f, indent=1)
        f.write("\n")


def near(told, measured):
    return abs(told - measured) <= 0.05 * abs(measured)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter with torch")
    parser.add_argument("--corpus", default=os.path.join(HERE, "..", "corpus", "hard"))
    parser.add_argument("--only", default="")
    parser.add_argument("--new", action="store_true", help="only what has no measurement yet")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = os.path.join(options.corpus, "manifest.json")
    with open(path) as f:
        manifest = json.load(f)
    only, bad, before = set(filter(None, options.only.split(","))), 0, 0.0
    for entry in manifest["programs"]:
        if only and entry["name"] not in only or options.new and "measured" in entry:
            continue
        rows, seconds, cpu, last = record(options.python, os.path.join(options.corpus, entry["file"]), entry)
        cpu, before = cpu - before, cpu
        steps, rows = rows[-1]["at"], summed(rows, entry["memory"])
        rate, resident, wrong = judge(entry, rows)
        if not entry.get("by_time") and abs(steps - entry["steps"]) > max(1, entry["steps"] // READINGS):
            wrong.append("%.0f steps, not %d" % (steps, entry["steps"]))
        if not last.startswith("final loss"):
            wrong.append("the last line is %r" % last)
        if options.write:
            entry.update(rate_mb_per_step=round(rate, 5), resident_rate_mb_per_step=round(resident, 5),
                         seconds=round(seconds, 1), measured=spans(rows))
        elif entry["label"] == "leak" and not entry.get("by_time") and not near(entry["rate_mb_per_step"], rate):
            wrong.append("rate %.5f, the manifest says %.5f" % (rate, entry["rate_mb_per_step"]))
        bad += bool(wrong)
        print("%s %-7s %.4f MB (resident %.4f) %.1f s, %.1f s of CPU  %s" % (
            entry["name"], entry["label"], rate, resident, seconds, cpu, "; ".join(wrong) or "holds"), flush=True)
        if options.write:
            store(path, entry)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
