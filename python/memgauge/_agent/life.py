"""The agent's life in a process: start, attach, forks, exec, exit, detach.

start() runs in every observed Python, most of which never train, so it opens nothing and imports nothing that Python
has not loaded: it registers hooks and starts one thread (thread.py), which after a while opens the small ring and the
control socket, then blocks in poll for ever. attach() is for a program that runs already: everything is opened at once,
on the thread that was brought in for it.

At os.fork no thread of ours exists: the child would inherit whatever lock it held, and CPython 3.12+ warns about a
fork with threads. So the thread is ended before a fork and started again after it.
This module is above all others: it may import each of them, and none imports it.
"""
import _signal
import _thread
import atexit
import os
import sys
from time import monotonic

from . import onimport, persistent, ranks, state, thread, torchhook, unload

UNWANTED = 60.0      # s that an agent without a ring waits for one: the attaching process may have been killed

_box = None      # what the fork and exit hooks call; emptied by detach, since hooks can't be unregistered


# Start

def start(runtime=None):
    """Called by sitecustomize in the main thread."""
    runtime = runtime or os.environ.get("MEMGAUGE_RUNTIME")
    if state.current is not None or not runtime or not _main_interpreter() or not _ours(runtime):
        return
    for key in ("budget", "trace"):
        text = os.environ.get("MEMGAUGE_" + key.upper())
        if text:
            try:
                state.settings.set(key, text)
            except ValueError:
                pass    # `memgauge run` has checked it; somebody else's mistake keeps the default
    state.current = s = _process(runtime)
    _hook_in()
    onimport.notice()
    if getattr(sys, "argv", ())[1:2] == ["--multiprocessing-fork"]:
        from . import workers
        workers.spawned(state.at_exit)
    thread.start(s)


def _process(runtime, parent=0):
    s = state.Process(runtime, ranks.from_environment(), parent)
    s.serve = _serve
    return s


def _ours(directory):
    """Whether a directory is this user's. Another user's may be a trap (`sudo -E`), and they could not read our
    rings."""
    try:
        return os.stat(directory).st_uid == os.geteuid()
    except OSError:
        return False


def attach(request):
    """Starts the agent in a running program, on any thread. Returns text lines for the attaching process. If it raises,
    everything is as before."""
    s = state.current
    if s is not None and s.ring is None and s.door is not None and request["runtime"] is None:
        s.door.identity = request["pid"], request["start"]     # who came before was killed before he gave a ring
        return "attached\t%s" % s.door.address()
    if s is not None:
        return "observed\t%s" % (s.runtime or "")
    state.settings.set("budget", request["budget"])
    state.settings.set("trace", request["trace"])
    state.current = s = _process(request["runtime"])
    s.birth = "attach"
    try:
        _open_all(s, request)
    except BaseException:
        state.current = None
        for opened in (s.pipe, s.ring, s.door):
            if opened is not None:
                opened.close()
        raise
    _hook_in()
    if s.ring is not None:
        from . import workers
        workers.watch(state.at_exit)
    onimport.notice()
    thread.start(s)
    state.sigmask = thread.signals_of_main()
    return "attached\t%s" % (s.door.address() if s.door is not None else "")


def _open_all(s, request):
    from . import recording
    from .pipe import Pipe
    if s.runtime is None:
        from .control.door import Door
        s.door = Door(request["pid"], request["start"])
    elif recording.ring(large="torch" in sys.modules) is None:
        raise OSError("no ring could be made in %s/rings" % s.runtime)
    s.pipe = Pipe()
    _open_control(s)


def _hook_in():
    global _box
    _box = persistent.get("hooks.1", _register)    # registered once in the life of a process
    _box[:] = _before_fork, _after_in_parent, _after_in_child, _at_exit
    state.at_exit = _hook(_box, 3)
    sys.modules[state.ROOT + ".process"] = sys.modules[__name__]     # where an attach of the first release looks for us


def _register():
    box = []
    os.register_at_fork(before=_hook(box, 0), after_in_parent=_hook(box, 1), after_in_child=_hook(box, 2))
    atexit.register(_hook(box, 3))
    return box


def _main_interpreter():
    """A subinterpreter can't end while a thread of its own lives, and must not fork. Before 3.12 a handler tells, which
    is set to what it is: only the main interpreter may (Modules/signalmodule.c, signal_signal). We are in the main
    thread."""
    if hasattr(_thread, "_is_main_interpreter"):
        return _thread._is_main_interpreter()
    try:
        known = next((n for n in (_signal.SIGURG, _signal.SIGWINCH, _signal.SIGCONT)
                      if _signal.getsignal(n) == _signal.SIG_DFL), None)
        return known is None or _signal.signal(known, _signal.SIG_DFL) is not None
    except ValueError:
        return False


def _hook(box, index):
    """A function that the interpreter may keep for ever: it holds the box and nothing else, not even our globals."""
    def hook(box=box, index=index):
        if box:
            try:
                box[index]()
            except Exception:   # no descriptor left to read a module of ours with
                pass
    return persistent.bare(hook)


# What the control thread does

