"""Walks forward from the program's roots to everything that it holds, in slices, and keeps nothing alive.

Roots are the locals of running functions, the globals of modules, and what hangs in Python's own tables. What hangs at
the same *place* is counted together; a place is a node of a tree whose edges are labels (an attribute's name, `[*]` for
a container's items), so a holder's path is there from the beginning.

What waits to be looked at waits as a weak reference. Containers of Python's own can't be referred to weakly, so they are
looked at together with what they hang at. When the time of a slice is up in the middle of that, everything is let go of
(_Pause unwinds the stack) and the next slice begins with the same object again; containers that were finished are known
by their ids and passed by. Between two slices nothing of the program's is held, only numbers and weak references.

All of our own books are dicts from int to int: they add no objects to the program's garbage collector.
"""
import gc
import sys
from _weakref import ref as weak
from collections import deque

from . import introspect
from .introspect import (ATOM, CELL, CLASS, DEQUE, DICT, ERROR, FRAME, FUNCTION, INSTANCE, LIST, METHOD, MODULE, SET, TENSOR,
                   TRACEBACK, TUPLE, referents)

MAX_DEPTH = 24         # of containers in containers; deeper ones are left out
MAX_PLACES = 60_000    # a place takes some 200 bytes
MAX_VISITED = 300_000  # their ids take some 25 MB
KEYED = 32             # a dict up to so many items has places of its own for keys that are short texts
MAX_KEY = 40           # characters
CHECK = 16             # objects between two looks at the clock, which takes 0.3 µs, an object 2 µs
MAX_GRAPHS = 512       # tensors with a graph that are remembered to be looked at
MAX_SAMPLED, SAMPLES = 64, 16   # classes and instances of each
MAX_FRAMES = 1000      # of a thread; Python's own limit for recursion
SMALL = 8              # items; smaller containers are not worth a row


_maxlen = deque.maxlen.__get__


class _Pause(Exception):
    """The slice's time is up. A new one each time: its traceback holds frames."""


class Places:
    """The tree of places. 0 is nothing."""

    def __init__(self):
        self.parent, self.label, self.role, self.anchor = [0], [""], [0], [0]
        self._labels, self._known = {}, {}

    def at(self, parent, label, role=None):
        number = self._labels.get(label)
        if number is None:
            number = self._labels[label] = len(self._labels) + 1
        key = parent << 24 | number
        place = self._known.get(key)
        if place is None:
            if len(self.parent) >= MAX_PLACES or number >= 1 << 24:
                return parent
            place = self._known[key] = len(self.parent)
            self.parent.append(parent)
            self.label.append(label)
            self.role.append(self.role[parent] if role is None else role)
            self.anchor.append(self.anchor[parent])
        return place

    def path(self, place):
        labels = self.labels(place)
        return tidy("".join(labels)) if labels else ""

    def root(self, place):
        while self.parent[place]:
            place = self.parent[place]
        return self.label[place]

    def labels(self, place):
        out = []
        while place and len(out) < 60:
            out.append(self.label[place])
            place = self.parent[place]
        return out[::-1]


def tidy(path):
    """nn.Module keeps its parts in dicts of its own; people write them as attributes."""
    for table in ("._modules", "._parameters", "._buffers"):
        while True:
            begin = path.find(table + "['")
            end = path.find("']", begin)
            if begin < 0 or end < 0:
                break
            path = path[:begin] + "." + path[begin + len(table) + 2:end] + path[end + 2:]
    return path


TENSOR_ROLE, PARAMETER, BUFFER, GRADIENT, OPTIMIZER = range(5)
ROLES = ("tensor", "parameter", "buffer", "gradient", "optimizer")


class Groups:
    """Tensors of the same place, role, type and device."""

    def __init__(self):
        self.index = {}
        self.place, self.role, self.dtype, self.device = [], [], [], []
        self.count, self.bytes, self.fresh, self.oldest, self.estimated = [], [], [], [], []
        self.shapes = []

    def add(self, place, role, shape, dtype, device, size, weight, fresh, first):
        key = hash((place, role, dtype, device))
        i = self.index.get(key)
        if i is None:
            i = self.index[key] = len(self.place)
            for column, value in ((self.place, place), (self.role, role), (self.dtype, dtype), (self.device, device),
                                  (self.count, 0), (self.bytes, 0), (self.fresh, 0), (self.oldest, 0),
                                  (self.estimated, False), (self.shapes, {})):
                column.append(value)
        self.count[i] += weight
        self.bytes[i] += size * weight
        self.fresh[i] += weight * fresh
        if first and (not self.oldest[i] or first < self.oldest[i]):
            self.oldest[i] = first
        self.estimated[i] = self.estimated[i] or weight != 1
        shapes = self.shapes[i]
        if shape in shapes or len(shapes) < 8:
            shapes[shape] = shapes.get(shape, 0) + weight


