"""Attached to a program that runs: what is observed, what a detach leaves, forks, imports that come later."""
import array
import os
import shutil
import socket
import sys
import tempfile
import time
import unittest

import attached
import client
from attached import Program, source
from client import wait_for
from lane import times
from ringfile import S

LOOP = """
import os, time
x = 41
print("ready")
while not os.path.exists(DIR + "/stop"):
    time.sleep(0.01)
"""

STATE = """{
    "modules": sorted(n for n in sys.modules if "memgauge" in n), "path": sys.path, "meta": len(sys.meta_path),
    "stdout": sys.stdout is sys.__stdout__, "fds": sorted(os.listdir("/proc/self/fd")), "tasks": len(os.listdir("/proc/self/task")),
    "maps": [l for l in open("/proc/self/maps") if ".ring" in l or "memgauge" in l], "environ": sorted(os.environ),
    "sys": sorted(dir(sys)), "filters": len(__import__('_warnings').filters)}"""


class Case(unittest.TestCase):
    def start(self, code, **env):
        program = Program(code, **env)
        self.addCleanup(program.close)
        self.assertIn(b"ready", program.printed())
        return program


class Life(Case):
    def test_attach_eval_detach_leaves_it_as_it_was(self):
        program = self.start(LOOP)
        before = program.ask(STATE)
        runtime = program.attach()
        self.assertEqual(program.eval(runtime, "x + 1").value, "42")
        self.assertEqual(program.eval(runtime, "print('hello')").stdout, "hello\n")
        ring, = program.rings(runtime).values()
        self.assertEqual([e[:2] for e in ring.events()][0], ("attach", "what happened before is not known"))
        self.assertEqual((ring.state, ring.generation, ring.info["agent"]), (S.STATE_LIVE, 0, "0123abcd"))
        program.detach(runtime)
        wait_for(lambda: len(os.listdir("/proc/%d/task" % program.pid)) == before["tasks"])
        self.assertEqual(program.ask(STATE), before)
        ring, = program.rings(runtime).values()
        self.assertEqual(ring.state, S.STATE_DETACHED)
        self.assertEqual(ring.events()[-1][0], "detach")
        self.assertEqual(os.listdir(runtime + "/ctl"), [])
        self.assertEqual(program.stop(), 0)
        self.assertEqual(program.printed(), b"ready\n")
        self.assertEqual(program.rings(runtime)[program.pid, 0].state, S.STATE_DETACHED)

    def test_a_second_attach_does_nothing(self):
        program = self.start(LOOP)
        runtime = program.attach()
        self.assertEqual(program.inject(source(program.runtime())), "vobserved\t" + runtime)
        self.assertEqual(program.eval(runtime, "x").value, "41")
        # by these names the first release's `attach` finds an agent
        first = "import sys; process = sys.modules['memgauge.process']; process._state is not None and callable(process.attach)"
        self.assertEqual(program.eval(runtime, first).value, "True")

    def test_again_after_detach_with_a_newer_agent(self):
        program = self.start(LOOP)
        program.detach(program.attach())
        runtime = program.attach(version="newer", edit=lambda text: text.replace('"attach", ', '"attach", ')
                                 + "\nNEWER = 1\n")
        ring, = program.rings(runtime).values()
        self.assertEqual(ring.info["agent"], "newer")
        self.assertEqual(program.eval(runtime, "import sys; sys.modules['memgauge._agent.life'].NEWER").value, "1")
        program.stop()
        self.assertEqual([e[0] for e in program.rings(runtime)[program.pid, 0].events()][-1], "exit")

    def test_a_worker_of_multiprocessing_tells_its_end(self):
        """It leaves without atexit's functions."""
        program = self.start("""
            import multiprocessing, os, time
            def work():
                os.environ["DIR"] = DIR + "/worker"
                exec(%r, {"__builtins__": __builtins__})
                while not os.path.exists(DIR + "/stop"):
                    time.sleep(0.01)
            os.mkdir(DIR + "/worker")
            worker = multiprocessing.get_context("fork").Process(target=work)
            worker.start()
            print("ready")
            worker.join()
            """ % attached.HOST)
        whole, program.directory = program.directory, program.directory + "/worker"
        runtime = program.attach()
        program.directory = whole
        self.assertEqual(program.stop(), 0)
        ring, = program.rings(runtime).values()
        self.assertEqual((ring.state, [e[0] for e in ring.events()][-1]), (S.STATE_CLOSED, "exit"))

    def test_a_failure_leaves_nothing(self):
        program = self.start(LOOP)
        before = program.ask(STATE)
        answer = program.inject(source("/nowhere/at/all"))
        self.assertTrue(answer.startswith("eOSError: no ring"), answer)
        answer = program.inject(source(program.runtime(),
                                       edit=lambda text: text.replace("def attach(request):",
                                           "def attach(request):\n    raise ValueError(1)")))
        self.assertEqual(answer, "eValueError: 1")
        self.assertEqual(program.ask(STATE), before)
        program.attach()

    def test_a_program_with_a_module_of_our_name(self):
        program = self.start("import sys, types\nsys.modules['memgauge'] = types.ModuleType('memgauge')\n" + LOOP)
        runtime = program.attach()
        self.assertEqual(program.eval(runtime, "x").value, "41")
        program.detach(runtime)
        self.assertEqual(program.ask("[n for n in sys.modules if 'memgauge' in n]"), ["memgauge"])

    def test_a_program_that_could_import_a_package_of_our_name(self):
        """pip installs one, of whatever version: it is neither run as the agent nor gone after a detach."""
        site = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, site)
        os.makedirs(site + "/memgauge/_agent")
        for name in ("__init__", "_agent/__init__", "_agent/life", "_agent/state"):
            with open("%s/memgauge/%s.py" % (site, name), "w") as f:
                f.write("current = None; mine = True\n")
        for first in ("", "import memgauge, memgauge._agent.state\n"):
            program = self.start("import sys\nsys.path.insert(0, %r)\n" % site + first + LOOP)
            path = program.ask("sys.path")
            runtime = program.attach()
            self.assertEqual(program.eval(runtime, "x").value, "41")
            self.assertTrue(program.ask("'memgauge_agent._agent.life' in sys.modules"))
            self.assertTrue(program.ask("__import__('memgauge').mine"))
            program.detach(runtime)
            self.assertEqual(program.ask("sys.path"), path)
            self.assertTrue(program.ask("__import__('memgauge._agent.life')._agent.life.mine"))

    def test_signals_and_threading(self):
        """An eval has the program's signal mask, and the main thread its name."""
        program = self.start("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n" + LOOP)
        runtime = program.attach()
        a = program.eval(runtime,
                         "import signal, threading; (sorted(signal.pthread_sigmask(0, ())), threading.main_thread().ident == __import__('os').getpid() or threading.main_thread().name)")
        self.assertEqual(a.value.replace("<Signals.SIGUSR1: 10>", "10"), "([10], 'MainThread')")

    def test_signals_of_the_c_library(self):
        """Whatever the thread blocks on which we come in: setuid needs an answer from every thread (signal 33)."""
        program = self.start(LOOP)
        before = os.listdir("/proc/%d/task" % program.pid)
        runtime = program.attach()
        program.eval(runtime, "x")      # makes a thread too
        # the C library blocks all of them in a thread that is just beginning or ending
        wait_for(lambda: not any(self.blocked(program.pid, task)
                                 for task in set(os.listdir("/proc/%d/task" % program.pid)) - set(before)))

    def blocked(self, pid, task):
        """Which of the signals 32 and 33 a thread blocks."""
        try:
            with open("/proc/%d/task/%s/status" % (pid, task)) as f:
                mask, = [int(line.split()[1], 16) for line in f if line.startswith("SigBlk")]
        except OSError:     # it has ended
            return 0
        return mask >> 31 & 3


