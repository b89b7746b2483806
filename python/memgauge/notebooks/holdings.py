"""What holds memory in a notebook, by the user's own names first: a walk of the census (memgauge/_agent/census), taken
on the main thread between two cells, where nothing else runs. The same places, the same bytes: a storage counts once.

Without a session too. No code of the program runs, and what is left of a walk is names and numbers."""
import sys
from time import monotonic

from .._agent import torchhook
from .._agent.census import interactive, introspect, libraries, tensors, walk
from .._agent.census.entering import IN_ONE_PIECE

LONGEST = 2.0         # s that a walk takes at most; what is not reached then is told to be missing
TOLD = 64 << 10       # bytes: smaller places are not remembered from one walk to the next
MAX_PLACES = 2_000    # that are remembered, the largest
HOST = "host"
FIGURES, WIDGETS = "matplotlib.pyplot.open_figures", "ipywidgets"
TABLES = FIGURES, WIDGETS      # of libraries: where in their objects the bytes are says nothing


class _NoMarks:
    """A walk of ours remembers no tensor."""

    @staticmethod
    def see(_):
        return False, 0


class Walker:
    """A walk in stages: what an earlier stage has reached is not counted in a later one. So what a stage of hidden
    holders finds is what they alone hold."""

    def __init__(self):
        self.torch = tensors.Torch()
        torch, numpy = self.torch, torchhook.loaded("numpy")
        self.kinds = introspect.Kinds(torch.tensor, torch.parameter, torch.module, torch.optimizer,
                                      getattr(numpy, "ndarray", None))
        self.walk = walk.Walk(torch, self.kinds, lambda: False, _NoMarks)
        self.until = monotonic() + LONGEST
        self.complete = True
        for module in list(sys.modules.values()):
            if introspect.is_module(module):     # whoever passes a module's globals about doesn't hold them
                self.walk.done.add(id(introspect.module_dict(module)))
        self.stages = {}          # label of a root -> its stage

    def stage(self, name, roots):
        """roots: (label, value) of one stage, which is walked to its end."""
        if self.torch.found:
            with self.torch.quiet():
                self._stage(name, roots)
        else:
            self._stage(name, roots)

    def _stage(self, name, roots):
        w = self.walk
        for label, value in roots:
            if self._over():
                break
            self.stages.setdefault(label, name)
            size = self.kinds.sized.get(id(type(value))) if self.kinds.kind(type(value)) == introspect.ATOM else None
            if size is None:
                w.start(value, label)
            elif id(value) not in w.done:
                w.done.add(id(value))
                place = w.places.at(0, label)
                w.held[place] = w.held.get(place, 0) + size(value)
        value = None
        while (w.queue or w.late) and not self._over():
            if not w.next():
                break
        w.drop()

    def _over(self):
        if self.walk.visited >= walk.MAX_VISITED or monotonic() > self.until:
            self.complete = False
        return not self.complete

    def reached(self, o):
        """Whether a stage has come by an object."""
        return id(o) in self.walk.done or id(o) in self.walk.queued

    def sums(self):
        """What was found, as numbers."""
        return Sums(self)


class Sums:
    """Bytes by memory ("host", "cuda:0") of roots and of the places below them."""

    def __init__(self, walker):
        w = walker.walk
        places, parent = w.places, w.places.parent
        total = {place: {HOST: size} for place, size in w.held.items() if size}
        groups = w.groups
        for i, place in enumerate(groups.place):
            device = groups.device[i]
            if device != "meta" and groups.bytes[i]:
                memory = HOST if device.startswith("cpu") else device
                entry = total.setdefault(place, {})
                entry[memory] = entry.get(memory, 0) + groups.bytes[i]
        graphs = dict(w.graph_count)
        for place in range(len(parent) - 1, 0, -1):       # children have higher numbers
            above = parent[place]
            if above:
                for memory, size in total.get(place, {}).items():
                    entry = total.setdefault(above, {})
                    entry[memory] = entry.get(memory, 0) + size
                graphs[above] = graphs.get(above, 0) + graphs.get(place, 0)
        self.complete, self.stages = walker.complete, walker.stages
        self.roots, self.places, self.about, self.graphs = {}, {}, {}, {}
        large = []
        for place in range(1, len(parent)):
            label, sizes = places.label[place], total.get(place, {})
            if not parent[place]:
                self.roots[label] = sizes
                self.graphs[label] = graphs.get(place, 0)
            if max(sizes.values(), default=0) >= TOLD:
                large.append((sum(sizes.values()), place))
        for _, place in sorted(large, reverse=True)[:MAX_PLACES]:
            labels = places.labels(place)
            path = places.path(place)
            self.places[path] = labels, total[place]
            if place in w.length:
                whole = w.inner.get(place) == IN_ONE_PIECE
                self.about[path] = w.container_type[place] + ("" if whole else ", %d items" % w.length[place])