class Walk:
    """clock() is true when the slice's time is up; marks remembers tensors from one census to the next."""

    def __init__(self, torch, kinds, clock, marks):
        self.torch, self.kinds, self.clock, self.marks = torch, kinds, clock, marks
        self.places, self.groups = Places(), Groups()
        self.done = introspect.Seen()      # ids of what was looked at
        self.queued = introspect.Seen()
        self.queue = deque()         # weak reference, place, weight, one after the other
        self.late = deque()          # optimizers: what they share with a model is the model's
        self.storages = set()
        self.types, self.type_of = {}, {}      # id of a class -> count; -> name
        self.held = {}               # place -> bytes of what isn't tensors
        self.length, self.containers, self.container_type, self.inner = {}, {}, {}, {}
        self.bound = {}              # place -> items that its deques hold at most
        self.names = {}              # (place, position among referents) -> label
        self.errors = {}             # place -> [exceptions, frames]
        self.error_type = {}
        self.graphs = deque()        # weak reference to a tensor, place
        self.graph_count = {}        # place -> tensors with a graph
        self.samples = {}            # id of a class of the program's -> weak references to some instances
        self.visited = self.tensors = 0
        self.frames = []             # whose f_locals were read in this slice
        self.left_out = 0            # what was too deep, or vanished
        self.count = 0
        self._here = set()

    # ------------------------------------------------------------ units of work: each may be begun again

    def start(self, value, label):
        """A root."""
        self.visit(value, self.places.at(0, label), 1, 0)

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

    def skip(self):
        """Gives up on the object at the head of the queue."""
        for _ in range(min(3, len(self.queue))):
            self.queue.popleft()
        self.left_out += 1

    # ------------------------------------------------------------ one object

    def tick(self):
        self.count += 1
        if self.count >= CHECK:
            self.count = 0
            if self.clock():
                raise _Pause

    def visit(self, o, place, weight, depth):
        """Looks at an object now, or puts it into the queue."""
        cls = type(o)
        kind = self.kinds.of.get(id(cls))
        if kind is None:
            kind = self.kinds.kind(cls)
        if kind == ATOM:
            return
        key = id(o)
        if key in self.done[key >> 6 & 63]:
            return
        self.tick()
        if kind == TENSOR:
            self.done.add(key)
            self.tensor(o, cls, place, weight)
            return
        if kind == MODULE or kind == CLASS and not self.kinds.own(o):
            return
        if kind == DICT or kind == LIST or kind == TUPLE:
            self._inline(o, place, weight, depth)
            return
        if key in self.queued[key >> 6 & 63]:
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
            self.left_out += 1
            return
        if id(o) in self._here:      # it contains itself
            return
        self._here.add(id(o))
        try:
            self.expand(o, place, weight, depth)
        finally:
            self._here.discard(id(o))

    def expand(self, o, place, weight, depth=0):
        """Everything that an object leads to, then the books about itself: they must be made once."""
        cls = type(o)
        kind = self.kinds.kind(cls)
        try:
            _EXPAND[kind](self, o, cls, place, weight, depth)
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
            self.left_out += 1       # it was changed by another thread at this moment
        key, name = id(o), id(cls)
        self.done[key >> 6 & 63].add(key)
        self.visited += weight
        self.types[name] = self.types.get(name, 0) + weight
        if name not in self.type_of:
            self.type_of[name] = introspect.type_name(cls)

    # ------------------------------------------------------------ containers

    def _items(self, items, place, weight, depth):
        """Items that share a place. Returns the bytes of those that lead nowhere."""
        of, sized, done, held = self.kinds.of, self.kinds.sized, self.done, 0
        for v in items:
            cls = id(type(v))
            kind = of.get(cls)
            if kind == ATOM:
                size = sized.get(cls)
                if size is not None:
                    held += size(v)
                self.count += 1
            elif id(v) not in done[id(v) >> 6 & 63]:
                self.visit(v, place, weight, depth)
            if self.count >= CHECK:
                self.tick()
        return held

    def _container(self, o, cls, n, own, place, weight, items):
        """The books about a container. The last thing that is done about it: what comes before may have to begin again."""
        self.held[place] = self.held.get(place, 0) + own * weight
        if n < SMALL and not self.places.label[place].endswith("_hooks"):
            return
        self.length[place] = self.length.get(place, 0) + n * weight
        self.containers[place] = self.containers.get(place, 0) + weight
        self.container_type[place] = introspect.type_name(cls)
        if items:
            self.inner[place] = introspect.type_name(type(items[-1]))

    def _list(self, o, cls, place, weight, depth):
        self._attributes_of(o, cls, list, place, weight, depth)
        n = list.__len__(o)
        if n:
            items, scale = introspect.items_of_list(o, list, n)
            held = self._items(items, self.places.at(place, "[*]"), weight * scale, depth + 1)
            self._container(o, cls, n, list.__sizeof__(o) + held * scale, place, weight, items)

    def _tuple(self, o, cls, place, weight, depth):
        self._attributes_of(o, cls, tuple, place, weight, depth)
        n = tuple.__len__(o)
        if n:
            items, scale = introspect.items_of_list(o, tuple, n)
            held = self._items(items, self.places.at(place, "[*]"), weight * scale, depth + 1)
            self._container(o, cls, n if n > 64 else 0, tuple.__sizeof__(o) + held * scale, place, weight, items)

    def _set(self, o, cls, place, weight, depth):
        base = frozenset if any(b is frozenset for b in introspect.mro(cls)) else set
        self._attributes_of(o, cls, base, place, weight, depth)
        n = base.__len__(o)
        if n:
            items, scale = introspect.items_of_set(o, base, n)
            held = self._items(items, self.places.at(place, "[*]"), weight * scale, depth + 1)
            self._container(o, cls, n, base.__sizeof__(o) + held * scale, place, weight, items)

    def _deque(self, o, cls, place, weight, depth):
        self._attributes_of(o, cls, deque, place, weight, depth)
        n = deque.__len__(o)
        if n:
            items, scale = introspect.items_of_deque(o, n)
            held = self._items(items, self.places.at(place, "[*]"), weight * scale, depth + 1)
            self._container(o, cls, n, deque.__sizeof__(o) + held * scale, place, weight, items)
            bound = _maxlen(o)
            if bound is not None:
                self.bound[place] = self.bound.get(place, 0) + bound * weight

    def _dict(self, o, cls, place, weight, depth, attributes=False):
        n = dict.__len__(o)
        if not n:
            return
        keys, values, scale = introspect.items_of_dict(o, n)
        if attributes or n <= KEYED:
            held = self._keyed(keys, values, place, weight, depth, attributes)
        else:
            held = self._items(values, self.places.at(place, "[*]"), weight * scale, depth + 1)
            held += self._items(keys, self.places.at(place, ".key"), weight * scale, depth + 1)
        own = dict.__sizeof__(o) + held * scale
        if attributes:
            self.held[place] = self.held.get(place, 0) + own * weight
        else:
            if cls is not dict:
                self._attributes_of(o, cls, dict, place, weight, depth)
            self._container(o, cls, n, own, place, weight, values)

    def _keyed(self, keys, values, place, weight, depth, attributes):
        """A dict with a place for each key. Attributes that are hooks of nn.Module keep their name."""
        of, held, at = self.kinds.of, 0, self.places.at
        sized = self.kinds.sized
        for key, v in zip(keys, values):
            cls = id(type(v))
            if of.get(cls) == ATOM:
                size = sized.get(cls)
                held += size(v) if size is not None else 0
                continue
            if id(v) in self.done[id(v) >> 6 & 63]:
                continue
            if type(key) is str and len(key) <= MAX_KEY and key.isprintable():
                if attributes:
                    child = at(place, "." + key, BUFFER if key == "_buffers" else None)
                else:
                    child = at(place, "['%s']" % key)
            else:
                child = at(place, "[*]")
            self.visit(v, child, weight, depth + 1)
        if not attributes:
            for key in keys:
                if self.kinds.kind(type(key)) != ATOM:
                    self.visit(key, at(place, ".key"), weight, depth + 1)
        return held

    def _attributes_of(self, o, cls, base, place, weight, depth):
        """Of an instance of a class that was derived from a built-in container."""
        if cls is not base:
            values = introspect.attributes(o, cls)
            if values and values is not o and id(values) not in self.done:
                self._dict(values, dict, place, weight, depth, True)
                self.done.add(id(values))

    # ------------------------------------------------------------ instances and the like

    def _instance(self, o, cls, place, weight, depth):
        flag = self.kinds.flags.get(id(cls))
        if flag == "optimizer":
            self.places.role[place] = OPTIMIZER
        if flag and not self.places.anchor[place]:
            self.places.anchor[place] = place
        if not flag and self.kinds.own(cls):
            self._sample(o, cls)
        of, done, held = self.kinds.of, self.done, 0
        for position, v in enumerate(referents(o)):
            kind = of.get(id(type(v)))
            if kind is None:
                kind = self.kinds.kind(type(v))
            if kind == ATOM:
                size = self.kinds.sized.get(id(type(v)))
                if size is not None and type(v) is not int:
                    held += size(v)
                continue
            if id(v) in done[id(v) >> 6 & 63] or kind == MODULE or kind == CLASS:
                continue
            if kind == DICT and v is introspect.attributes(o, cls):
                self._dict(v, dict, place, weight, depth, True)
                self.done.add(id(v))
                continue
            self.visit(v, self._edge(o, cls, v, place, position), weight, depth + 1)
        if held:
            self.held[place] = self.held.get(place, 0) + held * weight

    def _sample(self, o, cls):
        """Some instances are remembered: one that later is alive and reached no more is garbage, or held by nobody in Python."""
        samples = self.samples.get(id(cls))
        if samples is None and len(self.samples) < MAX_SAMPLED:
            samples = self.samples[id(cls)] = []
        if samples is not None and len(samples) < SAMPLES:
            try:
                samples.append(weak(o))
            except TypeError:
                pass

    def _edge(self, o, cls, child, place, position):
        """The place of what an instance leads to. Its name is looked for once for a place: since 3.11 instances keep their
        values without a dict, in the order of the class's first instance."""
        key = (place << 40) ^ (id(cls) << 8) ^ position
        label = self.names.get(key)
        if label is None:
            label = self.names[key] = self._name(o, cls, child)
        return self.places.at(place, label) if label else place

    @staticmethod
    def _name(o, cls, child):
        values = introspect.attributes(o, cls)
        if values:
            for name, v in list(values.items()):
                if v is child:
                    return "." + name if type(name) is str else ".?"
        for name, v in introspect.slots(o, cls):
            if v is child:
                return "." + name
        return ""

    def _function(self, o, cls, place, weight, depth):
        cells = o.__closure__
        if cells:
            for name, cell in zip(o.__code__.co_freevars, cells):
                self._cell_of(cell, self.places.at(place, ".<closure>." + name), weight, depth)
        own = id(o.__globals__), id(getattr(o, "__builtins__", None))
        for v in referents(o):       # its attributes, its annotations (asking for those would compute them: PEP 649)
            if type(v) is dict and id(v) not in own:
                self._dict(v, dict, place, weight, depth, True)
        defaults = o.__defaults__ or ()
        names = o.__code__.co_varnames[:o.__code__.co_argcount]
        for name, v in zip(names[len(names) - len(defaults):], defaults):
            self.visit(v, self.places.at(place, ".<default>." + name), weight, depth + 1)

    def _cell_of(self, cell, place, weight, depth):
        try:
            v = cell.cell_contents
        except ValueError:
            return
        self.visit(v, place, weight, depth + 1)

    def _cell(self, o, cls, place, weight, depth):
        self._cell_of(o, place, weight, depth)

    def _method(self, o, cls, place, weight, depth):
        self.visit(o.__self__, self.places.at(place, ".__self__"), weight, depth + 1)
        self.visit(o.__func__, place, weight, depth + 1)

    def _class(self, o, cls, place, weight, depth):
        values = introspect.namespace(o)
        for name, v in list(values.items()):
            kind = self.kinds.kind(type(v))
            if kind == ATOM or type(name) is not str or name.startswith("__"):
                continue
            self.visit(v, self.places.at(place, "." + name), weight, depth + 1)

    def _error(self, o, cls, place, weight, depth):
        """An exception: its traceback holds every frame that it came through, and those all their locals."""
        traceback = BaseException.__traceback__.__get__(o)
        frames = 0
        while traceback is not None and frames < 200:
            self._frame(traceback.tb_frame, None, self.places.at(place, ".__traceback__"), weight, depth)
            frames += 1
            traceback = traceback.tb_next
        self._instance(o, cls, place, weight, depth)
        if frames:       # last: what stands here may run twice otherwise
            entry = self.errors.get(place)
            if entry is None:
                entry = self.errors[place] = [0, 0]
            entry[0] += weight
            entry[1] += frames * weight
            self.error_type[place] = introspect.type_name(cls)

    def _frame(self, o, cls, place, weight, depth):
        """A frame that runs no more. One that runs is a root of its own."""
        if id(o) in self.done:
            return
        running = sys._current_frames().values()
        for top in running:
            while top is not None:
                if top is o:
                    return
                top = top.f_back
        del running
        place = self.places.at(place, " %s()" % introspect.code_name(o.f_code))
        if o.f_code.co_flags & 1:    # else its locals are a module's globals
            values = o.f_locals
            try:
                for name in list(values):
                    self.visit(values[name], self.places.at(place, "." + name), weight, depth + 1)
            finally:
                # up to 3.12 a copy, which would stay in the frame; unless the program has it (`return locals()`)
                if type(values) is dict and sys.getrefcount(values) <= 3:
                    values.clear()

    def _traceback(self, o, cls, place, weight, depth):
        while o is not None:
            self._frame(o.tb_frame, None, place, weight, depth)
            o = o.tb_next

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
            if not torch.is_leaf(t):
                self.graph_count[place] = self.graph_count.get(place, 0) + weight
                if len(self.graphs) < 2 * MAX_GRAPHS:
                    self.graphs.extend((weak(t), place))
        elif self.places.anchor[place]:
            place = self.places.anchor[place]
        self.tensors += weight
        self.groups.add(place, role, shape, dtype, device, size, weight, fresh, first)


