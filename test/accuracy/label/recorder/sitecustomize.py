"""Records what a program keeps, at the end of optimizer steps, from inside it. measure.py puts this on its path.

One line of JSON a reading, into the file that LABEL_OUT names. Bytes. What is counted, and by whom:
  heap      malloc's memory in use (mallinfo2: uordblks + hblkhd), all arenas
  pymalloc  Python's small objects in use (sys._debugmallocstats, which walks its pools)
  anon      RssAnon: includes what malloc and Python keep free
  shm       shared memory: what is mapped (RssShmem), or the blocks of the files behind the descriptors of the process
            and its children and of new files in /dev/shm, if that is more
  dirty     pages of mapped files that were copied as they were written to (Anonymous of such maps in smaps:
            Private_Dirty has also pages of files that were just written), without shared objects and the interpreter
  file      RssFile
  workers   private memory (smaps_rollup) of the children
"""
import ctypes
import json
import os
import re
import sys
import tempfile
import threading
import time

OUT = os.environ.pop("LABEL_OUT", None)  # children are not recorded by themselves
EVERY = float(os.environ.pop("LABEL_EVERY", "1"))  # steps, or seconds where it is below one


class MallInfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def heap():
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def pymalloc():
    """Bytes of allocated blocks: the interpreter tells them on descriptor 2 only."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as report:
        kept = os.dup(2)
        os.dup2(report.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        report.seek(0)
        found = re.search(rb"# bytes in allocated blocks\s*=\s*([\d,]+)", report.read())
    return int(found.group(1).replace(b",", b""))


def status():
    with open("/proc/self/status") as f:
        return {k: int(v.split()[0]) * 1024 for k, _, v in (line.partition(":") for line in f) if k.startswith("Rss")}


def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/children" % task) as f:
                found += f.read().split()
        except OSError:
            pass
    return found


def unmapped(pids):
    """Blocks of shared-memory files that descriptors or new names in /dev/shm keep."""
    blocks = {}
    for pid in pids:
        try:
            for fd in os.listdir("/proc/%s/fd" % pid):
                path = "/proc/%s/fd/%s" % (pid, fd)
                try:
                    target = os.readlink(path)
                    if target.startswith(("/dev/shm/", "/memfd:")):
                        s = os.stat(path)
                        blocks[s.st_dev, s.st_ino] = s.st_blocks * 512
                except OSError:
                    pass
        except OSError:
            pass
    for entry in os.scandir("/dev/shm"):
        try:
            s = entry.stat()
            if s.st_ctime >= started:
                blocks[s.st_dev, s.st_ino] = s.st_blocks * 512
        except OSError:
            pass
    return sum(blocks.values())


def dirty():
    total, data = 0, False
    with open("/proc/self/smaps") as f:
        for line in f:
            if re.match(r"[0-9a-f]+-", line):
                path = line.split(None, 5)[5:]
                data = bool(path) and path[0].startswith("/") and not re.search(r"\.so|python|/dev/|/memfd:", path[0])
            elif data and line.startswith("Anonymous"):
                total += int(line.split()[1]) * 1024
    return total


def private(pids):
    total = 0
    for pid in pids:
        try:
            with open("/proc/%s/smaps_rollup" % pid) as f:
                total += sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Private_"))
        except OSError:
            pass
    return total


class Recorder:
    def __init__(self):
        self.file = open(OUT, "w", buffering=1)
        self.count, self.due = 0, 0.0

    def step(self, *_):
        self.count += 1
        if self.count >= self.due:
            self.due = self.count + EVERY
            self.read(self.count)

    def read(self, at):
        s, pids = status(), children()
        row = {"at": at, "heap": heap(), "pymalloc": pymalloc(), "shm": max(s["RssShmem"], unmapped(["self"] + pids)),
               "dirty": dirty(), "workers": private(pids), "anon": s["RssAnon"], "file": s["RssFile"]}
        self.file.write(json.dumps(row) + "\n")

    def by_time(self):
        while True:
            time.sleep(EVERY)
            self.read(time.time() - started)


if OUT:
    started = time.time()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = MallInfo2
    recorder = Recorder()
    if EVERY < 1:
        threading.Thread(target=recorder.by_time, daemon=True).start()
    else:
        from torch.optim.optimizer import register_optimizer_step_post_hook
        register_optimizer_step_post_hook(recorder.step)
