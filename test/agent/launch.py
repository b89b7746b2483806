"""Starts Python programs under the agent, unpacked as `memgauge run` unpacks it."""
import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

from ringfile import AGENT, read_all

# A fork waits for our thread for a bounded time, which a busy machine may exceed: see test_no_deprecation_warning.
FORK_WARNING = re.compile(r"^/\S+/script\.py:\d+: DeprecationWarning: This process .* is multi-threaded.*\n.*\n", re.M)


def unpack(base):
    """Makes the HASH directory."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.join(AGENT, "boot"), os.path.join(base, "boot"), ignore=ignore)
    shutil.copytree(os.path.join(AGENT, "memgauge"), os.path.join(base, "lib", "memgauge"), ignore=ignore)


shared = None    # the HASH directory of all tests that change nothing in it


def shared_base():
    """It is unpacked once, so that the agent is compiled once: that takes as long as the rest of a short program."""
    global shared
    if shared is None:
        directory, maker = tempfile.mkdtemp(), os.getpid()
        atexit.register(lambda: os.getpid() == maker and shutil.rmtree(directory, ignore_errors=True))
        shared = os.path.join(directory, "0123abcd")
        unpack(shared)
    return shared


class Home:
    """A temporary runtime directory, and a HASH directory, which is the test's own if it changes what lies there."""

    def __init__(self, own=False):
        self.directory = tempfile.mkdtemp()
        if own:
            self.base = os.path.join(self.directory, "0123abcd")
            unpack(self.base)
        else:
            self.base = shared_base()
        self.boot, self.lib = os.path.join(self.base, "boot"), os.path.join(self.base, "lib")
        self.runtime = os.path.join(self.directory, "runtime")
        os.makedirs(os.path.join(self.runtime, "rings"))
        os.makedirs(os.path.join(self.runtime, "ctl"))

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(textwrap.dedent(text))
        return path

    def env(self, path=(), **more):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("MEMGAUGE", "PYTHON", "RANK", "WORLD_SIZE"))}
        keep.update(MEMGAUGE_RUNTIME=self.runtime, PYTHONPATH=os.pathsep.join((self.boot,) + tuple(path)))
        keep.update(more)
        return keep

    def run(self, code, *flags, python=sys.executable, path=(), argv=(), timeout=120, **env):
        """The finished process; its script is a file, as a trainer's is."""
        script = self.write("script.py", code)
        return subprocess.run([python, *flags, script, *argv], env=self.env(path, **env), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout)

    def rings(self):
        return read_all(self.runtime)

    def sockets(self):
        return os.listdir(os.path.join(self.runtime, "ctl"))


PRELUDE = """
import os, sys, time
from memgauge._agent import life, recording, state
from memgauge._agent.record import ring as ringmodule
def wait_ring(after=0):
    end = time.monotonic() + 20
    while state.current.ring is None or state.current.control is None:
        assert time.monotonic() < end, "no ring"
        time.sleep(.005)
"""
