#!/usr/bin/env python3
"""Runs every snapshot command that reads files on each of the given ones, and looks into what it wrote.

    snapshot_commands.py [--memgauge bin/memgauge] FILE...

The page, its JSON, tables, query (a count that the page's JSON must agree with), diff with the file itself (nothing
more, nothing less) and with the next file, flame in all five formats, at the end and as a difference, export as
Parquet, for Perfetto, and as a pickle of protocol 4 whose page must be the file's own. Prints a line a file, exits 1
when something was wrong.
"""
import argparse
import glob
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

FLAMES = ("svg", "html", "folded", "pb.gz", "speedscope.json")


class Wrong(Exception):
    pass


class Commands:
    def __init__(self, memgauge, directory):
        self.memgauge, self.directory = os.path.abspath(memgauge), directory
        self.env = dict(os.environ, MEMGAUGE_HOME=os.path.join(directory, "home"))

    def run(self, *arguments, codes=(0, 3)):
        done = subprocess.run([self.memgauge, "snapshot"] + list(arguments), env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if done.returncode not in codes:
            raise Wrong("%s: exit %d: %s" % (" ".join(arguments), done.returncode, done.stderr.strip()[-500:]))
        return done.stdout

    def at(self, name):
        return os.path.join(self.directory, name)

    def pages(self, path):
        page, document = self.run(path), json.loads(self.run(path, "--json"))
        if not page.strip() or not document["devices"] and not document.get("warnings"):
            raise Wrong("an empty page")
        return document

    def sql(self, path):
        if "blocks" not in self.run("tables", path, codes=(0,)):
            raise Wrong("tables: no blocks")
        events = json.loads(self.run("query", path, "SELECT count(*) AS n FROM events", "-f", "json", codes=(0,)))
        return events[0]["n"]

    def diff(self, path, other):
        same = json.loads(self.run("diff", path, path, "--json"))
        for moment in (device[at] for device in same["devices"] for at in ("peak", "end")):
            before, after = moment["requested_bytes"]
            if before != after or moment["sites"] or moment["categories"]:
                raise Wrong("it differs from itself: %r" % moment)
        self.run("diff", path, other)

    def flame(self, path, other, devices):
        for d in devices:
            chosen = ("--device", str(d["device"]))
            for form in FLAMES:
                out = self.at("f." + form)
                self.run("flame", path, *chosen, "-o", out, codes=(0,))
                check_flame(out, form, d["peak"]["requested_bytes"] == 0)
            self.run("flame", path, *chosen, "--at", "end", "-o", self.at("end.svg"), codes=(0,))
        if len(devices) == 1:
            self.run("flame", path, "--diff", other, "-o", self.at("d.svg"), codes=(0, 1))

    def export(self, path, document):
        tables = self.at("parquet")
        shutil.rmtree(tables, ignore_errors=True)
        fixed, trace = self.at("fixed.pickle"), self.at("trace.json.gz")
        self.run("export", path, "--parquet", tables, "--perfetto", trace, "--protocol4", fixed, codes=(0,))
        if not glob.glob(os.path.join(tables, "*.parquet")):
            raise Wrong("export: no Parquet")
        with gzip.open(trace, "rt", encoding="utf-8") as f:
            if "traceEvents" not in json.load(f):
                raise Wrong("export: no trace")
        again = self.pages(fixed)
        if again["devices"] != document["devices"]:
            raise Wrong("export: the pickle of protocol 4 reads otherwise")

    def all(self, path, other):
        document = self.pages(path)
        events = self.sql(path)
        self.diff(path, other)
        self.flame(path, other, document["devices"])
        self.export(path, document)
        return events


def check_flame(path, form, nothing):
    opener = gzip.open if form == "pb.gz" else open
    with opener(path, "rb") as f:
        data = f.read()
    if form == "svg":
        xml.dom.minidom.parseString(data)
    elif form == "speedscope.json":
        json.loads(data)
    elif form == "folded" and not all(line.rpartition(b" ")[2].isdigit() for line in data.splitlines()):
        raise Wrong("flame: a line of .folded without a number")
    if not data and not nothing:
        raise Wrong("flame: %s is empty" % form)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--memgauge", default="bin/memgauge")
    p.add_argument("files", nargs="+")
    o = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        commands = Commands(o.memgauge, directory)
        for path, other in zip(o.files, o.files[1:] + o.files[:1]):
            began = time.monotonic()
            try:
                events = commands.all(path, other)
                print("ok     %8d events  %5.1f s  %s" % (events, time.monotonic() - began, path), flush=True)
            except (Wrong, ValueError, KeyError, OSError) as why:
                failed += 1
                print("WRONG  %s: %s: %s" % (path, type(why).__name__, why), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
