"""How a walk enters an object, by the kind of its class."""
import sys
from _weakref import ref as weak
from collections import deque
from itertools import cycle

from .. import frames
from . import introspect
from .introspect import (ARRAY, ATOM, BUILTIN, CACHE, CELL, CLASS, DEQUE, DICT, ERROR, FRAME, FUNCTION, INSTANCE, LIST,
                         METHOD, MODULE, SET, STREAM, TENSOR, TRACEBACK, TUPLE, referents)
from .libraryobjects import LibraryObjects
from .places import BUFFER, OPTIMIZER

CHECK = 16             # objects between two readings of the clock: a reading takes 0.3 µs, an object 2 µs
KEYED = 32             # a dict up to so many items has places of its own for keys that are short texts
MAX_KEY = 40           # characters
ATTRIBUTES = 64        # an object with more is used as a container
MAX_SAMPLED, SAMPLES = 64, 16   # classes and instances of each
SMALL = 8              # items; smaller containers are not worth a row
MAX_MET = 512          # places of containers that are remembered
COLLECTED = 16         # bytes of the collector's header before an object
BULK = 64 << 10        # bytes in one piece, in a stream or an array, that are worth a row
IN_ONE_PIECE = "bytes in one piece"

maxlen = deque.maxlen.__get__
# what a class keeps a function in, and how that is read
_WRAPPED = {id(cls): cls.__dict__[name].__get__ for cls, name in (
    (staticmethod, "__func__"), (classmethod, "__func__"), (property, "fget"))}


