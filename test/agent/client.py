"""A client of the control socket, and processes to be asked, for the tests in this directory."""
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = os.path.join(HERE, "..", "..", "python")
PYTHON = os.environ.get("MEMGAUGE_TEST_PYTHON", sys.executable)

EVAL, INTERRUPT, PING, DETACH, SETTINGS, BACKTRACE, CENSUS, EVAL_AT = range(1, 9)
HELLO, OUTPUT, VALUE, EXCEPTION, DONE, PONG, ERROR, OK, STACKS, COUNTED, PLACE = range(64, 75)
MAIN, STEP, IDLE, ASKED = range(4)
FINE, FAILED, TIMEOUT, INTERRUPTED, GOES_ON = range(5)


def wait_for(condition, seconds=20):
    """Polls until the condition holds; returns what it gave."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("waited %g s in vain for %s" % (seconds, condition))
        time.sleep(0.005)


class Answer:
    """What an eval gave."""

    def __init__(self):
        self.stdout = self.stderr = self.value = self.exception = ""
        self.outcome = self.nanoseconds = self.place = None
        self.beside = ""     # what the main thread waited in
        self.frames = 0

    def __repr__(self):
        return repr({k: v if not isinstance(v, str) else v[-2000:] for k, v in self.__dict__.items()})


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            self.sock.connect("/proc/self/fd/%d/%s" % (directory, os.path.basename(path)))
            self.hello = self.receive()
        except BaseException:
            self.sock.close()
            raise
        finally:
            os.close(directory)

    def close(self):
        self.sock.close()

    def send(self, kind, payload=b""):
        self.sock.sendall(struct.pack("<IHH", len(payload), kind, 0) + payload)

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self):
        length, kind, _ = struct.unpack("<IHH", self._exactly(8))
        return kind, self._exactly(length)

    def ask(self, code, timeout=30.0, where=None, own=False):
        if where is None and not own:
            self.send(EVAL, struct.pack("<d", timeout) + code.encode("utf-8"))
        else:
            self.send(EVAL_AT, struct.pack("<BBd", where or MAIN, own, timeout) + code.encode("utf-8"))

    def answer(self, answer=None):
        answer = answer or Answer()
        while answer.outcome is None:
            kind, payload = self.receive()
            answer.frames += 1
            if kind == OUTPUT:
                name = {1: "stdout", 2: "stderr"}[payload[0]]
                setattr(answer, name, getattr(answer, name) + payload[1:].decode("utf-8"))
            elif kind == VALUE:
                answer.value = payload.decode("utf-8")
            elif kind == EXCEPTION:
                answer.exception = payload.decode("utf-8")
            elif kind == PLACE:
                answer.place, answer.beside = payload[0], payload[1:].decode("utf-8")
            elif kind == DONE:
                answer.outcome, answer.nanoseconds = struct.unpack("<BQ", payload)
            else:
                raise AssertionError((kind, payload))
        return answer

    def eval(self, code, timeout=30.0, **how):
        self.ask(code, timeout, **how)
        return self.answer()


class Process:
    """A program with a control socket in it. It runs until the file `stop` appears (the program sees to that)."""

    def __init__(self, program, fork=False, python=None, deep=False, host_threads=True):
        self.directory = tempfile.mkdtemp(prefix="memgauge-test-")
        deep = os.path.join(self.directory, "d" * 90, "e" * 90) if deep else self.directory
        os.makedirs(deep, exist_ok=True)
        self.path = os.path.join(deep, "a.sock")
        script = os.path.join(self.directory, "train.py")
        bare = [] if host_threads else ["-S"]  # what else is installed may import threading before the program begins
        if bare:
            program = "import sitecustomize\n" + program
        with open(script, "w", encoding="utf-8") as f:
            f.write(program)
        env = dict(os.environ, MEMGAUGE_TEST_SOCKET=self.path, PYTHONDONTWRITEBYTECODE="1", PYTHONIOENCODING="utf-8",
                   PYTHONPATH=os.pathsep.join([os.path.join(HERE, "host"), AGENT]), DIR=self.directory)
        if not host_threads:
            env["MEMGAUGE_TEST_BARE"] = "1"
        if fork:
            env["MEMGAUGE_TEST_FORK"] = "1"
        self.output = open(os.path.join(self.directory, "output"), "w+b")
        self.child = subprocess.Popen([python or PYTHON] + bare + ["-u", script], env=env, stdin=subprocess.PIPE,
                                      cwd=self.directory,
                                      stdout=self.output, stderr=subprocess.STDOUT)
        self.clients = []
        wait_for(lambda: b"ready" in self.printed() or self.child.poll() is not None, 120)
        if self.child.poll() is not None and b"ready" not in self.printed():
            raise AssertionError("the program ended: %r" % self.printed())

    def printed(self):
        """What the program itself has printed."""
        with open(self.output.name, "rb") as f:
            return f.read()

    def events(self):
        import json
        try:
            with open(self.path + ".events", encoding="utf-8") as f:
                return [json.loads(line) for line in f]
        except FileNotFoundError:
            return []

    def client(self):
        self.clients.append(Client(self.path))
        return self.clients[-1]

    def eval(self, code, timeout=30.0, **how):
        client = Client(self.path)
        try:
            return client.eval(code, timeout, **how)
        finally:
            client.close()

    def stop(self):
        """Has the program end by itself; returns its exit code."""
        with open(os.path.join(self.directory, "stop"), "w"):
            pass
        return self.child.wait(30)

    def close(self):
        for client in self.clients:
            client.close()
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.child.stdin.close()
        self.output.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def readable(sock, seconds):
    return bool(select.select([sock], [], [], seconds)[0])
