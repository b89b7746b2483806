"""The agent's life in a process: when it opens what, forks of all kinds, exec, exit, detach. Real processes."""
import os
import signal
import subprocess
import sys
import time
import unittest

from lane import long, times
from launch import FORK_WARNING, Home, PRELUDE
from ringfile import S

FORK = """
def fork(child):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        finally:
            os._exit(0)
    return pid
def wait(pid):
    assert os.waitpid(pid, 0)[1] == 0
"""


def eventually(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)   # between two looks, bounded by the deadline
    return True


class Case(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def run_code(self, code, *flags, **kwargs):
        done = self.home.run(PRELUDE + FORK + code, *flags, **kwargs)
        self.assertEqual((done.returncode, FORK_WARNING.sub("", done.stderr)), (0, ""), done.stdout)
        return done.stdout.strip()

    def by_pid(self):
        rings = self.home.rings()
        for ring in rings.values():
            self.assertEqual(ring.damaged, [])
        return {pid: [rings[key] for key in sorted(rings) if key[0] == pid] for pid, _ in rings}


class Life(Case):
    def test_start_and_exit(self):
        pid = int(self.run_code("wait_ring(); print(os.getpid())", RANK="3", WORLD_SIZE="8", LOCAL_RANK="1"))
        ring, = self.by_pid()[pid]
        self.assertEqual((ring.state, ring.rank, ring.world_size, ring.generation), (S.STATE_CLOSED, 3, 8, 0))
        self.assertEqual([e[0] for e in ring.events()], ["start", "exit"])
        self.assertEqual(ring.info["python"], sys.version.split()[0])
        self.assertEqual(ring.info["agent"], "0123abcd")
        self.assertEqual(ring.info["ppid"], str(os.getpid()))
        self.assertEqual(ring.info["local_rank"], "1")
        self.assertIn("script.py", ring.info["argv"])
        self.assertEqual(ring.info["cwd"], os.getcwd())
        self.assertNotIn("parent", ring.info)
        self.assertEqual(self.home.sockets(), [])

    def test_rank_from_other_launchers(self):
        code = "print(state.rank())"
        self.assertEqual(self.run_code(code), "(-1, -1)")
        self.assertEqual(self.run_code(code, SLURM_PROCID="2", SLURM_NTASKS="4"), "(2, 4)")
        self.assertEqual(self.run_code(code, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2"), "(0, 2)")
        self.assertEqual(self.run_code(code, RANK="x", PMI_RANK="5"), "(5, -1)")

    def test_large_ring_in_place_of_the_small(self):
        pid = int(self.run_code("""
            |wait_ring()
            |small = recording.ring()
            |large = recording.ring(large=True)
            |assert recording.ring() is large is recording.ring(large=True) is not small
            |state.event("after")
            |state.set_rank(1, 2)
            |print(os.getpid())""".replace("            |", "")))
        small, large = self.by_pid()[pid]
        self.assertEqual((small.state, small.slot_count, small.generation), (S.STATE_CLOSED, 256, 0))
        self.assertEqual((large.state, large.slot_count, large.generation, large.rank), (S.STATE_CLOSED, 65536, 1, 1))
        self.assertEqual([e[0] for e in small.events()], ["start"])
        self.assertEqual([(e[0], e[2], e[3]) for e in large.events()],
                         [("after", 0, 0), ("rank", 1, 2), ("exit", 0, 0)])

    def test_first_step_needs_no_wait(self):
        pid = int(self.run_code("state.event('early', 'x'); recording.ring().step(0, 1, 1, 0, 0); print(os.getpid())"))
        ring, = self.by_pid()[pid]
        self.assertEqual([r.kind for r in ring.records], ["event", "text", "event", "step_end", "event"])
        self.assertEqual([e[0] for e in ring.events()], ["start", "early", "exit"])

    def test_no_exit_no_word(self):
        pid = int(self.run_code("wait_ring(); print(os.getpid(), flush=True); os._exit(0)"))
        ring, = self.by_pid()[pid]
        self.assertEqual((ring.state, [e[0] for e in ring.events()]), (S.STATE_LIVE, ["start"]))

    def test_kill(self):
        done = self.home.run(PRELUDE + "wait_ring(); state.event('last'); os.kill(os.getpid(), 9)")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        (ring,), = self.by_pid().values()
        self.assertEqual((ring.state, [e[0] for e in ring.events()]), (S.STATE_LIVE, ["start", "last"]))

    def test_unobserved_where_no_ring_can_be_made(self):
        os.rmdir(os.path.join(self.home.runtime, "rings"))
        self.run_code("""
end = time.monotonic() + 20
while not state.current.failures and time.monotonic() < end: time.sleep(.005)
assert state.current.failures
assert recording.ring() is None
state.event("x"); state.set_rank(1, 2)
""")

    def test_errors_are_bounded(self):
        pid = int(self.run_code("""
wait_ring()
for i in range(100):
    try: 1 / 0
    except ZeroDivisionError: state.error("test")
print(os.getpid())
"""))
        ring, = self.by_pid()[pid]
        errors = [e for e in ring.events() if e[0] == "error"]
        self.assertLessEqual(len(errors), 20)
        self.assertTrue(errors[-1][1].startswith("test: Traceback"))
        self.assertTrue(errors[-1][1].endswith("ZeroDivisionError: division by zero\n"), errors[-1][1])

    def test_settings(self):
        self.assertEqual(self.run_code("""
print(state.settings.budget, state.settings.trace)
life.configure("budget", "0.05")
for bad in (("budget", "2"), ("budget", "x"), ("trace", "some"), ("speed", "1")):
    try: life.configure(*bad)
    except ValueError: print("refused", end=" ")
print(state.settings.budget)
""", MEMGAUGE_BUDGET="0.02", MEMGAUGE_TRACE="all"), "0.02 all\nrefused refused refused refused 0.05")

    def test_the_thread_blocks_every_signal(self):
        got = self.run_code("""
wait_ring()
native = state.current.thread.native
text = open("/proc/self/task/%d/status" % native).read()
import signal
print([l.split()[1] for l in text.splitlines() if l.startswith("SigBlk")][0], signal.pthread_sigmask(0, ()))
""")
        blocked, mine = got.split(" ", 1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGALRM):
            self.assertTrue(int(blocked, 16) >> number - 1 & 1, number)
        self.assertEqual(mine, "set()")

    def test_a_daemon_that_closes_everything(self):
        """Our descriptors' numbers become files of the user's; nothing of ours may read, write or close them."""
        got = self.run_code("""
import tempfile
wait_ring()
os.closerange(3, 256)
files = [tempfile.TemporaryFile() for _ in range(40)]
for f in files: f.write(b"user"); f.flush(); f.seek(0)
recording.ring(large=True)
state.event("x")
if os.fork() == 0:
    sys.exit(0)
os.wait()
print([f.read() for f in files] == [b"user"] * 40)
""")
        self.assertEqual(got, "True")

    def test_detach(self):
        pid = int(self.run_code("""
wait_ring()
recording.ring(large=True)
state.event("here")

life.detach()
life.detach()
state.event("gone"); state.set_rank(1, 2); assert recording.ring() is None
assert not [n for n in sys.modules if "memgauge" in n] and not [p for p in sys.path if "0123abcd" in p]
assert not os.listdir(os.environ["MEMGAUGE_RUNTIME"] + "/ctl")
tasks = len(os.listdir("/proc/self/task"))
assert tasks == 1, tasks
assert not any("memgauge" in repr(f) for f in sys.meta_path)
wait(fork(lambda: time.sleep(.3)))
print(os.getpid())
"""))
        rings = self.by_pid()
        self.assertEqual(list(rings), [pid])
        small, large = rings[pid]
        self.assertEqual(large.state, S.STATE_DETACHED)
        self.assertEqual([e[0] for e in large.events()], ["here", "detach"])


    def test_files_are_private_whatever_the_umask(self):
        for umask in ("0", "0o777"):
            self.run_code("""
os.umask(%s)
wait_ring()
recording.ring(large=True)
""" % umask)
        rings = self.home.runtime + "/rings/"
        self.assertEqual({os.stat(rings + name).st_mode & 0o777 for name in os.listdir(rings)}, {0o600})
        self.assertEqual(len(os.listdir(rings)), 4)

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_a_runtime_directory_of_another_user(self):
        """`sudo -E` hands on the environment of another user's job."""
        for name in ("", "/rings", "/ctl"):
            os.chown(self.home.runtime + name, 12345, 12345)
        self.assertEqual(self.run_code("time.sleep(.4); print(state.current, len(os.listdir('/proc/self/task')))"),
                         "None 1")
        self.assertEqual(os.listdir(self.home.runtime + "/rings"), [])


    def test_a_limit_of_file_sizes(self):
        """Its signal ends a program that has set it back to the default; ours must not bring it, on any thread."""
        self.assertEqual(self.run_code("""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
wait_ring()
small = recording.ring()
assert recording.ring(large=True) is small and not small.large
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
if os.fork() == 0:
    time.sleep(.4)
    os._exit(0 if recording.ring() is None else 1)
print(os.wait()[1])
"""), "0")

    def test_subinterpreters_end(self):
        """One that has a thread of ours can't: it aborts the process."""
        try:
            import _xxsubinterpreters as api
        except ImportError:
            self.skipTest("this Python has no _xxsubinterpreters, as CPython 3.8 to 3.12 do")
        del api
        self.assertEqual(self.run_code("""
import _xxsubinterpreters as api
for _ in range(3):
    one = api.create()
    api.run_string(one, "import time; time.sleep(.4)")
    api.destroy(one)    # an error in CPython 3.8 while a thread lives there
wait_ring()
print("ok")
"""), "ok")


class Forks(Case):
    def test_child_has_its_own_ring(self):
        got = self.run_code("""
wait_ring()
state.event("parent before")
def child():
    assert state.current.ring is None and state.current.control is None
    wait_ring()
    state.event("child")
    print(os.getpid(), flush=True)
pid = fork(child)
wait(pid)
state.event("parent after")
assert state.current.thread is not None
print(os.getpid(), pid)
""")
        said, parent, child = map(int, got.split())
        self.assertEqual(said, child)
        rings = self.by_pid()
        self.assertEqual(set(rings), {parent, child})
        self.assertEqual([e[0] for e in rings[parent][0].events()], ["start", "parent before", "parent after", "exit"])
        self.assertEqual([(e[0], e[2]) for e in rings[child][0].events()], [("fork", parent), ("child", 0)])
        self.assertEqual(rings[child][0].info["parent"], str(parent))
        self.assertEqual((rings[child][0].state, rings[parent][0].state), (S.STATE_LIVE, S.STATE_CLOSED))

    def test_child_that_returns_writes_its_own_exit(self):
        got = self.run_code("""
wait_ring()
pid = os.fork()
if pid == 0:
    wait_ring()
    sys.exit(0)
wait(pid)
print(os.getpid(), pid)
""")
        parent, child = map(int, got.split())
        for pid in (parent, child):
            ring, = self.by_pid()[pid]
            self.assertEqual((ring.state, [e[0] for e in ring.events()][-1]), (S.STATE_CLOSED, "exit"))
        self.assertEqual(len([e for e in self.by_pid()[parent][0].events() if e[0] == "exit"]), 1)

    def test_nested_and_from_threads(self):
        got = self.run_code("""
import threading
wait_ring()
def leaf():
    wait_ring(); state.event("leaf")
def middle():
    wait_ring(); wait(fork(leaf)); state.event("middle")
threads = [threading.Thread(target=lambda: wait(fork(middle))) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert state.current.thread is not None and recording.ring().head
print(os.getpid())
""", "-W", "ignore")      # the program's own threads are warned about, rightly
        rings = self.by_pid()
        self.assertEqual(len(rings), 9)
        kinds = sorted([e[0] for e in ring[0].events()][1] for pid, ring in rings.items() if pid != int(got))
        self.assertEqual(kinds, ["leaf"] * 4 + ["middle"] * 4)

    def test_forks_while_our_thread_imports(self):
        """The lock of a module is not reset in a child: whoever imports there what our thread was importing would wait
        for ever."""
        got = self.run_code("""
from memgauge._agent import thread
from importlib.machinery import PathFinder, SourceFileLoader
asked, waits = [], [1]
class Slow(SourceFileLoader):
    def exec_module(self, module):
        asked.append(1)
        while waits and len(asked) == 1: time.sleep(.001)
        super().exec_module(module)
class Finder:
    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name == "memgauge._agent.record.header" else None
        if spec is not None:
            spec.loader = Slow(name, spec.origin)
        return spec
sys.meta_path.insert(0, Finder())
if "memgauge._agent.record.header" in sys.modules:    # we came too late, on a busy machine: once more
    os.execv(sys.executable, [sys.executable, "-W", "ignore::DeprecationWarning", sys.argv[0]])
while not asked: time.sleep(.001)
thread.PATIENCE = 0.1                  # longer than that: the child forgets it
def child():
    assert recording.ring(large=True) is not None
wait(fork(child))
thread.PATIENCE = 60                   # the import ends before
import _thread
_thread.start_new_thread(lambda: (time.sleep(.2), waits.clear()), ())
wait(fork(child))
assert not waits and recording.ring(large=True) is not None
print("ok")
""", "-W", "ignore::DeprecationWarning")
        self.assertEqual(got, "ok")

    def test_socket_stays(self):
        """A client that connects to the parent after a fork is answered by the parent."""
        got = self.run_code("""
import socket, struct
wait_ring()
path = state.current.control.path
for _ in range(20):
    pid = fork(lambda: None)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path); s.settimeout(20)
        data = s.recv(4096)
        assert struct.unpack_from("<I", data, 12)[0] == os.getpid(), data
    wait(pid)
print("ok")
""")
        self.assertEqual(got, "ok")

    def test_quick_forks_leave_nothing(self):
        count = times(100, 10000)
        got = self.run_code("""
wait_ring()
slow = 0
for _ in range(%d):
    began = time.monotonic()
    wait(fork(lambda: None))
    slow += time.monotonic() - began > state.GRACE / 2
print(slow)
""" % count)
        self.assertLessEqual(len(self.home.rings()), 1 + int(got),
                             "only what lives as long as GRACE, on a busy machine, opens one")
        self.assertLessEqual(len(self.home.sockets()), int(got))

    @long("a fork waits 50 ms for our thread, which a busy neighbour may exceed")
    def test_no_deprecation_warning(self):
        """CPython 3.12+ warns about a fork of a process with several threads, in __main__ for all to see."""
        code = """
import os
for _ in range(%d):
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
wait_ring()
for _ in range(%d):
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
""" % ((times(20, 200),) * 2)
        self.run_code(code, "-W", "error")

    def test_programs_own_threads_are_warned_about(self):
        if sys.version_info < (3, 12):
            self.skipTest("this Python does not warn")
        done = self.home.run(PRELUDE + FORK + """
import threading
wait_ring()
go = threading.Event()
threading.Thread(target=go.wait).start()
wait(fork(lambda: None))
go.set()
""")
        self.assertIn("is multi-threaded, use of fork() may lead to deadlocks", done.stderr)

    def test_exec(self):
        """The new program has the pid and the start of the old one, so its ring takes the next number."""
        got = self.run_code("""
if "again" in sys.argv:
    wait_ring(); state.event("second"); print(os.getpid())
else:
    wait_ring(); state.event("first")
    os.execv(sys.executable, [sys.executable, __file__, "again"])
""")
        first, second = self.by_pid()[int(got)]
        self.assertEqual([e[0] for e in first.events()], ["start", "first"])
        self.assertEqual([e[0] for e in second.events()], ["start", "second", "exit"])
        self.assertEqual((first.generation, second.generation), (0, 1))

    def test_fork_then_exec(self):
        got = self.run_code("""
wait_ring()
pid = os.fork()
if pid == 0:
    os.execv("/bin/true", ["true"])
wait(pid); print(os.getpid())
""")
        self.assertEqual(list(self.by_pid()), [int(got)])

    def test_subprocess_with_preexec_fn(self):
        got = self.run_code("""
import subprocess
wait_ring()
for _ in range(%d):
    assert subprocess.call(["/bin/true"], preexec_fn=lambda: os.setpgid(0, 0)) == 0
assert state.current.thread is not None
print(os.getpid())
""" % times(10, 50))
        self.assertEqual(list(self.by_pid()), [int(got)])

    def test_busy_thread_holds_no_fork_up(self):
        """The control thread answers a client for long: the fork goes on, and both sides are served later."""
        got = self.run_code("""
import socket, struct, threading
wait_ring()
control = state.current.control
busy, forked = [], threading.Event()
real = control._serve
def slow(*a):
    busy.append(1); forked.wait(20); return real(*a)
control._serve = slow
s = socket.socket(socket.AF_UNIX); s.connect(control.path); s.settimeout(20)
while not busy: time.sleep(.001)
began = time.monotonic()
pid = fork(lambda: wait_ring())
took = time.monotonic() - began
wait(pid)
assert took < 10, took
forked.set()
del control._serve
end = time.monotonic() + 20
s.recv(4096)
s.sendall(struct.pack("<IHH", 2, 3, 0) + b"hi")
assert b"hi" in s.recv(4096)
for _ in range(3): wait(fork(lambda: None))
s.sendall(struct.pack("<IHH", 2, 3, 0) + b"yo")
assert b"yo" in s.recv(4096)
print("ok")
""")
        self.assertEqual(got, "ok")


class Multiprocessing(Case):
    def workers(self, method):
        got = self.run_code("""
import multiprocessing as mp
def work(n):
    wait_ring(); state.event("worker", str(n)); return os.getpid()
if __name__ == "__main__":
    ctx = mp.get_context(%r)
    wait_ring()
    workers = [ctx.Process(target=work, args=(i,)) for i in range(3)]
    [w.start() for w in workers]; [w.join() for w in workers]
    assert [w.exitcode for w in workers] == [0, 0, 0]
    print(os.getpid(), *[w.pid for w in workers])
""" % method)
        main, *pids = map(int, got.split())
        rings = self.by_pid()
        self.assertEqual(rings[main][0].state, S.STATE_CLOSED)
        for n, pid in enumerate(pids):
            ring, = rings[pid]
            self.assertIn(("worker", str(n), 0, 0, 0, 0), ring.events())
            self.assertEqual((ring.state, ring.events()[-1][0]), (S.STATE_CLOSED, "exit"))

    def test_fork(self):
        self.workers("fork")

    def test_spawn(self):
        self.workers("spawn")

    def test_forkserver(self):
        self.workers("forkserver")

    def hooks_by_main_threads(self, method):
        """A worker's main thread walks through multiprocessing's hooks as it begins, and dies of one that is added
        meanwhile."""
        got = self.run_code("""
import multiprocessing as mp, multiprocessing.util as util, threading, weakref
class Hooks(weakref.WeakValueDictionary):
    def __setitem__(self, key, value):
        if threading.get_ident() != threading.main_thread().ident: strangers.append(key)
        super().__setitem__(key, value)
strangers = []
util._afterfork_registry = Hooks(util._afterfork_registry)
def work():
    wait_ring(); sys.exit(len(strangers))
if __name__ == "__main__":
    worker = mp.get_context(%r).Process(target=work); worker.start(); worker.join()
    wait_ring()
    print(worker.exitcode, len(strangers), worker.pid)
""" % method)
        *strangers, pid = map(int, got.split())
        ring, = self.by_pid()[pid]
        self.assertEqual((strangers, ring.state, ring.events()[-1][0]), ([0, 0], S.STATE_CLOSED, "exit"))

    def test_hooks_of_forked_workers(self):
        self.hooks_by_main_threads("fork")

    def test_hooks_of_spawned_workers(self):
        self.hooks_by_main_threads("spawn")

    def test_a_worker_that_is_slow_to_begin(self):
        """Its ring is open before multiprocessing says that it is a worker, and clears the finalizers."""
        got = self.run_code("""
import multiprocessing as mp
class Late(mp.get_context("fork").Process):
    def _bootstrap(self, *args, **kwargs):
        wait_ring(); return super()._bootstrap(*args, **kwargs)
worker = Late(target=int); worker.start(); worker.join()
assert worker.exitcode == 0
print(worker.pid)
""")
        ring, = self.by_pid()[int(got)]
        self.assertEqual((ring.state, ring.events()[-1][0]), (S.STATE_CLOSED, "exit"))


class Outside(Case):
    def test_signals_reach_the_program(self):
        """sigwait in the only thread that the program knows: the default action must not strike through ours."""
        script = self.home.write("wait.py", PRELUDE + """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
wait_ring()
print("ready", flush=True)
print(signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1, flush=True)
""")
        with subprocess.Popen([sys.executable, script], env=self.home.env(), stdout=subprocess.PIPE,
                              universal_newlines=True) as p:
            self.assertEqual(p.stdout.readline(), "ready\n")
            p.send_signal(signal.SIGUSR1)
            self.assertEqual(p.stdout.readline(), "True\n")
        self.assertEqual(p.returncode, 0)

    def test_interrupt(self):
        # a shell's background job, as these tests may be, hands on that SIGINT is ignored
        script = self.home.write("wait.py", PRELUDE
                                 + "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                                 "wait_ring(); print('ready', flush=True)\ntime.sleep(60)")
        with subprocess.Popen([sys.executable, script], env=self.home.env(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True) as p:
            p.stdout.readline()
            began = time.monotonic()
            p.send_signal(signal.SIGINT)
            self.assertIn("KeyboardInterrupt", p.stderr.read())
        self.assertLess(time.monotonic() - began, 10)
        (ring,), = self.by_pid().values()
        self.assertEqual(ring.state, S.STATE_CLOSED)

    def test_idle_thread_does_not_spin(self):
        script = self.home.write("idle.py", PRELUDE + "wait_ring(); print('ready', flush=True); sys.stdin.read()")
        with subprocess.Popen([sys.executable, script], env=self.home.env(), stdout=subprocess.PIPE,
                              stdin=subprocess.PIPE,
                              universal_newlines=True) as p:
            p.stdout.readline()
            task = "/proc/%d/task" % p.pid
            ours = [t for t in os.listdir(task) if t != str(p.pid)]
            self.assertEqual(len(ours), 1)

            def asleep():
                with open("%s/%s/wchan" % (task, ours[0])) as f:
                    return "poll" in f.read()
            self.assertTrue(eventually(asleep), "not in poll")
            p.stdin.close()


if __name__ == "__main__":
    unittest.main()