_EXPAND = {
    DICT: Walk._dict, LIST: Walk._list, TUPLE: Walk._tuple, SET: Walk._set, DEQUE: Walk._deque, FUNCTION: Walk._function,
    METHOD: Walk._method, CLASS: Walk._class, MODULE: lambda *_: None, FRAME: Walk._frame, TRACEBACK: Walk._traceback,
    CELL: Walk._cell, ERROR: Walk._error, INSTANCE: Walk._instance, TENSOR: lambda *_: None, ATOM: lambda *_: None,
}


# ---------------------------------------------------------------- roots

_NOT = (introspect._HERE, "<memgauge", "<frozen ")   # our own, and the machinery of imports


class Roots:
    """Finds the roots again in each slice: what is kept between slices is their names."""

    def __init__(self, mine):
        self.mine = mine             # ident of our own thread

    def frames(self):
        """[(thread, distance from the outermost frame, code's id, is the program's own)], outer frames first, the main
        thread's before others."""
        out = []
        for thread, stack in self._stacks():
            out += [(thread, i, id(frame.f_code), introspect.is_user_file(frame.f_code.co_filename))
                    for i, frame in enumerate(stack) if frame.f_code.co_flags & 1]
        return out

    def _stacks(self):
        # Never imported by us: up to 3.12 the thread that imports it first passes for the main one (threading._MainThread).
        main = getattr(getattr(sys.modules.get("threading"), "_main_thread", None), "ident", None)
        for thread, frame in sorted(sys._current_frames().items(), key=lambda entry: entry[0] != main):
            if thread != self.mine:
                yield thread, _stack(frame)

    def find(self, thread, depth, code, _):
        stack = _stack(sys._current_frames().get(thread))
        if depth < len(stack) and id(stack[depth].f_code) == code:
            return stack[depth]
        return None


def _stack(frame):
    """The frames of a thread, the outermost first."""
    stack = []
    while frame is not None and len(stack) < MAX_FRAMES:
        if not frame.f_code.co_filename.startswith(_NOT):
            stack.append(frame)
        frame = frame.f_back
    return stack[::-1]


def frame_values(frame, walk):
    """{name: value} of a running function. Up to 3.12 reading them leaves a copy in the frame, which the caller has to
    have emptied: walk.frames lists those frames."""
    values = frame.f_locals
    if type(values) is dict:
        walk.frames.append(frame)
    return values
