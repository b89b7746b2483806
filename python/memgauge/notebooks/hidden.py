"""`%memgauge free`: what holds memory in a notebook that the user has no name for; shows bytes, and frees on request.

The bytes are those that only the hidden holder has: what one of the user's names leads to as well is not counted, since
freeing would not free it."""
import gc
import sys

from .._agent import torchhook
from .._agent.census import interactive, introspect
from ..integrations import gauges
from . import holdings, show

KINDS = ("results", "errors", "figures", "widgets", "workers", "graphs")
ALL = KINDS[:-1]       # what `all` frees: the graphs hang at the user's own names
WORKERS = "DataLoader workers"
LEAST = 1 << 20        # bytes of a GPU that no name leads to and that are worth a line
_ERRORS_OF_SHELL = ("tb", "etype", "evalue", "pdb")     # IPython/core/ultratb.py: for %debug and %tb


class Survey:
    """What is held by whom at one moment. It holds weak references to tensors with a graph, and nothing else."""

    def __init__(self, shell):
        self.shell = shell
        self.workers, self.graphs = [], {}
        walker, self.sums = holdings.look(shell, self._loaders)
        self._graphs_of(walker)
        self.named = {}
        for sizes in self.sums.roots.values():
            for memory, size in sizes.items():
                self.named[memory] = self.named.get(memory, 0) + size

    def _loaders(self, walker):
        """Iterators of DataLoaders whose workers live although no name of the user's leads to them."""
        out = []
        for loader in iterators():
            if not walker.reached(loader):
                for pid in pids(loader):
                    self.workers.append((pid, private(pid)))
                out.append((WORKERS, loader))
        return out

    def _graphs_of(self, walker):
        w, torch = walker.walk, walker.torch
        if not torch.found:
            return
        with torch.quiet():
            for i in range(0, len(w.graphs) - 1, 2):
                t, place = w.graphs[i](), w.graphs[i + 1]
                node = torch.grad_fn(t) if t is not None else None
                if node is not None:
                    entry = self.graphs.setdefault(w.places.path(place), [0, 0, []])
                    entry[0], entry[1] = entry[0] + 1, max(entry[1], torch.nodes(node))
                    entry[2].append(w.graphs[i])
            t = node = None

    def rows(self):
        """(kind, held by, {memory: bytes} or None where they are unknown, what it is)."""
        out = []
        for path, labels, sizes, about in holdings.grown(holdings.Nothing, self.sums):
            kind = self.sums.stages.get(labels[0])
            if kind in KINDS and kind != "workers":
                out.append((kind, path, sizes, about or self._about(kind)))
        for pid, size in self.workers:
            out.append(("workers", "process %d" % pid, {"host": size} if size else None,
                        "a DataLoader's, whose iterator nobody uses"))
        for path, (count, nodes, _) in self.graphs.items():
            if nodes > 1:
                what = "%d tensors, each with a graph of up to %d nodes" % (count, nodes) if count > 1 else \
                    "a graph of %d nodes" % nodes
                out.append(("graphs", path, None, what + ", which keeps activations"))
        return out

    @staticmethod
    def _about(kind):
        if kind == "errors":
            error = sys.__dict__.get("last_value")
            return "%s: its frames keep their variables" % type(error).__name__ if error is not None else ""
        if kind == "figures":
            return "%d open figures" % len(interactive.figures() or ())
        return ""

    def unnamed(self):
        """{GPU: bytes} that PyTorch has given out and no tensor accounts for that a name leads to."""
        cuda, out = torchhook.cuda(), {}
        for device in range(cuda.device_count()) if cuda is not None else ():
            memory = "cuda:%d" % device
            rest = cuda.memory_allocated(device) - self.named.get(memory, 0)
            if rest >= LEAST:
                out[memory] = rest
        return out


def tell(shell, page):
    """Lists what is hidden."""
    survey = Survey(shell)
    rows = survey.rows()
    if not rows:
        page.line("memgauge: nothing of 64 KiB or more is held by what you can't see")
    else:
        memories = show.ordered({memory for row in rows for memory in row[2] or ()})
        total = {}
        for _, _, sizes, _ in rows:
            for memory, size in (sizes or {}).items():
                total[memory] = total.get(memory, 0) + size
        page.line("memgauge: held by what you can't see: %s" % (show.sizes(total) or "graphs, of unknown size"))
        page.table(["kind", "held by"] + memories + [""], [
            [kind, path] + [show.size(sizes[m]) if sizes and m in sizes else "" for m in memories] + [about]
            for kind, path, sizes, about in rows])
        kinds = [kind for kind in KINDS if any(row[0] == kind for row in rows)]
        page.line("  free: %memgauge free " + " ".join([kind for kind in kinds if kind != "graphs"] or kinds))
        if "graphs" in kinds:
            page.line("  `free graphs` detaches your own tensors: backward() through them is over")
    for memory, size in survey.unnamed().items():
        page.line("  %s: %s in no tensor that a name leads to: gradients, activations that graphs keep, running threads"
                  % (memory, show.size(size)))


