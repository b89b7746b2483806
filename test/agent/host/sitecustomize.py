"""Puts the control socket, and nothing else of the agent, into a process: MEMGAUGE_TEST_SOCKET says where. Events are
appended to that path + ".events" as JSON lines; a pipe to the main thread isn't needed."""
import json
import os
import sys
import threading
import _thread


class Hooks:
    def __init__(self, path):
        self.path = path

    def hello(self):
        return "test-agent"

    def event(self, name, text, a, b):
        line = json.dumps({"name": name, "text": text, "a": a, "b": b}) + "\n"
        fd = os.open(self.path + ".events", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, line.encode("utf-8"))
        os.close(fd)

    def detach(self):
        self.event("detach", "", 0, 0)

    def settings(self, settings):
        if "budget" not in settings:
            raise ValueError("no budget")
        self.event("settings", json.dumps(settings), 0, 0)


def _start(path):
    from memgauge import control
    served = control.Control(path, Hooks(path))
    served.open()
    pipe = os.pipe()
    state = {}

    def loop():
        state["stopped"] = threading.Event()
        served.run(pipe[0])
        state["stopped"].set()

    def before():
        os.write(pipe[1], b"x")
        state["stopped"].wait(5)

    def in_parent():
        os.read(pipe[0], 1)
        _thread.start_new_thread(loop, ())

    def in_child():
        served.close_in_child()
        if "memgauge.evaluate" in sys.modules:
            sys.modules["memgauge.evaluate"].after_fork()
        os.close(pipe[0])
        os.close(pipe[1])
        os.environ.pop("MEMGAUGE_TEST_SOCKET", None)

    _thread.start_new_thread(loop, ())
    if os.environ.get("MEMGAUGE_TEST_FORK"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
    else:
        os.register_at_fork(after_in_child=in_child)


if os.environ.get("MEMGAUGE_TEST_SOCKET"):
    _start(os.environ["MEMGAUGE_TEST_SOCKET"])
