"""A program may own any descriptor number, 0 to 2 among them, and may close ours: nothing of ours then reads, writes,
closes or accepts what is the program's."""
import os
import subprocess
import sys
import unittest

from launch import PRELUDE, Home

# Numbers of ours are taken by the program: each by one end of a pair in which a message waits, or by a listening socket
# to which somebody has connected.
HOSTILE = PRELUDE + """
import resource, select, socket
from memgauge._agent import frames
from memgauge._agent.control import server
TOP = 1200      # higher than any number of ours
# Room for the program's own, for a client of each, and for what the agent's threads open anew meanwhile.
resource.setrlimit(resource.RLIMIT_NOFILE, (4 * TOP, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
def ready(thing, ms):
    p = select.poll(); p.register(thing, select.POLLIN)
    return p.poll(ms)
# While the control thread waits in poll: else a file that it has open for a moment (a module, one of /proc) goes, and
# it closes the program's. What it opens during the call gets a number below those that are still to be closed.
def close_all():
    end = time.monotonic() + 20
    sys.setswitchinterval(1000)     # nobody else runs between the look and the call
    while frames.innermost_of(state.current.thread.ident).f_code is not server.Control._wait.__code__:
        assert time.monotonic() < end, "the control thread does not rest"
        time.sleep(.001)
    os.closerange(3, TOP)
    sys.setswitchinterval(.005)
def take(kind):
    close_all()
    kept = []
    while not kept or kept[-1].fileno() < TOP:
        if kind == "pairs":
            pair = socket.socketpair()
            pair[0].sendall(b"user"); pair[1].sendall(b"user")
            kept += pair
        elif kind == "files":
            f = os.fdopen(os.memfd_create("user"), "w+b"); f.write(b"1 2 3 4 5 6 7\\n"); f.flush(); f.seek(0)
            kept.append(f)
        else:
            s = socket.socket(socket.AF_UNIX)
            s.bind("\\0memgauge-test-%d-%d" % (os.getpid(), s.fileno())); s.listen(4)
            kept.append(s)
    return kept
def check(kind, kept):
    for thing in kept:
        if kind == "pairs":
            assert thing.recv(100, socket.MSG_DONTWAIT) == b"user", thing
            assert not ready(thing, 0), thing
        elif kind == "files":
            assert thing.read() == b"1 2 3 4 5 6 7\\n", thing
        else:
            client = socket.socket(socket.AF_UNIX)
            client.connect("\\0memgauge-test-%d-%d" % (os.getpid(), thing.fileno()))
            assert ready(thing, 20000), thing
            thing.accept()[0].close(); client.close()
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def run_code(self, code, **how):
        done = self.home.run(code, **how)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout.strip()


class Taken(Case):
    def taken(self, kind):
        """Everything that the agent does is done to a process whose numbers are all the program's: gauges, events, a
        ring, forks, a client that comes by, the exit, a detach."""
        got = self.run_code(HOSTILE + """
from memgauge._agent.gauges import memory as gauges
host = gauges.Host()
wait_ring()
control = state.current.control
assert host.memory()[0] > 0
path, kind = control.path, %r
kept = take(kind)
waiting = []
for s in kept if kind == "listeners" else []:
    c = socket.socket(socket.AF_UNIX); c.connect("\\0memgauge-test-%%d-%%d" %% (os.getpid(), s.fileno())); waiting.append(c)
client = socket.socket(socket.AF_UNIX); client.settimeout(20)
try:
    client.connect(path); client.recv(1)    # ends when the control thread has looked at its descriptors, and gone
except OSError:
    pass
client.close()
end = time.monotonic() + 20
while os.path.exists(path): assert time.monotonic() < end
if kind == "listeners":
    for s in kept:
        assert ready(s, 20000), s
        s.accept()[0].close()
    for c in waiting: c.close()
first = host.memory()
assert first[0] > 1 << 20 or first[0] >= 1 << 60, first
recording.ring(large=True)
state.event("x")
control.wake()
began = time.monotonic()
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        wait_ring(); sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
host.memory(); host.close()
if %d: life.detach()
check(kind, kept)
print("ok")
""" % (kind, self.detach))
        self.assertEqual(got, "ok")

    detach = 0

    def test_pairs(self):
        self.taken("pairs")

    def test_files(self):
        self.taken("files")

    def test_listeners(self):
        self.taken("listeners")


class TakenAndDetached(Taken):
    detach = 1


class Standard(Case):
    def test_never_a_standard_stream(self):
        """A program that was started without them, or closes them, has no file of ours there."""
        script = self.home.write("streams.py", PRELUDE + """
def low():
    return {n: os.readlink("/proc/self/fd/%d" % n) for n in range(3) if os.path.islink("/proc/self/fd/%d" % n)}
def look(out):
    seen = dict(low()); high = []
    wait_ring(); seen.update(low())
    recording.ring(large=True); seen.update(low())
    from memgauge._agent.gauges import memory as gauges
    host = gauges.Host(); host.memory(); seen.update(low())
    high = [n for n in map(int, os.listdir("/proc/self/fd")) if n > 400]
    with open(out, "a") as f:
        print([t for t in seen.values() if "python" not in t and not t.startswith("/proc")], len(high) >= 6, file=f)
out = sys.argv[1]
look(out)
if os.fork() == 0:      # a daemon
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        look(out)
    os._exit(0)
""")
        out = os.path.join(self.home.directory, "out")
        shell = "exec '%s' '%s' '%s' <&- >&- 2>&-" % (sys.executable, script, out)
        subprocess.run(["sh", "-c", "ulimit -n 1024; " + shell], env=self.home.env(), timeout=60, check=True)
        from client import wait_for

        def both():
            with open(out) as f:
                return f.read().count("\n") == 2
        wait_for(both)
        with open(out) as f:
            self.assertEqual(f.read(), "[] True\n" * 2)


class Limits(Case):
    def test_small_limits(self):
        """With few descriptors, or none left, the program is as it would be without us."""
        script = self.home.write("script.py", """
import os, resource, sys, time
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
time.sleep(float(sys.argv[2]))
try:
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(limit)]
except OSError:
    pass
if os.fork() == 0:
    time.sleep(.3); os._exit(0)
os.wait()
print("ok")
""")
        for wait in "0", ".4":      # before the agent has opened anything, and afterwards
            programs = [subprocess.Popen([sys.executable, script, str(limit), wait], env=self.home.env(),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         universal_newlines=True) for limit in (4, 8, 16, 20, 64, 256)]
            said = [(p.communicate(timeout=120)[0], p.returncode) for p in programs]
            self.assertEqual(said, [("ok\n", 0)] * 6)

    def test_none_left(self):
        got = self.run_code("""
import os, resource, sys, time
from memgauge._agent import life, recording, state
from memgauge._agent.gauges import memory as gauges
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = []
try:
    while True: kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
time.sleep(.4)
host = gauges.Host()
assert host.memory()[0] >= 1 << 60 and recording.ring(large=True) is None
for fd in kept: os.close(fd)
assert host.memory()[0] < 1 << 60 and recording.ring(large=True) is not None
print("ok")
""")
        self.assertEqual(got, "ok")


if __name__ == "__main__":
    unittest.main()
