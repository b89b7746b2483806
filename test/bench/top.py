#!/usr/bin/env python3
"""What memgauge top costs: its CPU as a share of one core, drawing once a second in a tmux terminal.

    python3 test/bench/top.py [SECONDS]      60 by default, for each row; needs tmux and bin/memgauge
"""
import os
import subprocess
import sys
import tempfile
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMGAUGE = os.path.join(REPO, "bin", "memgauge")
TRAINING = ("import time\nkept = []\nprint('ready', flush=True)\n"
            "while True:\n    kept.append(bytearray(100000))\n    time.sleep(0.1)")
SETTLE = 8    # s: the whole session has been read by then
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    """User and system time of a process, in seconds."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def share(env, socket, size, args, seconds):
    def tmux(*words):
        return subprocess.run(("tmux", "-S", socket, "-f", "/dev/null") + words, env=env, check=True,
                              stdout=subprocess.PIPE, universal_newlines=True).stdout

    tmux("new-session", "-d", "-s", "top", "-x", str(size[0]), "-y", str(size[1]),
         "exec " + " ".join([MEMGAUGE] + args))
    try:
        pid = int(tmux("list-panes", "-t", "top", "-F", "#{pane_pid}"))
        time.sleep(SETTLE)
        before, begun = cpu(pid), time.monotonic()
        time.sleep(seconds)
        return (cpu(pid) - before) / (time.monotonic() - begun)
    finally:
        tmux("kill-server")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as home:
        env = dict(os.environ, MEMGAUGE_HOME=home, TERM="xterm-256color")
        job = subprocess.Popen([MEMGAUGE, "run", "--quiet", "--name", "job", "--", sys.executable, "-c", TRAINING],
                               env=env, stdout=subprocess.PIPE, universal_newlines=True)
        try:
            job.stdout.readline()
            load = os.getloadavg()[0]
            print("load %.1f on %d cores, %.0f s each" % (load, os.cpu_count(), seconds))
            for name, size, args in (("80x24, a live session", (80, 24), ["job", "top"]),
                                     ("200x50, a live session", (200, 50), ["job", "top"]),
                                     ("80x24, the machine", (80, 24), ["top"])):
                cost = share(env, os.path.join(home, name.replace(" ", "-")), size, args, seconds)
                print("%-24s %.2f %% of a core" % (name, 100 * cost), flush=True)
        finally:
            job.terminate()
            job.wait()


main()
