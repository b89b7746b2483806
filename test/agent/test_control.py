"""The control socket: frames, limits, who may speak to it, forks."""
import os
import stat
import struct
import unittest

import client
from client import Client, Process, wait_for

LOOP = """
import os, time
x = 41
print("ready")
while not os.path.exists("stop"):
    time.sleep(0.01)
"""


class Socket(unittest.TestCase):
    def setUp(self):
        self.process = Process(LOOP)
        self.addCleanup(self.process.close)

    def test_hello_and_ping(self):
        c = self.process.client()
        kind, payload = c.hello
        self.assertEqual(kind, client.HELLO)
        self.assertEqual(struct.unpack("<HHI", payload[:8]), (1, 2, self.process.child.pid))
        self.assertEqual(payload[8:], b"test-agent")
        c.send(client.PING, b"\x00any\xff")
        self.assertEqual(c.receive(), (client.PONG, b"\x00any\xff"))

    def test_only_the_owner_reaches_it(self):
        mode = stat.S_IMODE(os.stat(self.process.path).st_mode)
        self.assertEqual(mode, 0o600)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_another_user_is_hung_up_on(self):
        os.chmod(self.process.directory, 0o755)   # as if the directory had not kept them out
        os.chmod(self.process.path, 0o777)
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setuid(65534)
                Client(self.process.path)
            except EOFError:
                os._exit(7)
            except ConnectionResetError:
                os._exit(7)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1] >> 8, 7)
        self.assertEqual(self.process.eval("x").value, "41")

    def test_unknown_requests_are_answered(self):
        c = self.process.client()
        c.send(63, b"from the future")
        self.assertEqual(c.receive(), (client.ERROR, b"request of unknown type 63"))
        c.send(client.EVAL, b"short")
        self.assertEqual(c.receive()[0], client.ERROR)
        c.send(client.EVAL, struct.pack("<d", 1) + b"\xff\xfe")
        self.assertEqual(c.receive()[0], client.ERROR)
        self.assertEqual(c.eval("x").value, "41")

    def test_a_frame_that_is_too_long(self):
        c = self.process.client()
        c.sock.sendall(struct.pack("<IHH", (1 << 20) + 1, client.EVAL, 0))
        self.assertEqual(c.receive(), (client.ERROR, b"frame of 1048577 bytes, at most 1048576"))
        self.assertRaises(EOFError, c.receive)
        self.assertEqual(self.process.eval("x").value, "41")

    def test_frames_in_pieces_and_together(self):
        c = self.process.client()
        code = struct.pack("<d", 5) + b"x + 1"
        data = struct.pack("<IHH", len(code), client.EVAL, 0) + code
        for byte in data:
            c.sock.sendall(bytes((byte,)))
        self.assertEqual(c.answer().value, "42")
        c.sock.sendall(struct.pack("<IHH", 1, client.PING, 0) + b"a" + struct.pack("<IHH", 1, client.PING, 0) + b"b")
        self.assertEqual([c.receive()[1], c.receive()[1]], [b"a", b"b"])

    def test_a_tenth_connection_is_closed(self):
        """One more than eight is served, as long as they are all busy or new."""
        held = [self.process.client() for _ in range(9)]
        self.assertRaises((EOFError, ConnectionResetError), Client, self.process.path)
        held[3].close()
        wait_for(self._accepted)
        for c in held[:3] + held[4:]:
            self.assertEqual(c.eval("x").value, "41")

    def test_idle_connections_make_room(self):
        held = [self.process.client() for _ in range(9)]
        busy = held[0]
        busy.ask("import time\nwhile True: time.sleep(0.01)", where=client.ASKED)
        # One that has said nothing for a second makes room for each of these.
        self.assertEqual(wait_for(lambda: self._let_in(lambda: self.process.eval("x").value)), "41")
        busy.send(client.PING, b"p")
        self.assertEqual(busy.receive(), (client.PONG, b"p"))
        wait_for(lambda: self._let_in(self.process.client)).send(client.DETACH)
        wait_for(lambda: [e for e in self.process.events() if e["name"] == "detach"])

    def _accepted(self):
        return self._let_in(lambda: Client(self.process.path).close() or True)

    @staticmethod
    def _let_in(ask):
        """None where there is no room."""
        try:
            return ask()
        except (EOFError, ConnectionResetError):
            return None

    def test_one_request_at_a_time(self):
        c = self.process.client()
        c.ask("import time\nwhile True: time.sleep(0.01)")
        wait_for(lambda: any(e["name"] == "eval begin" for e in self.process.events()))
        c.ask("1")
        self.assertEqual(c.receive()[0], client.ERROR)
        c.send(client.PING, b"p")
        self.assertEqual(c.receive(), (client.PONG, b"p"))
        c.send(client.INTERRUPT)
        self.assertEqual(c.answer().outcome, client.INTERRUPTED)
        self.assertEqual(c.eval("x").value, "41")

    def test_settings(self):
        c = self.process.client()
        c.send(client.SETTINGS, b"budget\t0.02\ntrace\toff\n")
        self.assertEqual(c.receive(), (client.OK, b""))
        self.assertIn('{"budget": "0.02", "trace": "off"}', [e["text"] for e in self.process.events()])
        for bad in (b"nonsense", b"trace\toff\n", b"\xff"):
            c.send(client.SETTINGS, bad)
            self.assertEqual(c.receive()[0], client.ERROR)

    def test_detach(self):
        other = self.process.client()
        other.ask("while True: pass")
        wait_for(lambda: any(e["name"] == "eval begin" for e in self.process.events()))
        c = self.process.client()
        c.send(client.DETACH)
        self.assertEqual(c.receive(), (client.OK, b""))
        self.assertRaises(EOFError, c.receive)
        self.assertFalse(os.path.exists(self.process.path))
        wait_for(lambda: [e["a"] for e in self.process.events() if e["name"] == "eval"] == [client.INTERRUPTED])
        self.assertEqual(self.process.stop(), 0)

    def test_a_client_that_goes_away_interrupts_its_code(self):
        c = self.process.client()
        c.ask("import time\nwhile True: time.sleep(0.01)")
        wait_for(lambda: any(e["name"] == "eval begin" for e in self.process.events()))
        c.close()
        wait_for(lambda: [e["a"] for e in self.process.events() if e["name"] == "eval"] == [client.INTERRUPTED])


