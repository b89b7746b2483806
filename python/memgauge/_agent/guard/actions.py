"""What the guard can do, each on the thread that trains, at the end of a step.

An action returns what there is to say of it, or raises Unfit: then it is as if it were not in the policy."""
import gc
import logging

from .. import state, torchhook
from . import lists

FREEING = {"collect", "empty_cache", "trim", "clear", "cap"}   # judged by whether they helped
INSIDE = {"collect", "clear", "cap"}      # they give memory back to malloc, which may keep it


class Unfit(Exception):
    """It can't be done here; the text says why."""


class NotYet(Exception):
    """It can't be done at this step."""


class Actions:
    def __init__(self, observer, watched):
        self.observer, self.watched = observer, watched
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
        cleared, waits = [], False
        for name in names:
            watched = self.watched(name)
            ready, waiting = watched.filled(step)
            waits = waits or bool(waiting)
            for label, container in ready:
                cleared.append("%s (%d)" % (label, len(container)))
                container.clear()
        if cleared:
            return ", ".join(cleared)
        raise NotYet if waits else Unfit("no list of that name holds anything: " + ", ".join(names))

    def do_cap(self, step, name, length):
        gone = ["%s by %d" % (label, lists.cut(container, length))
                for label, container in self.watched(name).containers() if len(container) > length]
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
        """What pyplot holds until it is closed (matplotlib/_pylab_helpers.py, Gcf.figs)."""
        pyplot = torchhook.loaded("matplotlib.pyplot")
        if pyplot is None:
            raise Unfit("matplotlib.pyplot is not in use")
        count = len(pyplot.get_fignums())
        pyplot.close("all")
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