class Compiled(Case):
    """Where the agent's files can be seen, they are compiled once for all programs of one interpreter."""

    def setUp(self):
        self.folder = attached.install(tempfile.mkdtemp() + "/0123abcd")
        self.addCleanup(shutil.rmtree, os.path.dirname(self.folder))

    def kept(self):
        return [n for n in os.listdir(self.folder) if n.startswith("attach")]

    def attach(self, program):
        runtime = program.attach(folder=self.folder)
        self.assertEqual(program.eval(runtime, "x + 1").value, "42")
        file = program.eval(runtime, "__import__('sys').modules['memgauge._agent.life'].__file__").value
        self.assertEqual(file, repr("<memgauge>/0123abcd/lib/memgauge/_agent/life.py"))
        self.assertEqual(program.rings(runtime)[program.pid, 0].info["agent"], "0123abcd")
        return runtime

    def break_sources(self):
        for name in ("life", "record/ring", "control/server"):
            with open("%s/lib/memgauge/_agent/%s.py" % (self.folder, name), "w") as f:
                f.write("this is no Python")

    def test_once(self):
        program = self.start(LOOP)      # which writes no bytecode of its own: PYTHONDONTWRITEBYTECODE is set
        before = program.ask(STATE)
        program.detach(self.attach(program))
        name, = self.kept()
        self.assertEqual(os.stat(os.path.join(self.folder, name)).st_mode & 0o777, 0o600)
        self.break_sources()
        program.detach(self.attach(program))
        self.attach(self.start(LOOP))
        self.assertEqual(program.ask(STATE), before)
        self.assertEqual(self.kept(), [name])

    def test_what_is_damaged_is_made_again(self):
        program = self.start(LOOP)
        program.detach(self.attach(program))
        path = os.path.join(self.folder, self.kept()[0])
        with open(path, "rb") as f:
            whole = f.read()
        for bad in (b"", whole[:5], whole[:-1], whole[:-1] + b"\0", bytes(len(whole))):
            with open(path, "wb") as f:
                f.write(bad)
            program.detach(self.attach(program))
            with open(path, "rb") as f:
                self.assertEqual(len(f.read()), len(whole))

    def test_what_was_not_needed_before_is_added(self):
        program = self.start(LOOP)
        program.detach(self.attach(program))
        size = os.stat(os.path.join(self.folder, self.kept()[0])).st_size
        torch = self.start("import sys, types\nsys.modules['torch'] = types.ModuleType('torch')\n" + LOOP)
        runtime = torch.attach(folder=self.folder)      # its stand-in can't be observed, which the observer says
        torch.detach(runtime)
        self.assertGreater(os.stat(os.path.join(self.folder, self.kept()[0])).st_size, size + 1000)
        self.break_sources()
        self.attach(program)

    def test_a_folder_that_can_not_be_written(self):
        program = self.start(LOOP)
        with open(self.folder + "/attach", "w"):
            pass
        text = source(program.runtime(), folder=self.folder).replace("/attach'", "/attach/no/such'")
        self.assertEqual(program.inject(text), "vattached\t")
        self.assertEqual(self.kept(), ["attach"])


