"""Calls for programs: step(), for loops whose steps memgauge doesn't see, unit(), for what a server works on, and
event(). In a process that is not observed they do nothing, so that they can stay in the program."""
import functools
import sys
from importlib import import_module

# Where the agent of this process may be: in one that had this package installed before it was attached to, it has
# another name (internal/probe/agent/inject.py).
AGENTS = tuple((name + "._agent.state", name + "._agent.observe.loop") for name in (__package__, "memgauge_agent"))
UNITS = {"train": 0, "infer": 1, "engine": 2, "request": 3, "cell": 4}     # record/_spec.WORK_KINDS
MAX_NAME = 64       # characters of an event's name
MAX_TEXT = 1000     # and of its text


def step():
    """Marks the end of an iteration of the program's own loop, so that memgauge judges its memory by steps. If
    PyTorch's optimizers step, their steps count instead, and this does nothing. Returns whether it counted."""
    state, name = _agent()
    if state is None:
        return False
    try:
        loop = _loop(name)
        return loop.beat(loop.PROGRAM, "program", "calls of memgauge.step()")
    except Exception:
        state.error("memgauge.step")
        return False


class unit:
    """A unit of work, such as a request, by whose number memgauge judges the memory of a process that makes no steps of
    a training. It counts when it is over, also where it failed; units may overlap, on any threads.

        with memgauge.unit("request", tokens=512):      # or: with … as u, and then u.tokens = 512
        @memgauge.unit("request")                       # also on async functions, and on generators of either kind
    """

    __slots__ = ("kind", "tokens")

    def __init__(self, kind="request", tokens=None):
        if kind not in UNITS:
            raise ValueError("memgauge.unit(%r): not one of %s" % (kind, ", ".join(UNITS)))
        self.kind, self.tokens = kind, tokens

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name, loop in AGENTS:
            state = sys.modules.get(name)
            if state is not None and state.current is not None:
                _over(state, loop, self.kind, self.tokens)
                return

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.__exit__()

    def __call__(self, function):
        from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
        kind, tokens = self.kind, self.tokens
        if isasyncgenfunction(function):
            async def wrapper(*args, **kwargs):
                with unit(kind, tokens):
                    inner = function(*args, **kwargs)
                    try:
                        async for value in inner:
                            yield value
                    finally:
                        await inner.aclose()
        elif iscoroutinefunction(function):
            async def wrapper(*args, **kwargs):
                with unit(kind, tokens):
                    return await function(*args, **kwargs)
        elif isgeneratorfunction(function):
            def wrapper(*args, **kwargs):
                with unit(kind, tokens):
                    return (yield from function(*args, **kwargs))
        else:
            def wrapper(*args, **kwargs):
                with unit(kind, tokens):
                    return function(*args, **kwargs)
        return functools.wraps(function)(wrapper)


def _over(state, name, kind, tokens):
    """A unit of work is over, in an observed process."""
    try:
        loop = _loop(name)
        if tokens is not None:
            state.tokens.append(max(0, int(tokens)))
        loop.beat(loop.UNIT, kind, "units of the program's own: " + kind, 1, UNITS[kind])
    except Exception:
        state.error("memgauge.unit")


def event(name, text="", a=0, b=0):
    """Writes a row into memgauge.events. a and b are whole numbers of the program's choice, such as the step."""
    state, _ = _agent()
    if state is not None:
        state.event(str(name)[:MAX_NAME], str(text)[:MAX_TEXT], int(a), int(b))


def _loop(name):
    """The agent's module loop. While another thread imports it, sys.modules has it without most of its names:
    import_module waits for that."""
    loop = sys.modules.get(name)
    return loop if hasattr(loop, "after_fork") else import_module(name)


def _agent():
    """(the state of the agent that observes this process, the name of its module loop), or (None, None)."""
    for name, loop in AGENTS:
        state = sys.modules.get(name)
        if state is not None and state.current is not None:
            return state, loop
    return None, None
