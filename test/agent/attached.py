"""Programs that were started without the agent, and the code that `memgauge attach` brings into them, run there on a
thread of its own with all signals blocked, as the engine runs it."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap

import client
from client import wait_for
from ringfile import AGENT, read_all

INJECT = os.path.join(AGENT, "..", "internal", "probe", "agent", "inject.py")

HOST = """
def _host():
    import _signal, _thread, os, time
    def serve(directory):
        import ctypes
        ctypes.CDLL(None).syscall(14, 0, bytes([255]) * 8, None, 8)  # rt_sigprocmask: the C library keeps two for itself
        number = 0
        while True:
            path = directory + "/inject.%d" % number
            while not os.path.exists(path):
                time.sleep(0.002)
            with open(path) as f:
                text = f.read()
            space = {"__name__": "__memgauge__", "__builtins__": __builtins__}
            try:
                exec(compile(text, "<memgauge>", "exec"), space)
                answer = "v" + str(space.get("result"))
            except BaseException as e:
                answer = "e%s: %s" % (type(e).__name__, e)
            space = None
            with open(path + ".new", "w") as f:
                f.write(answer)
            os.rename(path + ".new", directory + "/answer.%d" % number)
            number += 1
    _thread.start_new_thread(serve, (os.environ["DIR"],))
_host()
del _host
"""


def source(runtime, pid=0, start=0, budget="0.01", trace="auto", version="0123abcd", edit=lambda s: s, folder=None):
    """What internal/probe/agent/inject.go makes; with a folder the agent's modules lie there."""
    modules = modules_of_agent(edit)
    with open(INJECT) as f:
        code = f.read()
    request = {"budget": budget, "trace": trace, "runtime": runtime, "pid": pid, "start": start}
    place = "<memgauge>/%s/lib/memgauge" % version
    if folder is not None:
        place, modules = folder + "/lib/memgauge", dict.fromkeys(modules)
    return "FOLDER = %r\nSOURCES = %r\nKEPT = %r\nREQUEST = %r\n%s" % (place, modules, folder and folder + "/attach",
        request, code)


def modules_of_agent(edit=lambda s: s):
    folder = os.path.join(AGENT, "memgauge")
    modules = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path) as f:
                    modules[os.path.relpath(path, folder)[:-3]] = edit(f.read())
    return modules


def install(folder, edit=lambda s: s):
    """What internal/probe/agent/launch.go leaves in agent/HASH."""
    for name, text in modules_of_agent(edit).items():
        path = "%s/lib/memgauge/%s.py" % (folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    return folder


class Program:
    def __init__(self, code, python=sys.executable, **env):
        self.directory = tempfile.mkdtemp()
        self.runtimes = self.injected = 0
        script = os.path.join(self.directory, "train.py")
        with open(script, "w") as f:
            f.write(HOST + "DIR = %r\n" % self.directory + textwrap.dedent(code))
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("MEMGAUGE", "PYTHON", "RANK", "WORLD_SIZE"))}
        keep.update(env, DIR=self.directory, PYTHONDONTWRITEBYTECODE="1")
        self.output = open(os.path.join(self.directory, "output"), "w+b")
        self.child = subprocess.Popen([python, "-u", script], env=keep, stdin=subprocess.DEVNULL, stdout=self.output,
                                      stderr=subprocess.STDOUT)
        self.pid = self.child.pid
        wait_for(lambda: b"ready" in self.printed() or self.child.poll() is not None, 120)

    def printed(self):
        with open(self.output.name, "rb") as f:
            return f.read()

    def inject(self, text):
        path = os.path.join(self.directory, "inject.%d" % self.injected)
        with open(path + ".new", "w") as f:
            f.write(text)
        os.rename(path + ".new", path)
        answer = os.path.join(self.directory, "answer.%d" % self.injected)
        self.injected += 1
        wait_for(lambda: os.path.exists(answer) or self.child.poll() is not None, 60)
        with open(answer) as f:
            return f.read()

    def runtime(self):
        """A new session's."""
        self.runtimes += 1
        path = os.path.join(self.directory, "session%d" % self.runtimes)
        os.makedirs(os.path.join(path, "rings"))
        os.makedirs(os.path.join(path, "ctl"))
        return path

    def attach(self, **how):
        runtime = self.runtime()
        answer = self.inject(source(runtime, **how))
        if answer != "vattached\t":
            raise AssertionError(answer)
        return runtime

    def client(self, runtime):
        name, = [n for n in os.listdir(os.path.join(runtime, "ctl")) if n.startswith("%d." % self.pid)]
        return client.Client(os.path.join(runtime, "ctl", name))

    def eval(self, runtime, code):
        c = self.client(runtime)
        try:
            return c.eval(code)
        finally:
            c.close()

    def detach(self, runtime):
        c = self.client(runtime)
        c.send(client.DETACH)
        kind, text = c.receive()
        if kind != client.OK:
            raise AssertionError(text)
        try:
            while True:
                c.receive()
        except (EOFError, ConnectionError):
            c.close()

    def ask(self, expression):
        """Without the agent."""
        answer = self.inject("import __main__, json, sys, os, gc\nresult = json.dumps(%s)" % expression)
        if answer[0] != "v":
            raise AssertionError(answer)
        return json.loads(answer[1:])

    def rings(self, runtime):
        return read_all(runtime)

    def stop(self):
        with open(os.path.join(self.directory, "stop"), "w"):
            pass
        return self.child.wait(60)

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.output.close()
        shutil.rmtree(self.directory, ignore_errors=True)