def users_names(shell):
    """(name, value) of what the user has given a name, in the order of the namespace."""
    space = shell.user_ns
    hidden = getattr(shell, "user_ns_hidden", {})
    for key in list(space):
        if type(key) is not str or key[:2] == "__" or interactive.is_shells(key, space):
            continue
        value = space[key]
        if key in hidden and hidden[key] is value:
            continue
        yield key, value


def users_modules():
    """(module.name, value) of the globals of modules that are the user's own files."""
    for name, own in introspect.modules(list(sys.modules)):
        module = sys.modules.get(name)
        if own and module is not None and name not in (libraries.MAIN, "__mp_main__"):
            for key, value in list(introspect.module_dict(module).items()):
                if type(key) is str and key[:2] != "__":
                    yield "%s.%s" % (name, key), value


def results(shell):
    """(label, value) of the results of cells."""
    space = shell.user_ns
    for number, value in list((interactive.results(space) or {}).items()):
        yield "%s[%s]" % (interactive.RESULTS, number), value
    for label, value in interactive.last_results(space):
        yield label, value


def look(shell, beside=None):
    """A walk over all that is told of: (its Walker, its Sums). The Walker must not outlive the caller. beside(walker)
    gives roots of one more stage, when what the user names has been walked."""
    walker = Walker()
    walker.walk.done.add(id(shell))      # the frames of a failed cell lead to it
    walker.stage("yours", users_names(shell))
    walker.stage("yours", users_modules())
    if beside is not None:
        walker.stage("workers", beside(walker))
    walker.stage("results", results(shell))
    walker.stage("errors", interactive.errors())
    figures = interactive.figures()
    walker.stage("figures", [(FIGURES, figures)] if figures else [])
    walker.stage("widgets", widgets())
    return walker, walker.sums()


def widgets():
    """(label, value) of the table in which ipywidgets keeps every widget until it is closed."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    if module is None:
        return
    table = introspect.module_dict(module).get("_instances")      # ipywidgets 8
    if table is None:
        cls = introspect.module_dict(module).get("Widget")
        table = introspect.namespace(cls).get("widgets") if introspect.isinstance_of(cls, type) else None
    if type(table) is dict and table:
        yield WIDGETS, table


class Nothing:
    """Sums of a moment when nothing was held."""

    roots, places, about, graphs = {}, {}, {}, {}


def grown(before, now):
    """[(path, labels, {memory: bytes}, about)] of what has grown by TOLD or more since `before`, each thing once: of a
    path and what lies above it, the innermost that makes up most of the growth. The largest comes first."""
    differences = {}
    for path, (labels, sizes) in now.places.items():
        old = before.places.get(path, (None, {}))[1]
        more = {memory: sizes[memory] - old.get(memory, 0) for memory in sizes
                if abs(sizes[memory] - old.get(memory, 0)) >= TOLD}
        if more:
            differences[path] = labels, more
    roots = [(path, labels, more) for path, (labels, more) in differences.items() if len(labels) == 1]
    out = []
    for root, labels, more in roots:
        path = root
        inner = sorted(((p, d) for p, d in differences.items() if d[0][0] == labels[0] and len(d[0]) > 1),
                       key=lambda entry: len(entry[1][0])) if root not in TABLES else ()
        for candidate, (below, part) in inner:
            if sum(part.values()) >= 0.8 * sum(more.values()) > 0 and candidate.startswith(path):
                path, labels = candidate, below
        while labels[-1:] == ["[*]"] and len(labels) > 1:    # the container is what is held by name
            labels = labels[:-1]
            path = path[:-3] if path.endswith("[*]") else path
        out.append((path, labels, more, now.about.get(path) or now.about.get(root, "")))
    return sorted(out, key=lambda row: -sum(row[2].values()))