class Entering(LibraryObjects):
    """The part of a Walk that visits what an object holds, and records its counts and bytes."""

    # ------------------------------------------------------------ containers

    def _items(self, items, place, weight, depth):
        """Visits items that share a place. Returns the bytes of those without references. Items that an earlier slice
        has seen are passed over without a look at the clock: each slice comes further than the one before."""
        of, sized, done, queued, held = self.kinds.of, self.kinds.sized, self.done, self.queued, 0
        for v in items:
            cls = id(type(v))
            kind = of.get(cls)
            if kind == ATOM:
                size = sized.get(cls)
                if size is not None:
                    held += size(v)
                elif cls in self.kinds.opaque:
                    self.unseen[place] = self.unseen.get(place, 0) + weight
                self.count += 1
            elif id(v) not in done[id(v) >> 6 & 63] and id(v) not in queued[id(v) >> 6 & 63]:
                self.visit(v, place, weight, depth)
            if self.count >= CHECK:
                self.tick()
        return held

    def _container(self, o, cls, n, own, place, weight, items):
        """Records a container. This must come last, because everything before it may begin again in the next slice, and
        it must be recorded only once."""
        self.held[place] = self.held.get(place, 0) + own * weight
        if n < SMALL and not self.places.label[place].endswith("_hooks"):
            return
        self.length[place] = self.length.get(place, 0) + n * weight
        self.containers[place] = self.containers.get(place, 0) + weight
        self.container_type[place] = introspect.type_name(cls)
        if items:
            self.inner[place] = introspect.type_name(type(items[-1]))

    def bulk(self, cls, size, place, weight):
        """Records what is large without having items: a place of its own, which no list has."""
        if size >= BULK and self.places.label[place] != "[*]":
            self.length[place] = self.length.get(place, 0) + size * weight
            self.containers[place] = self.containers.get(place, 0) + weight
            self.container_type[place], self.inner[place] = introspect.type_name(cls), IN_ONE_PIECE

    def _stream(self, o, cls, place, weight, depth):
        size = self.kinds.sized[id(cls)](o)
        self.held[place] = self.held.get(place, 0) + size * weight
        self.bulk(cls, size, place, weight)

    def _met(self, place, n):
        """Remembers where a container is: one with few items may have many later, and of a large one the census may not
        come to the end."""
        if len(self.met) < MAX_MET:
            self.met[place] = n

    def _list(self, o, cls, place, weight, depth):
        self._attributes_of(o, cls, list, place, weight, depth)
        n = list.__len__(o)
        self._met(place, n)
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
        self._met(place, n)
        if n:
            items, scale = introspect.items_of_set(o, base, n)
            held = self._items(items, self.places.at(place, "[*]"), weight * scale, depth + 1)
            self._container(o, cls, n, base.__sizeof__(o) + held * scale, place, weight, items)

    def _deque(self, o, cls, place, weight, depth):
        self._attributes_of(o, cls, deque, place, weight, depth)
        n = deque.__len__(o)
        self._met(place, n)
        if n:
            items, scale = introspect.items_of_deque(o, n)
            held = self._items(items, self.places.at(place, "[*]"), weight * scale, depth + 1)
            self._container(o, cls, n, deque.__sizeof__(o) + held * scale, place, weight, items)
            bound = maxlen(o)
            if bound is not None:
                self.bound[place] = self.bound.get(place, 0) + bound * weight

    def _dict(self, o, cls, place, weight, depth, attributes=False):
        n = dict.__len__(o)
        if not attributes:
            self._met(place, n)
        if not n:
            return
        keys, values, scale = introspect.items_of_dict(o, n)
        if attributes or n <= KEYED:
            held = self._keyed(keys, values, place, weight, depth, attributes)
        else:
            held = self._items(values, self.places.at(place, "[*]"), weight * scale, depth + 1)
            held += self._items(keys, self.places.at(place, ".key"), weight * scale, depth + 1)
        own = dict.__sizeof__(o) + held * scale
        if attributes and n < ATTRIBUTES:
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
                if size is not None:
                    held += size(v)
                elif cls in self.kinds.opaque:
                    self.unseen[place] = self.unseen.get(place, 0) + weight
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
        if self.kinds.own(cls):
            if not flag:
                self._sample(o, cls)
            self.visit(cls, self.places.at(0, introspect.type_name(cls)), 1, depth)    # what all instances share
        elif id(cls) in self.kinds.opaque:
            self.unseen[place] = self.unseen.get(place, 0) + weight
        if cls is cycle:
            self.about[place] = "in itertools.cycle"
        of, done, held = self.kinds.of, self.done, 0
        for position, v in enumerate(referents(o)):
            kind = of.get(id(type(v)))
            if kind is None:
                kind = self.kinds.kind(type(v))
            if kind == ATOM:
                size = self.kinds.sized.get(id(type(v)))
                if size is not None and type(v) is not int:
                    held += size(v)
                elif id(type(v)) in self.kinds.opaque:
                    self.unseen[place] = self.unseen.get(place, 0) + weight
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
        """Remembers some instances. One that a later census doesn't reach although it is alive is garbage, or is held
        by C only."""
        samples = self.samples.get(id(cls))
        if samples is None and len(self.samples) < MAX_SAMPLED:
            samples = self.samples[id(cls)] = []
        if samples is not None and len(samples) < SAMPLES:
            try:
                samples.append(weak(o))
            except TypeError:
                pass

    def _edge(self, o, cls, child, place, position):
        """The place of a value that an instance holds. Its name is searched once for a place: since 3.11 instances keep
        their values without a dict, in the order of the class's first instance."""
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
        for name, get in introspect.PARTS_OF_ERRORS if introspect.isinstance_of(o, BaseException) else ():
            if get(o) is child:
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
        size = object.__sizeof__(o) + COLLECTED     # last: what comes before may begin again
        if cells:
            size += tuple.__sizeof__(cells) + COLLECTED + len(cells) * (object.__sizeof__(cells[0]) + COLLECTED)
        self.held[place] = self.held.get(place, 0) + size * weight

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
            unwrap = _WRAPPED.get(id(type(v)))
            if unwrap is not None:
                v = unwrap(v)
            kind = self.kinds.kind(type(v))
            if kind == ATOM or type(name) is not str or name.startswith("__") and kind not in (FUNCTION, CACHE):
                continue
            child = self.places.at(place, "." + name)
            if kind == CACHE and unwrap is None:
                self.about[child] = "of a method"
            self.visit(v, child, weight, depth + 1)

    def _error(self, o, cls, place, weight, depth):
        """An exception: its traceback holds every frame that it came through, and those all their locals."""
        traceback = BaseException.__traceback__.__get__(o)
        through = 0
        while traceback is not None and through < 200:
            self._frame(traceback.tb_frame, None, self.places.at(place, ".__traceback__"), weight, depth)
            through += 1
            traceback = traceback.tb_next
        self._instance(o, cls, place, weight, depth)
        if through:      # last: what stands here may run twice otherwise
            entry = self.errors.get(place)
            if entry is None:
                entry = self.errors[place] = [0, 0]
            entry[0] += weight
            entry[1] += through * weight
            self.error_type[place] = introspect.type_name(cls)

    def _frame(self, o, cls, place, weight, depth):
        """A frame that has ended. A running frame is a root of its own."""
        if id(o) in self.done:
            return
        if any(frame is o for top in frames.innermost().values() for frame in frames.stack(top)):
            return
        place = self.places.at(place, " %s()" % introspect.code_name(o.f_code))
        if o.f_code.co_flags & 1:    # else its locals are a module's globals
            values = frames.values(o)
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


BY_KIND = {
    DICT: Entering._dict, LIST: Entering._list, TUPLE: Entering._tuple, SET: Entering._set, DEQUE: Entering._deque,
    FUNCTION: Entering._function, METHOD: Entering._method, CLASS: Entering._class, MODULE: lambda *_: None,
    FRAME: Entering._frame, TRACEBACK: Entering._traceback, CELL: Entering._cell, ERROR: Entering._error,
    INSTANCE: Entering._instance, TENSOR: lambda *_: None, ATOM: lambda *_: None, ARRAY: Entering.array,
    BUILTIN: Entering.builtin, CACHE: Entering.cache, STREAM: Entering._stream,
}
