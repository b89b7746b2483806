"""What the tests of the census share: taking one, and finding lines by their marks."""
import threading
import time

from ringfile import S

from memgauge._agent.census import census


def line_of(path, mark):
    """file:line of the line that carries a mark."""
    with open(path) as f:
        for number, line in enumerate(f, 1):
            if line.rstrip().endswith("# " + mark):
                return "%s:%d" % (path, number)
    raise AssertionError(mark)


class Taken:
    """What a census told."""

    def __init__(self, job):
        self.job = job
        self.objects, self.tensors = [], []
        for put, text, fields in job.out:
            if put.__name__ == "put_objects":
                names = ("flags", "census", "step", "count", "delta", "length", "bytes")
                row = dict(zip(names, fields), **dict(zip(("evidence", "type", "holder", "site", "detail"), text)))
                row["delta"] = row["delta"] if row["flags"] & 2 else None
                row["length"] = None if row["length"] == S.NOT_TAKEN else row["length"]
                self.objects.append(row)
            else:
                names = ("flags", "census", "step", "count", "oldest", "fresh", "bytes")
                self.tensors.append(dict(zip(names, fields),
                                         **dict(zip(("shape", "dtype", "device", "role", "site", "holder"), text))))

    def of(self, evidence, holder=None, kind=None):
        return [r for r in self.objects if r["evidence"] == evidence and (holder is None or r["holder"] == holder)
                and (kind is None or r["type"] == kind)]

    def holder(self, end):
        """The container row whose holder ends so."""
        rows = [r for r in self.objects if r["evidence"] in ("container", "hooks") and r["holder"].endswith(end)]
        if not rows:
            raise AssertionError("no holder …%s among %s" % (end, [r["holder"] for r in self.of("container")]))
        return rows[0]


def take(memory=None, between=None, deep=False):
    """A census by a thread of its own, as the control thread takes it; between() is called between two slices."""
    job = census.Census(memory or census.Memory(), deep, 20e9)

    def run():
        while job.tick() is not None:
            if between is not None:
                between()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert not [n for n in job.notes if "failed" in n], job.notes
    return Taken(job)


def settle():
    """Lets the main thread come by, which empties what reading locals left behind up to 3.12."""
    for _ in range(5):      # our thread may have to wait for a core first
        time.sleep(0.01)
        for _ in range(1000):
            pass
