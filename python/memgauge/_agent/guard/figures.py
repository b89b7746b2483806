"""Figures that a program has left open in pyplot, told from those that it still uses."""
import gc
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType

MAX_WALKED = 50_000      # objects of one figure: a plot of many artists has some thousands


def order(gcf):
    """The figures, as pyplot has them: the one that was made current last is the last."""
    return [(number, id(manager)) for number, manager in list(gcf.figs.items())]


def close(gcf, before):
    """Closes those that only pyplot refers to, that have no name by which the program could ask for them, and that have
    not been made current since `before`. The current one is never closed: it is drawn into without being named."""
    now, count = order(gcf), 0
    for place, key in enumerate(now[:-1]):
        if key not in before:
            continue
        later = before[before.index(key) + 1:]
        if not later or any(other in now[:place] for other in later):
            continue        # it was the current one, or has become that
        manager = gcf.figs.get(key[0])
        if manager is not None and not _named(manager) and not referenced(manager):
            gcf.destroy(key[0])
            count += 1
    return count


def _named(manager):
    figure = getattr(getattr(manager, "canvas", None), "figure", None)
    return figure is None or bool(figure.get_label())


def referenced(manager):
    """Whether anything outside refers to a figure or a part of it: as the garbage collector finds it, by subtracting
    the references that come from within from all that there are (Modules/gcmodule.c, subtract_refs)."""
    within, todo = {id(manager): manager}, [manager]
    counts = {id(manager): 0}
    while todo:
        for part in gc.get_referents(todo.pop()):
            if isinstance(part, _SHARED) or not gc.is_tracked(part) and not isinstance(part, (dict, tuple)):
                continue
            known = id(part)
            if known in within:
                counts[known] += 1
                continue
            if len(within) >= MAX_WALKED:
                return True
            within[known], counts[known] = part, 1
            todo.append(part)
    del todo
    part = None
    base = _base()
    for known in _parts(manager):
        if known in within and sys.getrefcount(within[known]) - base > counts[known]:
            return True
    return False


# What figures share with the rest of the program: references to it say nothing.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)


def _base():
    """What getrefcount says of an object that only a dict like ours refers to."""
    within = {0: object()}
    return sys.getrefcount(within[0])


def _parts(manager):
    """The ids of what a program may hold: the canvas, the figure, its axes, and what is drawn in them."""
    figure = manager.canvas.figure
    return [id(manager.canvas), id(figure)] + [id(a) for a in figure.axes] + [
        id(artist) for a in figure.axes for artist in a.get_children()]