class Torch(Case):
    """When the hooks go in. A stand-in for torch is enough: the observer says that it can't be observed."""

    LATE = """
    import os, sys, time
    os.makedirs(DIR + "/lib/torch")
    with open(DIR + "/lib/torch/__init__.py", "w") as f:
        f.write("import os, time\\nwhile not os.path.exists(%r): time.sleep(0.01)\\n" % (DIR + "/finish"))
    sys.path.insert(0, DIR + "/lib")
    print("ready")
    while not os.path.exists(DIR + "/begin"):
        time.sleep(0.01)
    print("begins")
    import torch
    while not os.path.exists(DIR + "/stop"):
        time.sleep(0.01)
    """

    def events(self, program, runtime):
        rings = program.rings(runtime)
        return [e for ring in rings.values() for e in ring.events() if e[0] == "error"]

    def touch(self, program, name):
        with open(os.path.join(program.directory, name), "w"):
            pass

    def test_imported_after_the_attach(self):
        program = self.start(self.LATE)
        runtime = program.attach()
        self.touch(program, "finish")
        self.touch(program, "begin")
        wait_for(lambda: self.events(program, runtime))
        self.assertIn("torch", self.events(program, runtime)[0][1])
        self.assertEqual(program.ask("[type(sys.modules['torch'].__loader__).__name__, len([f for f in sys.meta_path if 'Finder' in type(f).__name__ and 'torch' in getattr(f, 'wanted', ())])]"),
                         ["SourceFileLoader", 0])

    def test_being_imported(self):
        program = self.start(self.LATE)
        self.touch(program, "begin")
        wait_for(lambda: b"begins" in program.printed() and program.ask("'torch' in sys.modules"))
        runtime = program.attach()
        self.assertEqual(program.eval(runtime, "'torch' in __import__('sys').modules").value, "True")
        self.assertEqual(self.events(program, runtime), [])
        self.touch(program, "finish")
        wait_for(lambda: self.events(program, runtime))

    def test_detached_while_it_is_being_imported(self):
        program = self.start(self.LATE)
        self.touch(program, "begin")
        wait_for(lambda: b"begins" in program.printed() and program.ask("'torch' in sys.modules"))
        runtime = program.attach()
        program.detach(runtime)
        self.touch(program, "finish")
        self.assertEqual(program.stop(), 0)
        self.assertEqual(self.events(program, runtime), [])


