#!/usr/bin/env python3
"""What shipping costs a node: its own processor time and memory, and what more the collector takes.

Two equal trainings run side by side, with as many rows a second as 8 ranks of 3.6 s a step; one machine is a node, the
other is not. So both have the same load. PYTHON needs torch.

    python3 test/bench/nodecost.py [--memgauge bin/memgauge] [--python python3] [--seconds 180]
"""
import argparse
import os
import pathlib
import signal
import subprocess
import tempfile
import time

TRAINING = """
import time, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.45)
"""
SETTLE = 20  # seconds: imports, the first frames
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return {name: int(values[name].split()[0]) / 1024 for name in ("VmHWM", "RssAnon")}


def collector(home):
    """The process that holds the session of a home."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, NotADirectoryError):
            continue
        if b"collector" in words[1:3] and b"--keep" not in words and str(home).encode() in b" ".join(words):
            return int(entry.name)
    raise SystemExit(f"no collector of {home}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--memgauge", default="bin/memgauge")
    p.add_argument("--python", default="python3")
    p.add_argument("--seconds", type=int, default=180)
    o = p.parse_args()
    binary = os.path.abspath(o.memgauge)
    running = []
    with tempfile.TemporaryDirectory(prefix="memgauge-cost-") as top:
        homes = [pathlib.Path(top, name) for name in ("node", "alone")]

        def start(home, *args):
            with open(pathlib.Path(top, "log"), "ab") as log:
                child = subprocess.Popen([binary, *args], env={**os.environ, "MEMGAUGE_HOME": str(home)}, stdout=log,
                                         stderr=log, start_new_session=True)
            running.append(child)
            return child

        try:
            hub = pathlib.Path(top, "hub")
            start(hub, "hub", "--listen", "127.0.0.1:14335")
            token = hub / "hub" / "join.token"
            while not token.exists():
                time.sleep(0.1)
            for home in homes:
                home.mkdir()
                start(home, "run", "--quiet", "--", o.python, "-c", TRAINING)
            node = start(homes[0], "node", "--join", "127.0.0.1:14335", "--token-file", str(token),
                         "--name", "n1").pid
            time.sleep(SETTLE)
            pids = [node, *map(collector, homes)]
            before = [cpu(pid) for pid in pids]
            time.sleep(o.seconds)
            used = [(cpu(pid) - b) / o.seconds * 100 for pid, b in zip(pids, before)]
            m = memory(node)
            print(f"node: {used[0]:.2f} % of a core; RSS {m['VmHWM']:.0f} MiB at most, of it {m['RssAnon']:.0f} MiB "
                  "its own (the rest is the program's file, shared with the collector)")
            print(f"collector: {used[1]:.2f} % of a core beside the node, {used[2]:.2f} % without one")
            print(f"shipping: {used[0] + used[1] - used[2]:.2f} % of a core; load {os.getloadavg()[0]:.1f}")
        finally:
            for child in reversed(running):
                child.send_signal(signal.SIGINT)
            for child in running:
                child.wait()


if __name__ == "__main__":
    main()