def free(shell, kinds, page):
    """Frees those kinds, and tells what came back."""
    memory = gauges.Memory()
    try:
        before = memory.read()
        notes = []
        for kind in kinds:
            try:
                note = _FREE[kind](shell)
            except Exception as error:      # a library of another version: the others are still freed
                note = "%s: %s: %s" % (kind, type(error).__name__, error)
            notes += [note] if note else []
        gauges.collect()
        cuda = torchhook.cuda()
        if cuda is not None:
            cuda.empty_cache()
        after = memory.read()
    finally:
        memory.close()
    before.pop("heap", None)
    back = {"host" if name == "private memory" else name: max(0, before[name] - after.get(name, 0)) for name in before}
    page.line("memgauge: freed %s (%s)" % (show.sizes(back), ", ".join(kinds)))
    for note in notes:
        page.line("  " + note)


def _free_results(shell):
    space, hidden = shell.user_ns, getattr(shell, "user_ns_hidden", {})
    kept = interactive.results(space)
    hook = getattr(shell, "displayhook", None)
    for key in [key for key in space if type(key) is str and interactive.is_numbered(key)]:
        del space[key]
        hidden.pop(key, None)
    if kept is not None:
        kept.clear()
    for name in ("_", "__", "___"):
        last = getattr(hook, name, None)
        if space.get(name) is last:     # else it is a variable of the user's own
            space[name] = ""
        if hidden.get(name) is last and name in hidden:
            hidden[name] = ""
        if hook is not None:
            setattr(hook, name, "")
    done = getattr(shell, "last_execution_result", None)
    if done is not None:
        done.result = None


def _free_errors(shell):
    for name in interactive.ERRORS + ("last_type",):
        sys.__dict__.pop(name, None)
    for handler in (getattr(shell, "InteractiveTB", None), getattr(shell, "SyntaxTB", None)):
        for name in _ERRORS_OF_SHELL:
            if getattr(handler, name, None) is not None:
                setattr(handler, name, None)
        if getattr(handler, "last_syntax_error", None) is not None:
            handler.last_syntax_error = None
    done = getattr(shell, "last_execution_result", None)
    if done is not None:
        done.error_before_exec = done.error_in_exec = None


def _free_figures(shell):
    pyplot = torchhook.loaded("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def _free_widgets(shell):
    module = torchhook.loaded("ipywidgets")
    if module is not None and next(iter(holdings.widgets()), None) is not None:
        module.Widget.close_all()
        return "widgets: all are closed; those that are shown no longer answer"
    return ""


def _free_workers(shell):
    walker = holdings.Walker()
    walker.stage("yours", holdings.users_names(shell))
    walker.stage("yours", holdings.users_modules())
    ended = 0
    for loader in iterators():
        if not walker.reached(loader):
            ended += len(pids(loader))
            loader._shutdown_workers()
    return "workers: %d have ended" % ended if ended else ""


def _free_graphs(shell):
    detached = views = 0
    for _, _, refs in Survey(shell).graphs.values():
        for ref in refs:
            t = ref()
            if t is None:
                continue
            try:
                t.detach_()
                detached += 1
            except RuntimeError:        # of a view: torch detaches none in place
                views += 1
    return "graphs: %d tensors detached%s" % (detached, ", %d views can't be" % views if views else "")


_FREE = {"results": _free_results, "errors": _free_errors, "figures": _free_figures, "widgets": _free_widgets,
         "workers": _free_workers, "graphs": _free_graphs}


def iterators():
    """Living iterators of DataLoaders that have workers."""
    module = torchhook.loaded("torch.utils.data.dataloader")
    cls = introspect.module_dict(module).get("_MultiProcessingDataLoaderIter") if module is not None else None
    return [o for o in gc.get_objects() if type(o) is cls and pids(o)] if cls is not None else []


def pids(loader):
    """Of an iterator's workers that live."""
    return [w.pid for w in getattr(loader, "_workers", ()) if w.pid and w.is_alive()]


def private(pid):
    """Bytes of memory that only this process has; 0 if unknown."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            return sum(int(line.split()[1]) << 10 for line in f if line.startswith("Private_"))
    except (OSError, ValueError, IndexError):
        return 0