class Forks(Case):
    FORK = """
    import os, time
    def fork():
        pid = os.fork()
        if pid == 0:
            time.sleep(float(open(DIR + "/fork").read()))
            os._exit(7)
        return os.waitpid(pid, 0)[1] >> 8
    print("ready")
    while not os.path.exists(DIR + "/stop"):
        if os.path.exists(DIR + "/fork"):
            print("child", fork())
            os.unlink(DIR + "/fork")
        time.sleep(0.01)
    """

    def fork(self, program, seconds):
        with open(program.directory + "/fork.new", "w") as f:
            f.write(str(seconds))
        os.rename(program.directory + "/fork.new", program.directory + "/fork")
        wait_for(lambda: not os.path.exists(program.directory + "/fork"))

    def test_a_child_has_its_own_ring(self):
        program = self.start(self.FORK)
        runtime = program.attach()
        self.fork(program, 1)
        rings = {pid: ring for (pid, _), ring in program.rings(runtime).items()}
        mine = rings.pop(program.pid)
        child, = rings.values()
        self.assertEqual((child.events()[0][0], child.events()[0][2]), ("fork", program.pid))
        self.assertEqual([e[0] for e in mine.events()], ["attach"])
        self.assertEqual(program.eval(runtime, "1").value, "1")
        program.detach(runtime)
        self.fork(program, 0.5)
        self.assertEqual(len(program.rings(runtime)), 2)
        self.assertEqual(program.printed().count(b"child 7"), 2)

    def test_hooks_are_registered_once(self):
        """They can't be unregistered: a second attach must find the first one's."""
        program = self.start("import os\nreal = os.register_at_fork\ncalls = []\ndef counted(**k):\n    calls.append(1)\n    real(**k)\n"
                             "os.register_at_fork = counted\n" + LOOP)
        program.detach(program.attach())    # the standard library's modules that come with it register some too
        first = program.ask("len(__main__.calls)")
        for _ in range(3):
            program.detach(program.attach())
        self.assertEqual(program.ask("len(__main__.calls)"), first)


