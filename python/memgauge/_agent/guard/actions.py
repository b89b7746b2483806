"""What the guard can do, each on the thread that trains, at the end of a step.

An action returns what there is to say of it, or raises Unfit: then it is as if it were not in the policy."""
import gc
import logging

from .. import state, torchhook
from . import figures, lists

TOUCHING = {"clear", "cap", "workers", "figures", "collect", "empty_cache", "trim"}     # not below the policy's floor
FREEING = {"collect", "empty_cache", "trim", "clear", "cap"}   # judged by whether they helped
INSIDE = {"collect", "clear", "cap"}      # they give memory back to malloc, which may keep it


class Unfit(Exception):
    """It can't be done here; the text says why."""


class NotYet(Exception):
    """It can't be done at this step."""


class Actions:
    def __init__(self, observer, watched, holder):
        self.observer, self.watched = observer, watched
        self.holder = holder             # is told who held what was freed
        self._figures = None             # their order when they were looked at
        self._trim = _malloc_trim()      # now: near a limit there may be no room for imports

    def run(self, action, step):
        return getattr(self, "do_" + action[0])(step, *action[1:])

    def do_collect(self, step):
        return "%d objects" % gc.collect()

    def do_empty_cache(self, step):
        torch = torchhook.loaded("torch")
        if torch is None or not self.observer.cuda.ready():
            raise Unfit("CUDA is not in use")
        if self.observer.cuda.capturing():
            raise NotYet
        torch.cuda.empty_cache()
        return ""

    def do_trim(self, step):
        """Gives the kernel back what malloc holds free; glibc's mallopt(3) tells why that is much."""
        if self._trim is None:
            raise Unfit("the C library has no malloc_trim")
        self._trim(0)
        return ""

    def do_clear(self, step, names):
        cleared, waits, kept = [], False, 0
        for name in names:
            watched = self.watched(name)
            ready, waiting, used = watched.filled(step)
            waits, kept = waits or bool(waiting), kept + len(used)
            for label, container in ready:
                cleared.append("%s (%d)" % (label, len(container)))
                container.clear()
                watched.cleared(container)
                self.holder(label)
        if cleared:
            return ", ".join(cleared)
        if waits:
            raise NotYet
        if kept:
            raise Unfit("the lists may be in use: the program empties them itself, or refers to them elsewhere, or "
                        "they have not grown again: " + ", ".join(names))
        raise Unfit("no list of that name holds anything: " + ", ".join(names))

    def do_cap(self, step, name, length):
        gone, watched = [], self.watched(name)
        for label, container in watched.containers():
            if len(container) > length:
                gone.append("%s by %d" % (label, lists.cut(container, length)))
                watched.cleared(container)
                self.holder(label)
        if not gone:
            raise NotYet
        return ", ".join(gone)

    def do_workers(self, step):
        """New workers at the next epoch: the loop over the present ones goes on, it holds its iterator itself
        (torch/utils/data/dataloader.py, DataLoader.__iter__)."""
        found = lists.loaders()
        if not found:
            raise Unfit("no loader has workers that persist")
        for loader in found:
            loader._iterator = None
        return "%d loaders start new workers at their next epoch" % len(found)

    def do_figures(self, step):
        """Those that pyplot alone holds (matplotlib/_pylab_helpers.py, Gcf.figs), and that were there, and not made the
        current one, since the look before."""
        helpers = torchhook.loaded("matplotlib._pylab_helpers")
        if helpers is None:
            raise Unfit("matplotlib.pyplot is not in use")
        before, self._figures = self._figures, figures.order(helpers.Gcf)
        if before is None:
            raise NotYet
        count = figures.close(helpers.Gcf, before)
        if not count:
            raise Unfit("no figure that nothing refers to is open")
        self.holder("matplotlib.pyplot's figures")
        return "closed %d" % count

    def do_census(self, step):
        from ..census import census
        try:
            census.request(False, _nobody, True)
        except ValueError as why:
            raise Unfit(str(why))
        return "in slices, beside the next steps"

    def do_call(self, step, name):
        try:
            function = lists.function(name)
        except LookupError as why:
            raise Unfit(str(why))
        function()
        return name


def _nobody(job):
    pass


def _malloc_trim():
    try:
        import ctypes
        function = ctypes.CDLL(None).malloc_trim        # gives the GIL up: a trim of gigabytes takes a while
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    return function


def warn(text):
    """For people: through the logger `memgauge`, where the program's own logging puts it."""
    try:
        logging.getLogger("memgauge").warning("%s", text)
    except Exception:
        state.error("guard: warn")


def log(text):
    try:
        logging.getLogger("memgauge").info("%s", text)
    except Exception:
        state.error("guard: log")