def _serve(s, run):
    """Blocks until the pipe tells it to stop. Without a ring there is no control socket either."""
    try:
        from . import recording
    except OSError:     # no descriptor is free
        return
    if s.lost or s.door is None and recording.ring(wait=thread.PATIENCE) is None:    # nobody waits for this thread
        return
    from .pipe import Pipe
    if s.pipe is None:
        s.pipe = Pipe()
    s.pipe.drain()
    if s.control is None:
        _open_control(s)
    if not run.stop:        # it may have been set before the pipe was drained of the word that goes with it
        why = s.control.run(s.pipe)
        if why == "detach":
            unload.last_thing(s, s.control.last)
        s.lost = why == "lost"      # a daemon has closed every descriptor: the ring, which is mapped, goes on


def _open_control(s):
    from .control.server import Control
    path = None if s.door is not None else "%s/ctl/%d.%d.sock" % (s.runtime, s.pid, s.ring.start)
    opened = Control(path, _Requests(), s.door)
    opened.open()
    s.control = opened


class _Requests:
    """The requests of the control socket to the process."""

    hello = staticmethod(state.agent_hash)
    event = staticmethod(state.event)

    def detach(self):
        detach()

    def gone(self):
        return state.current is None

    def ring(self, fd):
        from . import recording
        recording.adopt(fd)

    def tick(self):
        s = state.current
        if s is not None and s.door is not None and s.ring is None:
            if monotonic() < s.deadline + UNWANTED:
                return s.deadline + UNWANTED
            detach()
            return monotonic()
        return torchhook.tick()

    def settings(self, wanted):
        for key, text in wanted.items():
            configure(key, text)


def _close_control(s, close):
    control, s.control = s.control, None
    if control is not None:
        close(control)


# Forks and exit

def _before_fork():
    s = state.current
    ended = thread.stop(s) or thread.awaited_import(s.thread) and thread.stop(s)
    if sys.version_info[:2] == (3, 13) or (not ended and sys.version_info >= (3, 12)):
        from . import forkwarning
        forkwarning.stand_by()
    if "multiprocessing.util" in sys.modules:
        from . import workers
        workers.expect(state.at_exit)


def _after_in_parent():
    s = state.current
    run = s.thread
    if run is None:
        thread.start(s)
    elif run.ident != _thread.get_ident():   # it missed its deadline: whichever side sees the mark first restarts it
        run.again[:] = 1,
        if run.ended(0):
            thread.start_again(s, run)


def _after_in_child():
    """Forgets all state of the parent, without writing to its files, before any code of the user runs."""
    old = state.current
    state.current = s = _process(old.runtime, old.pid)
    s.over = old.over
    try:
        thread.forget_imports(old)
        if old.ring is not None:
            old.ring.close(None)
        _close_control(old, lambda control: control.close_in_child())
        if old.pipe is not None:
            old.pipe.close()
        state.guard = state.guard_hooks = None
        _tell("evaluate.job", "after_fork")
        _tell("census.census", "after_fork")
        _tell_observer("after_fork")
        _tell("observe.loop", "after_fork")
    except Exception:
        state.error("fork")
    if s.runtime is None:
        _stay_out()
    else:
        thread.start(s)


def _stay_out():
    """In a child of a process that can't see our files: it has no ring of its own, so it isn't observed."""
    torchhook.remove()
    _tell("observe.learners", "uninstall")
    _tell("observe.servers", "uninstall")
    _tell("observe.observer", "uninstall")
    del _box[:]
    state.current = None


def _at_exit():
    s = state.current
    s.over = True
    thread.stop(s)
    try:
        if s.ring is not None and s.pid == os.getpid():
            _tell_observer("flush")
            _tell("census.schedule", "at_exit")
            if getattr(sys, "last_value", None) is not None:    # an error ends the program
                from .gauges import oom
                oom.at_exit()
            s.ring.event("exit")
            s.ring.close()
        _close_control(s, lambda control: control.close())
    except Exception:   # there is no place left to report it
        pass
    s.ring = s.control = None


def _tell(module, function):
    """Calls a function of a module of ours, if that is loaded at all."""
    loaded = sys.modules.get(__package__ + "." + module)
    if loaded is not None:
        getattr(loaded, function)()


def _tell_observer(method):
    if state.observer is not None:
        getattr(state.observer, method)()


def configure(key, text):
    if key == "native":
        from . import native
        return native.begin(text)
    state.settings.set(key, text)    # ValueError says what is wrong with it
    _tell_observer("settings_changed")


# Detach

_LEAVE = (("workers", "forget"), ("forkwarning", "leave"), ("observe.learners", "uninstall"),
          ("observe.servers", "uninstall"), ("observe.observer", "uninstall"), ("evaluate.moment", "retire"),
          ("mainthread", "retire"), ("native", "end"))


def detach():
    """Removes the agent. On the control thread it is a client's request: Control.run() answers, closes, ends."""
    s = state.current
    if s is None:
        return
    torchhook.remove()
    state.guard = state.make_guard = state.guard_hooks = None
    try:
        for module, function in _LEAVE:
            _tell(module, function)
    except Exception:
        state.error("detach")
    state.event("detach")
    s.over = True
    del _box[:]
    if s.ring is not None:
        from .record import _spec
        s.ring.close(_spec.STATE_DETACHED)
        s.ring = None
    state.current = None
    if s.thread is None or s.thread.ident != _thread.get_ident():
        thread.stop(s)
        _close_control(s, lambda control: control.close())
        if s.pipe is not None:
            s.pipe.close()
    s.modules = unload.forget_modules(s)


def __getattr__(name):
    if name == "_state":    # asked for by an attach of the first release
        return state.current
    raise AttributeError(name)
