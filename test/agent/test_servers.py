"""Units of work that servers' libraries tell of, with modules that are made as these are (test/e2e/servers_test.go has
the real ones): requests of uvicorn. test_servers_torch.py has what needs torch."""
import os
import tempfile
import unittest

from launch import PRELUDE, Home

REQUEST = 3

UVICORN = """
class H11Protocol:
    total = 0
    def on_response_complete(self):
        H11Protocol.total += 1
"""


class Made:
    """Modules that are made for a test."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.made = made.name

    def module(self, name, text):
        """Makes a module, with the packages that it is in."""
        at = self.made
        for part in name.split(".")[:-1]:
            at = os.path.join(at, part)
            os.makedirs(at, exist_ok=True)
            open(os.path.join(at, "__init__.py"), "a").close()
        with open(os.path.join(at, name.rpartition(".")[2] + ".py"), "w") as f:
            f.write(text)

    def path(self):
        return "import sys\nsys.path.insert(0, %r)\n" % self.made

    def told(self, rings):
        """The fields of their step records, and the events that say what counts or what was not found."""
        ends, told = [], []
        for ring in rings:
            ends += [r.fields for r in ring.records if r.kind == "step_end"]
            told += [event[1] for event in ring.events() if event[0] in ("steps", "error", "hooks")]
        return ends, told


class Servers(Made, unittest.TestCase):
    def records(self, code):
        home = Home()
        self.addCleanup(home.close)
        done = home.run(PRELUDE + self.path() + code)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.told(home.rings().values())

    def test_requests_of_uvicorn(self):
        """Each response that is complete is a request, also of a protocol that was made before we came to its class."""
        self.module("uvicorn.protocols.http.h11_impl", UVICORN)
        ends, told = self.records("""
from uvicorn.protocols.http.h11_impl import H11Protocol
for _ in range(150):
    H11Protocol().on_response_complete()
assert H11Protocol.total == 150
""")
        self.assertEqual(told, ["requests of uvicorn"])
        self.assertEqual((sum(f[1] for f in ends), {f[5] for f in ends}), (150, {REQUEST}))

    def test_what_is_not_known(self):
        self.module("uvicorn.protocols.http.h11_impl", "class H11Protocol:\n    pass\n")
        ends, told = self.records("import uvicorn.protocols.http.h11_impl\nwait_ring()\n")
        self.assertEqual(ends, [])
        self.assertEqual(len(told), 1)
        self.assertIn("uvicorn.protocols.http.h11_impl is not the one that is known (no on_response_complete())",
                      told[0])


if __name__ == "__main__":
    unittest.main()