class Paths(unittest.TestCase):
    def test_a_long_path(self):
        process = Process(LOOP, deep=True)
        self.addCleanup(process.close)
        self.assertGreater(len(process.path), 150)
        self.assertEqual(process.eval("x").value, "41")

    def test_a_stale_socket_is_replaced(self):
        process = Process("""
import os, sys
from memgauge._agent.control.server import Control
path = os.environ["DIR"] + "/b.sock"
a = Control(path, None); a.open(); a.close_in_child()
assert os.path.exists(path)
b = Control(path, None); b.open(); b.close()
assert not os.path.exists(path)
b.close(); b.close_in_child()
print("ready")
""")
        self.addCleanup(process.close)
        self.assertEqual(process.child.wait(20), 0)


class Forks(unittest.TestCase):
    PROGRAM = """
import os, sys, time
x = 41
def child():
    # the parent's socket must not be held open, nor served, by a child
    ours = [os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n) or os.path.islink("/proc/self/fd/" + n)]
    print("child", sum(o.startswith("socket:") for o in ours), type(sys.stdout).__name__)
    sys.stdout.flush()
    os._exit(0)
def fork():
    pid = os.fork()
    if pid == 0: child()
    os.waitpid(pid, 0)
print("ready")
while not os.path.exists("stop"):
    if os.path.exists("fork"):
        os.unlink("fork"); fork(); print("forked")
    time.sleep(0.005)
"""

    def test_a_fork_while_code_runs(self):
        process = Process(self.PROGRAM, fork=True)
        self.addCleanup(process.close)
        c = process.client()
        c.ask("import time, os\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('mine'); x", where=client.ASKED)
        wait_for(lambda: any(e["name"] == "eval begin" for e in process.events()))
        with open(os.path.join(process.directory, "fork"), "w"):
            pass
        wait_for(lambda: b"forked" in process.printed())
        self.assertIn(b"child 0 TextIOWrapper", process.printed())
        with open(os.path.join(process.directory, "go"), "w"):
            pass
        answer = c.answer()
        self.assertEqual((answer.stdout, answer.value), ("mine\n", "41"))
        self.assertEqual(c.eval("x").value, "41")
        self.assertEqual(process.eval("x").value, "41")

    def test_code_that_forks(self):
        process = Process(LOOP, fork=True)
        self.addCleanup(process.close)
        code = ("import os, warnings\nwarnings.simplefilter('ignore')\npid = os.fork()\n"
                "if pid == 0:\n    print('in the child')\nelse:\n    status = os.waitpid(pid, 0)[1]\n    print('in the parent', status)")
        answer = process.eval(code)
        self.assertEqual((answer.outcome, answer.stdout, answer.exception), (client.FINE, "in the parent 0\n", ""))
        self.assertIn(b"in the child", process.printed())
        self.assertEqual([e["a"] for e in process.events() if e["name"] == "eval"], [client.FINE])


if __name__ == "__main__":
    unittest.main()
