"""The client of `memgauge feed`, which watches from outside and answers: docs/formats/feed.md.

The command is started when a class begins to watch, and ends with its input. One daemon thread reads its output and
runs callbacks. logging's "memgauge" gets what happens at DEBUG, and a callback that fails at WARNING. In a child made
by os.fork a feed is closed, and calls raise FeedError."""
import glob
import json
import logging
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import threading
from importlib import import_module

READY = 20.0      # s until the command is ready: it opens the session's database and the GPUs' driver
ANSWER = 30.0     # s for a report
GOODBYE = 5.0     # s for it to end after its input has ended
MAX_ERROR = 4000  # bytes of its stderr that are quoted

log = logging.getLogger("memgauge")


class FeedError(RuntimeError):
    """The watching command could not be started, or has ended."""


def binary():
    """Path of the memgauge command: the one that observes this process, else the one that was installed with this
    package, else the first on PATH."""
    path = os.environ.get("MEMGAUGE_BINARY") or next(installed(), None) or shutil.which("memgauge")
    if not path or not os.access(path, os.X_OK):
        raise FeedError("the memgauge command is not found: put it on PATH, or name it in MEMGAUGE_BINARY")
    if planted(path):
        raise FeedError("%s may be another user's: it lies in a directory that everybody can write" % path)
    return path


def planted(path):
    """Whether another user may have put there what lies at a path: something on the way to it, or to what a link leads
    to, is in a directory that everybody can write, such as /tmp, and is neither root's nor ours."""
    try:
        for at in (os.path.abspath(path), os.path.realpath(path)):
            while at.strip("/"):
                folder = os.path.dirname(at)
                if os.stat(folder).st_mode & 0o002 and os.lstat(at).st_uid not in (0, os.geteuid()):
                    return True
                at = folder
    except OSError:
        return True
    return False


def installed():
    """Yields where pip has put the command: PREFIX/bin beside PREFIX/lib/pythonX.Y/site-packages (so do virtual
    environments, --user and --prefix), or FOLDER/bin (--target). Looks where this package comes from, then wherever
    this Python looks for modules: `memgauge run` and attach bring a package of their own."""
    sites = [os.path.dirname(os.path.abspath(p)) for p in sys.modules[__package__].__path__] + sys.path
    for site in dict.fromkeys(os.path.abspath(s) for s in sites):
        if not glob.glob(os.path.join(glob.escape(site), "memgauge-*.dist-info")):
            continue
        for folder in (os.path.join(site, "bin"), os.path.join(site, "..", "..", "..", "bin"),
                       sysconfig.get_path("scripts")):
            path = os.path.normpath(os.path.join(folder, "memgauge"))
            if os.access(path, os.X_OK):
                yield path


def observed():
    """Whether this process itself is observed in a session. One that has just started gets its ring now: without us it
    would have none before it is 0.2 s old. In a process that had imported this package before it was attached to, the
    agent has another name (internal/probe/agent/inject.py)."""
    for package in (__package__, "memgauge_agent"):
        if package + "._agent.life" not in sys.modules:
            continue    # nothing has started an agent of this name
        state = sys.modules.get(package + "._agent.state")
        process = state and state.current
        if process and not process.over and process.pid == os.getpid():
            if import_module(package + "._agent.recording").ring(wait=READY) is not None:
                return True
    return False


class Feed:
    """One running command."""

    def __init__(self, arguments, on_warning=None, tell_blocks=False, command="feed"):
        self.on_warning, self.tell_blocks = on_warning, tell_blocks
        self.pid, self.ready, self.devices = os.getpid(), threading.Event(), []
        self._answers, self._sending, self._asking = queue.Queue(), threading.Lock(), threading.Lock()
        self.plotting, self.refused = False, ""
        path = binary()
        words = ["memgauge"] + ([str(self.pid)] if command == "feed" and observed() else [])
        words += [command, "--pid", str(self.pid)] + arguments
        environment = {k: v for k, v in os.environ.items() if k != "MEMGAUGE_TARGET"}
        self._errors = _scratch()
        try:
            self._child = subprocess.Popen(
                words, executable=path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True)   # Ctrl-C is for the trainer, whose report is still needed then
        except OSError as error:
            self._errors.close()
            raise FeedError("start memgauge: %s" % error)
        self._thread = threading.Thread(target=self._read, name="memgauge-feed", daemon=True)
        self._thread.start()
        if not self.ready.wait(READY) or not self.devices:
            self._child.wait(GOODBYE) if self.ready.is_set() else self._child.kill()
            why = self._why()
            self.close()
            raise FeedError(why)
        log.debug("%s runs %s as process %d; it watches %s", path, " ".join(words), self._child.pid,
                  ", ".join(self.devices))

    def report(self, tool, plot=None):
        """Returns the report as a dict. With the path of a picture the command also draws it there."""
        with self._asking:
            self.plotting, self.refused = bool(plot), ""
            self._send({"report": tool, "plot": os.path.abspath(plot)} if plot else {"report": tool})
            try:
                answer = self._answers.get(timeout=ANSWER)
            except queue.Empty:
                raise FeedError("no report within %d s" % ANSWER)
            if answer is None and self.refused:
                raise FeedError(self.refused)
            if answer is None:
                self._answers.put(None)
                raise FeedError(self._why())
            return answer

    def blocks(self):
        """Sends the present blocks of this process."""
        from ._agent.gauges import heap
        self._send({"blocks": {"malloc_info": heap.malloc_info(), "segments": heap.cuda_segments()}})

    def close(self):
        """Ends the command and waits for it. Does nothing when called again, or in a forked child."""
        if self._child is None or os.getpid() != self.pid:
            return
        child, self._child = self._child, None
        log.debug("process %d ends", child.pid)
        try:
            child.stdin.close()
        except OSError:
            pass
        try:
            child.wait(GOODBYE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if threading.current_thread() is not self._thread:
            self._thread.join(GOODBYE)
        child.stdout.close()
        self._errors.close()

    def _send(self, message):
        child = self._child
        if child is None or os.getpid() != self.pid:
            raise FeedError("nothing is watched any more")
        data = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                child.stdin.write(data)
                child.stdin.flush()
        except (OSError, ValueError):
            raise FeedError(self._why())

    def _read(self):
        child = self._child
        try:
            for line in child.stdout:
                self._take(json.loads(line))
        except (OSError, ValueError):
            pass
        finally:
            self.ready.set()
            self._answers.put(None)

    def _take(self, message):
        kind = message.get("type")
        log.debug("the watching process sends: %s", kind)
        if kind == "ready":
            self.devices = message["devices"]
            self.ready.set()
        elif kind == "report":
            self._answers.put(message["report"])
        elif kind == "error":
            self.refused = message.get("text", "")
            if self.plotting:       # no report follows
                self._answers.put(None)
        elif kind == "blocks" and self.tell_blocks:
            try:
                self.blocks()
            except Exception:       # a report without blocks is better than none
                log.debug("the blocks could not be told", exc_info=True)
        elif kind == "warning" and self.on_warning is not None:
            try:
                self.on_warning(message)
            except Exception:       # the user's own: it must not end the watching
                log.warning("a callback for OOM warnings failed", exc_info=True)

    def _why(self):
        try:
            self._errors.flush()
            said = os.pread(self._errors.fileno(), MAX_ERROR, 0).decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            said = ""
        return said or "the memgauge command has ended"


def _scratch():
    return os.fdopen(os.memfd_create("memgauge-feed"), "w+b")
