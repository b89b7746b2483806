"""Calls for programs: step(), for loops whose steps memgauge doesn't see, and event(). In a process that is not
observed both do nothing, so that they can stay in the program."""
import sys
from importlib import import_module

# Where the agent of this process may be: in one that had this package installed before it was attached to, it has
# another name (internal/probe/agent/inject.py).
AGENTS = tuple((name + "._agent.state", name + "._agent.observe.loop") for name in (__package__, "memgauge_agent"))
MAX_NAME = 64       # characters of an event's name
MAX_TEXT = 1000     # and of its text


def step():
    """Marks the end of an iteration of the program's own loop, so that memgauge judges its memory by steps. If
    PyTorch's optimizers step, their steps count instead, and this does nothing. Returns whether it counted."""
    state, name = _agent()
    if state is None:
        return False
    try:
        loop = sys.modules.get(name) or import_module(name)
        return loop.beat(loop.PROGRAM, "program", "calls of memgauge.step()")
    except Exception:
        state.error("memgauge.step")
        return False


def event(name, text="", a=0, b=0):
    """Writes a row into memgauge.events. a and b are whole numbers of the program's choice, such as the step."""
    state, _ = _agent()
    if state is not None:
        state.event(str(name)[:MAX_NAME], str(text)[:MAX_TEXT], int(a), int(b))


def _agent():
    """(the state of the agent that observes this process, the name of its module loop), or (None, None)."""
    for name, loop in AGENTS:
        state = sys.modules.get(name)
        if state is not None and state.current is not None:
            return state, loop
    return None, None
