"""Walks from the program's roots to everything that it holds, in slices, and keeps nothing alive.

Roots are the locals of running functions, the globals of modules, and Python's own tables. Objects that are held at the
same *place* are counted together. A place is a node of a tree whose edges are labels (an attribute's name, `[*]` for a
container's items), so the path of a holder is known from the beginning.

The queue holds weak references. Python's own containers can't be referenced weakly, so they are visited together with
the object that holds them. If the slice's time is up meanwhile, all references are released (Pause unwinds the stack),
and the next slice begins with the same object again; containers that were finished are skipped by their ids. Between
two slices nothing of the program is held, only numbers and weak references.

All our own tables are dicts from int to int: they add no objects to the program's garbage collector.
"""
from _weakref import ref as weak
from collections import deque
from itertools import islice

from . import introspect, tensors
from .entering import BY_KIND, CHECK, SMALL, Entering
from .introspect import ARRAY, ATOM, CLASS, DICT, LIST, MODULE, TENSOR, TUPLE, referents
from .places import BUFFER, PARAMETER, TENSOR_ROLE, Groups, Places

MAX_DEPTH = 24         # of containers in containers; deeper ones are left out
MAX_VISITED = 300_000  # their ids take some 25 MB
MAX_GRAPHS = 512       # tensors whose graph is measured after the walk
MAX_CHAINS = 64        # places of tensors whose graph's chain is measured during the walk, …
ALIKE = 4              # … tensors of a place: a chain of nodes takes up to 0.5 ms, …
CHAINED = 20_000       # … and nodes in all, 2 ms
BESIDE = 352           # bytes that a tensor takes beside its data: internal/judge/detect, besideData


class Pause(Exception):
    """The slice's time is up. A new one each time: its traceback holds frames."""