class Behind(Case):
    """A process that can't see the session's directory: everything goes through the door. The test takes the far end as
    the Go side does, by pidfd_getfd."""

    def far_end(self, program, fd):
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        pidfd = libc.syscall(434, program.pid, 0)
        taken = libc.syscall(438, pidfd, fd, 0)
        os.close(pidfd)
        if taken < 0:
            self.skipTest("pidfd_getfd: " + os.strerror(ctypes.get_errno()))
        return socket.socket(fileno=taken)

    def ask(self, far, text, fds=()):
        far.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        far.settimeout(30)
        return far.recv(1024)

    def connect(self, far):
        c = client.Client.__new__(client.Client)
        c.sock, theirs = socket.socketpair()
        self.assertEqual(self.ask(far, b"new", [theirs.fileno()]), b"ok")
        theirs.close()
        c.sock.settimeout(60)
        self.assertEqual(c.receive()[0], client.HELLO)
        return c

    def ring(self, far, path):
        slots, names = 65536, 1 << 20
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(fd, 0, 4096 + slots * 64 + names)
        answer = self.ask(far, b"ring", [fd])
        os.close(fd)
        return answer

    def test_ring_eval_and_detach(self):
        program = self.start(Forks.FORK)
        before = program.ask(STATE)
        answer = program.inject(source(None, pid=4711, start=123456))
        self.assertEqual(answer[:10], "vattached\t")
        far = self.far_end(program, int(answer[10:]))
        runtime = program.runtime()
        self.assertEqual(self.ring(far, runtime + "/rings/4711.123456.1.ring"), b"ok")
        c, d = self.connect(far), self.connect(far)
        self.assertEqual(c.eval("print(6 * 7)").stdout, "42\n")
        self.assertEqual(d.eval("6 * 7").value, "42")
        self.assertEqual(self.ask(far, b"what"), b"error unknown message")
        self.assertEqual(self.ask(far, b"new"), b"error unknown message")
        packets, other = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with packets, other, open(os.devnull) as f:     # what is no stream socket is refused, and closed
            self.assertEqual(self.ask(far, b"new", [other.fileno()]), b"error ValueError: not a stream socket")
            self.assertEqual(self.ask(far, b"new", [f.fileno()])[:5], b"error")
        Forks.fork(self, program, 0.5)      # a child that is left alone
        self.assertEqual(d.eval("1").value, "1")
        c.send(client.DETACH)
        self.assertEqual(c.receive()[0], client.OK)
        wait_for(lambda: len(os.listdir("/proc/%d/task" % program.pid)) == before["tasks"])
        self.assertEqual(program.ask(STATE), before)
        ring, = program.rings(runtime).values()
        self.assertEqual((ring.pid, ring.start_ticks, ring.state), (4711, 123456, S.STATE_DETACHED))
        self.assertEqual([e[0] for e in ring.events()][0], "attach")
        for s in (far, c.sock, d.sock):
            s.close()


    def test_one_who_was_killed_before_he_gave_a_ring(self):
        program = self.start(LOOP)
        before = program.ask(STATE)
        short = lambda text: text.replace("UNWANTED = 60.0", "UNWANTED = 1.0")
        first = program.inject(source(None, pid=4711, start=1, edit=short))
        self.assertEqual(program.inject(source(None, pid=4712, start=2)), first)
        wait_for(lambda: len(os.listdir("/proc/%d/task" % program.pid)) == before["tasks"])
        self.assertEqual(program.ask(STATE), before)


class Memory(Case):
    CYCLES = times(10, 300)

    def test_cycles_leave_nothing(self):
        program = self.start(LOOP)
        for _ in range(5):
            program.detach(program.attach())
        tasks = len(os.listdir("/proc/%d/task" % program.pid))
        wait_for(lambda: len(os.listdir("/proc/%d/task" % program.pid)) <= 2)
        before = program.ask("len(gc.get_objects())")
        for _ in range(self.CYCLES):
            program.detach(program.attach())
        after = program.ask("len(gc.get_objects())")
        self.assertLess(after - before, 60 * self.CYCLES + 500)     # bare types, which wait for Python's own collection
        collected = program.ask("[gc.collect(), len(gc.get_objects())][1]")
        self.assertLess(collected - before, 300)


if __name__ == "__main__":
    unittest.main()
