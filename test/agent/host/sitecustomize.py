"""Puts the control socket, and nothing else of the agent, into a process: MEMGAUGE_TEST_SOCKET says where. Events are
appended to that path + ".events" as JSON lines."""
import _thread
import json
import os
import sys

if not os.environ.get("MEMGAUGE_TEST_BARE"):
    import threading   # as most programs have, before any thread


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

    def tick(self):
        return None

    def gone(self):
        return False

    def settings(self, settings):
        if "budget" not in settings:
            raise ValueError("no budget")
        self.event("settings", json.dumps(settings), 0, 0)


def _start(path):
    from memgauge._agent import pipe as pipes
    from memgauge._agent.control import server as control
    served = control.Control(path, Hooks(path))
    served.open()
    pipe = pipes.Pipe()
    ended = _thread.allocate_lock()

    def loop():
        try:
            if served.run(pipe) == "detach":
                served.last.close()
        finally:
            ended.release()

    def start():
        ended.acquire()
        _thread.start_new_thread(loop, ())

    def before():
        pipe.wake()
        ended.acquire(True, 5)

    def in_parent():
        ended.release()
        pipe.drain()
        start()

    def in_child():
        served.close_in_child()
        if "memgauge._agent.evaluate.job" in sys.modules:
            sys.modules["memgauge._agent.evaluate.job"].after_fork()
        pipe.close()

    start()
    if os.environ.get("MEMGAUGE_TEST_FORK"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
    else:
        os.register_at_fork(after_in_child=in_child)


if os.environ.get("MEMGAUGE_TEST_SOCKET"):
    _start(os.environ.pop("MEMGAUGE_TEST_SOCKET"))   # not for its children
