"""Units of work that are no steps of a training: what memgauge.unit counts, on threads, tasks and generators, and what
the ring says of them."""
import os
import subprocess
import sys
import unittest

from launch import PRELUDE, Home

AGENT = os.path.join(os.path.dirname(__file__), "..", "..", "python")
ENGINE, REQUEST = 2, 3

ASYNC = """
import asyncio, memgauge
@memgauge.unit("request", tokens=2)
async def answer(n):
    await asyncio.sleep(0)
    if n % 10 == 0:
        raise ValueError
    return n
@memgauge.unit("request")
async def stream(n):
    for i in range(3):
        await asyncio.sleep(0)
        yield i
async def read(n):
    return [i async for i in stream(n)]
async def main():
    done = await asyncio.gather(*[answer(n) for n in range(100)], return_exceptions=True)
    assert sum(isinstance(d, ValueError) for d in done) == 10
    assert await asyncio.gather(*[read(n) for n in range(50)]) == [[0, 1, 2]] * 50
asyncio.run(main())
"""


class Units(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def records(self, code):
        """Runs it; the fields of its step records, with what counted."""
        done = self.home.run(PRELUDE + code)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        ends, told = [], []
        for ring in self.home.rings().values():
            ends += [r.fields for r in ring.records if r.kind == "step_end"]
            told += [event[1] for event in ring.events() if event[0] in ("steps", "error")]
        return ends, told

    def test_overlapping_requests(self):
        """Each is counted once, when it is over, whatever runs beside it and whether it failed or not."""
        ends, told = self.records(ASYNC)
        self.assertEqual(told, ["units of the program's own: request"])
        self.assertEqual((sum(f[1] for f in ends), ends[-1][2]), (150, 150))
        self.assertEqual({f[5] for f in ends}, {REQUEST})
        self.assertEqual(sum(f[6] for f in ends if f[6] < 1 << 63), 200)

    def test_nested_and_threads(self):
        """Of units within units one kind counts: the first that was over, in full."""
        ends, _ = self.records("""
import threading, memgauge
@memgauge.unit("engine")
def step():
    return 7
@memgauge.unit("engine")
def parts():
    yield from range(3)
def work():
    for i in range(200):
        with memgauge.unit("engine") as u:
            u.tokens = 5
            assert step() == 7 and list(parts()) == [0, 1, 2]
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
""")
        self.assertEqual({f[5] for f in ends}, {ENGINE})
        self.assertEqual(sum(f[6] for f in ends if f[6] < 1 << 63), 4 * 200 * 5)
        self.assertEqual(ends[-1][2], 4 * 200 * 3)

    def test_steps_have_no_kind(self):
        ends, _ = self.records("import memgauge\nfor i in range(40):\n    memgauge.step()\n")
        self.assertEqual({f[5:7] for f in ends}, {(0, (1 << 64) - 1)})

    def test_unobserved(self):
        """It does nothing, and a kind that is none is refused as in an observed process."""
        subprocess.run([sys.executable, "-c", "import memgauge\n" + """
with memgauge.unit("request", tokens=3) as u:
    u.tokens = 4
assert memgauge.unit("request")(abs)(-3) == 3
try:
    memgauge.unit("requests")
except ValueError as e:
    assert "not one of train, infer, engine, request, cell" in str(e), e
else:
    raise SystemExit("taken")
"""], check=True, env=dict(os.environ, PYTHONPATH=AGENT, PYTHONDONTWRITEBYTECODE="1"))