class Walk(Entering):
    """A walk in slices. clock() is true if the slice's time is up; marks remembers tensors from one census to the
    next."""

    def __init__(self, torch, kinds, clock, marks):
        self.torch, self.kinds, self.clock, self.marks = torch, kinds, clock, marks
        self.places, self.groups = Places(), Groups()
        self.done = introspect.Seen()      # ids of visited objects
        self.queued = introspect.Seen()
        self.queue = deque()         # weak reference, place, weight, one after the other
        self.late = deque()          # optimizers: what they share with a model is the model's
        self.storages = set()
        self.types, self.type_of = {}, {}      # id of a class -> count; -> name
        self.held = {}               # place -> bytes of what isn't tensors
        self.parts = {}              # place -> bytes of tensors that are parts of a model or an optimizer
        self.unseen = {}             # place -> objects of libraries, whose bytes can't be seen
        self.cut = {}                # place -> 1 if something there was not visited
        self.unfinished = []         # places in which the last slice ended
        self.links = {}              # place -> objects of a chain
        self.chains = {}             # place -> length of the longest chain of nodes behind a scalar
        self.length, self.containers, self.container_type, self.inner = {}, {}, {}, {}
        self.about = {}              # place -> what else is to be said of the container there
        self.chained = 0             # nodes of chains that were followed
        self.bound = {}              # place -> items that its deques hold at most
        self.met = {}                # place -> items, of the containers that were met first
        self.names = {}              # (place, position among referents) -> label
        self.errors = {}             # place -> [exceptions, frames]
        self.error_type = {}
        self.graphs = deque()        # weak reference to a tensor, place
        self.graph_count = {}        # place -> tensors with a graph
        self.samples = {}            # id of a class of the program's -> weak references to some instances
        self.visited = self.tensors = 0
        self.frames = []             # whose f_locals were read in this slice
        self.left_out = 0            # objects that were too deep, or vanished
        self.count = 0
        self._here = set()

    # ------------------------------------------------------------ units of work: each may be begun again

    def start(self, value, label):
        """A root."""
        self.visit(value, self.places.at(0, label), 1, 0)

    def start_below(self, value, label, *below):
        """What hangs at a root that is not entered whole."""
        place = self.places.at(0, label)
        for edge in below:
            place = self.places.at(place, edge)
        self.visit(value, place, 1, 0)

    def next(self):
        """The next object of the queue. False when it is empty."""
        queue = self.queue
        if not queue:
            if not self.late:
                return False
            for _ in range(3):
                queue.append(self.late.popleft())
        o, place, weight = queue[0](), queue[1], queue[2]
        if o is not None and id(o) not in self.done:
            self.expand(o, place, weight)
        for _ in range(3):
            queue.popleft()
        return True

    def drop(self):
        """Drops the queue. The places of its objects are marked as incomplete."""
        for waiting in (self.queue, self.late):
            for place in islice(waiting, 1, None, 3):
                self.cut[place] = 1
            waiting.clear()

    def skip(self):
        """Drops the object at the head of the queue."""
        if len(self.queue) > 1:
            self.cut[self.queue[1]] = 1
        for _ in range(min(3, len(self.queue))):
            self.queue.popleft()
        self.left_out += 1

    def counted(self, n, label, kind):
        """Counts a container that is not entered: its bytes are unknown."""
        place = self.places.at(0, label)
        self.cut[place] = 1
        if n >= SMALL:
            self.length[place], self.containers[place], self.container_type[place] = n, 1, kind

    # ------------------------------------------------------------ one object

    def tick(self):
        self.count += 1
        if self.count >= CHECK:
            self.count = 0
            if self.clock():
                raise Pause

    def visit(self, o, place, weight, depth):
        """Visits an object now, or puts it into the queue."""
        cls = type(o)
        kind = self.kinds.of.get(id(cls))
        if kind is None:
            kind = self.kinds.kind(cls)
        if kind == ATOM:
            if id(cls) in self.kinds.opaque:
                self.unseen[place] = self.unseen.get(place, 0) + weight
            return
        key = id(o)
        if key in self.done[key >> 6 & 63] or key in self.queued[key >> 6 & 63]:
            return
        self.tick()
        if kind == TENSOR:
            self.done.add(key)
            self.tensor(o, cls, place, weight)
            return
        if kind == ARRAY:
            self.array(o, cls, place, weight, depth)
            return
        if kind == MODULE or kind == CLASS and not self.kinds.own(o):
            return
        if kind == DICT or kind == LIST or kind == TUPLE:
            self._inline(o, place, weight, depth)
            return
        try:
            waiting = weak(o)
        except TypeError:
            self._inline(o, place, weight, depth)
            return
        self.queued.add(key)
        late = self.kinds.flags.get(id(cls)) == "optimizer"
        (self.late if late else self.queue).extend((waiting, place, weight))

    def _inline(self, o, place, weight, depth):
        if depth >= MAX_DEPTH:
            self.follow(o, place, weight)
            return
        if id(o) in self._here:      # it contains itself
            return
        self._here.add(id(o))
        try:
            self.expand(o, place, weight, depth)
        except Pause:
            self.unfinished.append(place)
            raise
        finally:
            self._here.discard(id(o))

    def expand(self, o, place, weight, depth=0):
        """Visits everything that an object holds, then records the object itself, which must happen only once."""
        cls = type(o)
        kind = self.kinds.kind(cls)
        try:
            BY_KIND[kind](self, o, cls, place, weight, depth)
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
            self.left_out += 1       # it was changed by another thread at this moment
        key, name = id(o), id(cls)
        self.done[key >> 6 & 63].add(key)
        self.visited += weight
        self.types[name] = self.types.get(name, 0) + weight
        if place in self.places.folded:
            self.link(place, cls, weight)
        if name not in self.type_of:
            self.type_of[name] = introspect.type_name(cls)

    # ------------------------------------------------------------ tensors

    def tensor(self, t, cls, place, weight):
        role = PARAMETER if self.kinds.flags.get(id(cls)) == "parameter" else self.places.role[place]
        self._count_tensor(t, place, role, weight)
        if role <= PARAMETER:
            for v in referents(t):   # attributes, hooks
                if type(v) is dict or self.kinds.kind(type(v)) == DICT:
                    name = "._backward_hooks" if type(v) is not dict else ""
                    self._dict(v, type(v), self.places.at(place, name) if name else place, weight, 1, not name)

    def _count_tensor(self, t, place, role, weight):
        torch = self.torch
        key, size = torch.measure(t)
        if key in self.storages:
            size = 0
        self.storages.add(key)
        shape, dtype, device = torch.describe(t)
        fresh, first = False, 0
        if role == TENSOR_ROLE:
            fresh, first = self.marks.see(t)
            self.held[place] = self.held.get(place, 0) + BESIDE * weight
        if role in (TENSOR_ROLE, BUFFER) and not torch.is_leaf(t):     # a moving mean keeps its history in a buffer
            self._graph_of(t, place, weight)
        if role != TENSOR_ROLE and self.places.anchor[place]:
            self.parts[place] = self.parts.get(place, 0) + size * weight
            place = self.places.anchor[place]
        self.tensors += weight
        self.groups.add(place, role, shape, dtype, device, size, weight, fresh, first)

    def _graph_of(self, t, place, weight):
        """Remembers a tensor with a graph, which is measured after the walk. The chain of its nodes is measured at
        once, because `mean = 0.9 * mean + x` will have replaced the tensor by then."""
        self.graph_count[place] = self.graph_count.get(place, 0) + weight
        if len(self.graphs) < 2 * MAX_GRAPHS:
            self.graphs.extend((weak(t), place))
        if (len(self.chains) < MAX_CHAINS or place in self.chains) and self.graph_count[place] <= ALIKE \
                and self.chained < CHAINED:
            node = self.torch.grad_fn(t)
            if node is not None and self.chains.get(place, 0) < tensors.MAX_CHAIN:
                nodes = self.torch.chain(node)
                self.chained += nodes
                self.chains[place] = max(self.chains.get(place, 0), nodes)
                self.count = CHECK
