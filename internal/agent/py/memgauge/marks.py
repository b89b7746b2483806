"""What a program says of itself: step(), where its loop has none that memgauge sees, and event(). In a process that is
not observed both do nothing, so that they can stay in the program."""
from ._agent import state
from ._agent.observe import loop

MAX_NAME = 64       # characters of an event's name
MAX_TEXT = 1000     # and of its text


def step():
    """One iteration of the program's own loop has ended: memgauge then judges its memory by steps. Where PyTorch's
    optimizers step, these count, and this does nothing. Says whether it counted."""
    if state.current is None:
        return False
    try:
        return loop.beat(loop.PROGRAM, "program", "calls of memgauge.step()")
    except Exception:
        state.error("memgauge.step")
        return False


def event(name, text="", a=0, b=0):
    """Writes a row into memgauge.events. a and b are whole numbers of the program's choice, such as the step."""
    state.event(str(name)[:MAX_NAME], str(text)[:MAX_TEXT], int(a), int(b))
