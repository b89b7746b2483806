"""How a walk enters objects of libraries whose contents the collector doesn't know: arrays, caches, bound functions,
chains."""
import functools

from . import introspect
from .introspect import ARRAY, ATOM, CLASS, FUNCTION, MODULE, TENSOR, referents

MAX_VIEWS = 16         # bases of bases
MAX_ITEMS = 1_024      # of an array of objects
MAX_LINKS = 5_000      # of a chain that can't be divided, about 3 ms: nothing of the program's is held between slices

_information = functools._lru_cache_wrapper.__dict__["cache_info"]
_bound_to = {id(cls): cls.__dict__["__self__"].__get__ for cls in (type(len), type(len.__call__))}


class LibraryObjects:
    """A part of Entering."""

    # ------------------------------------------------------------ arrays

    def array(self, o, cls, place, weight, depth):
        """Counts what an array keeps alive; for a view that is its whole base, once."""
        kinds, done = self.kinds, self.done
        done.add(id(o))
        owner = o
        for _ in range(MAX_VIEWS):
            base = kinds.base(owner)
            if base is None or kinds.kind(type(base)) != ARRAY:
                break
            owner = base
        base = kinds.base(owner)
        size = kinds.nbytes(owner)
        if base is not None:
            kind = kinds.kind(type(base))
            if kind == TENSOR:
                self.visit(base, place, weight, depth + 1)
                return
            known = kinds.sized.get(id(type(base)))
            if known is not None:
                size = known(base)
            owner = base
        if owner is not o:
            if id(owner) in done:
                return
            done.add(id(owner))
        self.held[place] = self.held.get(place, 0) + size * weight
        if base is None:
            self.bulk(cls, size, place, weight)
        if type(o) is kinds.array and kinds.dtype(o).hasobject:
            self._objects_in(o, place, weight, depth)

    def _objects_in(self, o, place, weight, depth):
        """Of an array of objects, which the collector doesn't know."""
        array = self.kinds.array
        flat = array.reshape(o, -1) if array.__dict__["ndim"].__get__(o) != 1 else o
        n = array.__len__(flat)
        items = array.tolist(array.__getitem__(flat, slice(max(0, n - MAX_ITEMS), None)))
        self.held[place] += self._items(items, self.places.at(place, "[*]"), weight * max(1, n / MAX_ITEMS), depth + 1)

    # ------------------------------------------------------------ functions of C

    def builtin(self, o, cls, place, weight, depth):
        """A function of C that is bound to an object: `add = kept.append`."""
        held = _bound_to[id(cls)](o)
        kind = self.kinds.kind(type(held))
        size = self.kinds.sized.get(id(type(held)))
        if kind == ATOM and size is not None and id(held) not in self.done:
            self.done.add(id(held))
            self.held[place] = self.held.get(place, 0) + size(held) * weight
        if kind not in (ATOM, MODULE) and not introspect.isinstance_of(held, type):
            self.visit(held, self.places.at(place, ".__self__"), weight, depth + 1)

    def cache(self, o, cls, place, weight, depth):
        """functools.lru_cache: what the function is bound to, and a dict with the results, whose links the collector
        sees where the cache has a bound."""
        refs = referents(o)
        attributes = introspect.attributes(o, cls)
        stored = next((v for v in refs if type(v) is dict and v is not attributes), {})
        n = len(stored)
        if attributes:
            self._dict(attributes, dict, place, weight, depth, True)
        items = list(stored.values())
        if n and introspect.short_name(type(items[0])) == "_lru_list_elem":
            items = [v for v in refs if v is not stored and v is not attributes
                     and self.kinds.kind(type(v)) not in (CLASS, FUNCTION)]
        scale = max(1, len(items) / MAX_ITEMS)
        held = self._items(items[-MAX_ITEMS:], self.places.at(place, "[*]"), weight * scale, depth + 1)
        keys = list(stored)[-MAX_ITEMS:]     # the arguments: of a method, the object
        of_keys = max(1, n / MAX_ITEMS)
        held += self._items(keys, self.places.at(place, ".key"), weight * of_keys, depth + 1) * of_keys / scale
        self._container(o, cls, n, dict.__sizeof__(stored) + held * scale, place, weight, items[-1:])
        bound = _information(o).maxsize
        if n and bound is not None:
            self.bound[place] = self.bound.get(place, 0) + bound * weight

    # ------------------------------------------------------------ chains

    def link(self, place, cls, weight):
        self.links[place] = self.links.get(place, 0) + weight
        if place not in self.container_type:
            self.container_type[place] = introspect.type_name(cls)

    def follow(self, o, place, weight):
        """A chain of objects that can't wait as weak references: (value, (value, …)), instances with slots alone. What
        comes after so many links is left out."""
        of, sized = self.kinds.of, self.kinds.sized
        ticks, self.count = self.count, -1 << 40     # nothing pauses in here
        links = held = 0
        try:
            while o is not None and links < MAX_LINKS and id(o) not in self.done:
                cls, ahead = type(o), None
                self.done.add(id(o))
                links += 1
                held += object.__sizeof__(o)
                for v in referents(o):
                    kind = of.get(id(type(v)))
                    if type(v) is cls:
                        ahead = v
                    elif kind == ATOM:
                        size = sized.get(id(type(v)))
                        held += size(v) if size is not None else 0
                    elif kind == TENSOR and id(v) not in self.done:
                        self.done.add(id(v))
                        self.tensor(v, type(v), place, weight)
                    elif kind == ARRAY and id(v) not in self.done:
                        self.array(v, type(v), place, weight, 0)
                o = ahead
            self.left_out += links == MAX_LINKS
            self.links[place] = self.links.get(place, 0) + links * weight
            self.held[place] = self.held.get(place, 0) + held * weight
            if links and place not in self.container_type:
                self.container_type[place] = introspect.type_name(cls)
        finally:
            self.count = ticks
