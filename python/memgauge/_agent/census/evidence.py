"""The rows of a census in python.tensors and python.objects: the largest and the fastest growing of each kind."""
import gc
import sys
from time import monotonic_ns

from .. import recording, state
from . import counting, cycles, executed, introspect, rows, sites, sourcelines, tensors
from .entering import IN_ONE_PIECE, SMALL
from .places import ROLES, TENSOR_ROLE
from ..record._spec import FLAG_COMPARED, FLAG_ESTIMATED, NOT_TAKEN

RESERVE = 0.25           # share of a census's time for writing rows
MAX_KNOWN = 4_096        # lengths of containers and numbers of instances remembered until the next one
MAX_GROUPS, MAX_CONTAINERS, MAX_TYPES, MAX_ERRORS, MAX_GRAPH_ROWS, MAX_NATIVE = 64, 48, 32, 16, 16, 8   # rows
LINKS = 16               # objects; shorter chains are not worth a row


def steps():
    """Steps that have ended in this process."""
    observer = state.observer
    return max(0, observer.step) if observer is not None else 0


def joined(text, more):
    return "%s; %s" % (text, more) if more else text


class Telling(sourcelines.SourceLines):
    """The part of a Census that makes rows of what the walk has found."""

    def _report(self):
        self.lines = {}            # (name, function) -> file:line
        self.step = (self.step + steps()) // 2      # of a walk that lasted many steps the middle
        self.unknown = self._within_cut() if self.compared else ()
        for part in (self._tensor_rows, self._container_rows, self._type_rows, self._graph_rows, self._error_rows,
                     self._cycle_rows, self._native_rows):
            yield from part()
        self._write()
        self.codes = None
        begin = 0
        while self.memory.marks.prune(begin, 2000):
            begin += 2000
            yield

    def _write(self):
        ring = recording.ring(large=True)
        self.memory.number = self.number
        if ring is not None:
            for put, text, fields in self.out:
                put(ring, text, fields)
                self.rows += 1
            ring.event("census", "; ".join(self.notes), self.number, self.spent // 1000, int(self.visited),
                       self.longest)
            ring.overhead(0, 0, ring.name("census"), 0, self.spent, 1,
                          self.memory.covered(ring, monotonic_ns() - self.began), NOT_TAKEN)

    def _tensor_rows(self):
        groups = self.walk.groups
        cut = self.unknown
        partly = {self.walk.places.anchor[place] for place in self.walk.cut} if self.compared else ()
        places = [i for i, place in enumerate(groups.place) if place not in cut
                  and (groups.role[i] == TENSOR_ROLE or place not in partly)]
        by_bytes = sorted(places, key=lambda i: -groups.bytes[i])[:MAX_GROUPS * 3 // 4]
        by_count = sorted(places, key=lambda i: -groups.count[i] * (groups.role[i] == TENSOR_ROLE))[:MAX_GROUPS // 4]
        for i in sorted(set(by_bytes + by_count), key=lambda i: -groups.bytes[i]):
            role = groups.role[i]
            if role == TENSOR_ROLE:
                yield from self._site(groups.place[i])
            else:
                self.found = ""
            shapes = groups.shapes[i]
            shape = max(shapes, key=shapes.get) + (" …" if len(shapes) > 1 else "")
            text = (shape, groups.dtype[i], groups.device[i], ROLES[role], self.found,
                    self.walk.places.path(groups.place[i]))
            known = self.compared and role == TENSOR_ROLE
            flags = FLAG_COMPARED * known | FLAG_ESTIMATED * groups.estimated[i]
            self.out.append((rows.put_tensors, text, (flags, self.number, self.step, rows.u32(groups.count[i]),
                                                  rows.u32(groups.oldest[i]),
                                                  rows.u32(groups.fresh[i]), int(groups.bytes[i]))))

    def _within_cut(self):
        """Places of which, or of what they hang at, something was not looked at: their numbers are unknown, not small,
        and a later census would take them for growth."""
        parent, within = self.walk.places.parent, set(self.walk.cut)
        for place in range(1, len(parent)):      # children have higher numbers
            if parent[place] in within:
                within.add(place)
        return within

    def _object(self, evidence, kind, count, before, number, length=None, size=None, holder="", site="", detail="",
                estimated=False):
        """A row; `number` is what is compared with what it was `before` (None: not known)."""
        compared = self.compared and before is not None
        delta = max(-2**31, min(2**31 - 1, int(round(number - before)))) if compared else 0
        flags = FLAG_COMPARED * compared | FLAG_ESTIMATED * estimated
        fields = (flags, self.number, self.step, rows.u32(count), delta,
                  NOT_TAKEN if length is None else int(round(length)),
                  NOT_TAKEN if size is None else int(size))
        self.out.append((rows.put_objects, (evidence, kind, holder, site, detail), fields))

    def _roots(self):
        """Hashes of the roots under which something was found."""
        places = self.walk.places
        return {hash(places.label[place]) for place in range(1, len(places.parent)) if not places.parent[place]}

    def _bytes_below(self):
        """Bytes at each place and below it."""
        total = dict(self.walk.held)
        for place, size in self.walk.parts.items():
            total[place] = total.get(place, 0) + size
        groups = self.walk.groups
        for i, place in enumerate(groups.place):
            if groups.role[i] == TENSOR_ROLE:
                total[place] = total.get(place, 0) + groups.bytes[i]
        return self._summed(total)

    def _summed(self, total):
        """The sums over each place and the places below it."""
        places = self.walk.places
        for place in range(len(places.parent) - 1, 0, -1):   # children have higher numbers
            size = total.get(place)
            if size:
                total[places.parent[place]] = total.get(places.parent[place], 0) + size
        return total

    def _container_rows(self):
        total, unseen = self._bytes_below(), self._summed(dict(self.walk.unseen))
        cut = self._summed(dict(self.walk.cut))
        if self.over():
            yield
        now, w, before = {}, self.walk, self.memory.lengths
        for place, links in w.links.items():
            if links >= LINKS:
                w.length[place], w.containers[place] = links, w.containers.get(place, 1)
        ranked = []
        for place, length in w.length.items():
            path = w.places.path(place)
            key = hash(path)
            if len(now) < MAX_KNOWN:
                now[key] = now.get(key, 0) + length
            was = before.get(key)
            if was is None and hash(w.places.root(place)) in self.memory.roots:
                was = 0      # its root was looked at: it was not there, or too small to be told
            ranked.append((length - was if was is not None else 0, total.get(place, 0), place, path, was))
            if not len(ranked) & 63 and self.over():
                yield
        self.memory.lengths, self.memory.roots = now, self._roots()
        grown = sorted(ranked, key=lambda r: -r[0])[:MAX_CONTAINERS // 2]
        big = sorted(ranked, key=lambda r: -r[1])[:MAX_CONTAINERS // 4]
        long = sorted(ranked, key=lambda r: -w.length[r[2]])[:MAX_CONTAINERS // 4]
        told = []
        for delta, size, place, path, was in sorted(set(grown + big + long), key=lambda r: (-r[0], -r[1])):
            yield from self._site(place)
            items = w.length[place] if w.inner.get(place) != IN_ONE_PIECE else SMALL
            told.append((items, place, path, self.found))
            hooks = path.endswith("_hooks") and path.rpartition(".")[2] in sites.HOOKS
            count = w.containers[place]
            self._object("hooks" if hooks else "container", w.container_type[place], count, was, w.length[place],
                         w.length[place],
                         None if place in cut else size, path, self.found,
                         joined(self._about(place, unseen.get(place, 0)), self.among), count != int(count))
        self.memory.followed = counting.choose(w, told)
        state.followed = True

    def _about(self, place, unseen):
        bound = self.walk.bound.get(place)
        text = "a chain" if place in self.walk.links else "of " + self.walk.inner.get(place, "?")
        if unseen:
            text += "; the bytes of %d objects of libraries can't be seen" % unseen
        if place in self.walk.about:
            text += "; " + self.walk.about[place]
        return text + ("; %d at most" % bound if bound is not None else "")

    def _type_rows(self):
        now, w, before = {}, self.walk, self.memory.types
        for key, count in w.types.items():
            name = w.type_of[key]
            now[name] = now.get(name, 0) + count
        self.memory.types = {hash(name): count for name, count in now.items()}
        ranked = [(count - before.get(hash(name), 0) if self.compared else 0, count, name)
                  for name, count in now.items() if count >= 16]
        top = sorted(ranked, reverse=True)[:MAX_TYPES // 2] + sorted(ranked, key=lambda r: -r[1])[:MAX_TYPES // 2]
        for delta, count, name in sorted(set(top), reverse=True):
            self._object("type", name, count, before.get(hash(name), 0), count, estimated=count != int(count))
        yield

    def _graph_rows(self):
        before, now, w = self.memory.graphs, {}, self.walk
        ranked = []
        for place, (nodes, chain) in self.graph_rows.items():
            if place in self.unknown:
                continue
            count = w.graph_count.get(place, 1)
            ranked.append((count * chain, place, nodes, chain, count))
        for place, count in w.graph_count.items():   # no time was left to measure them
            if place not in self.graph_rows and place not in self.unknown and count > 1:
                ranked.append((count, place, 0, 0, count))
        for length, place, nodes, chain, count in sorted(ranked, reverse=True)[:MAX_GRAPH_ROWS]:
            path = w.places.path(place)
            now[hash(path)] = length
            yield from self._site(place)
            most = nodes >= tensors.MAX_NODES
            detail = "the longest chain %s%d" % ("more than " if chain >= tensors.MAX_CHAIN else "", chain)
            if not chain:
                detail = "not measured, a node or more each"
            if nodes:
                detail = "%s%d nodes behind one of them, %s" % ("more than " if most else "", nodes, detail)
            was = before.get(hash(path), 0 if "[*]" in path else None)   # a variable's graph comes and goes
            self._object("graph", "torch.Tensor", count, was, length, length, None, path, self.found,
                         joined(detail, self.among), most)
        self.memory.graphs = now

    def _error_rows(self):
        w = self.walk
        total = self._bytes_below() if w.errors else {}
        for place, (count, through) in sorted(w.errors.items(), key=lambda e: -e[1][1])[:MAX_ERRORS]:
            yield from self._site(place)
            path = w.places.path(place)
            key = hash("traceback " + path)
            was, self.memory.others[key] = self.memory.others.get(key, 0), through
            self._object("traceback", w.error_type[place], count, was, through, through, total.get(place), path,
                         self.found, self.among)

    def _cycle_rows(self):
        young = cycles.sizes()[0]
        waiting = "%d young objects wait for the collector, which is %s" % (young, "on" if gc.isenabled() else "off")
        for s in self.suspects:
            kind = "cycle" if s.garbage else "extension"
            if not s.tried or kind == "extension" and not s.lost and not self.deep:
                continue
            count = s.estimate
            key = hash("%s %s" % (kind, s.name))
            was, self.memory.others[key] = self.memory.others.get(key, 0), count
            if s.garbage:
                yield from self._codes()
                site, among = self._closing(s.path)
                detail = joined("%d objects hold each other; %s" % (s.members, waiting), among)
                size = s.bytes / s.garbage * count if s.bytes else None
                self._object("cycle", s.name, count, was, count, None, size, s.path, site, detail, True)
            else:
                self._object("extension", s.name, count, was, count,
                             detail="alive, but nothing in Python leads to them",
                             estimated=True)
            yield

    def _native_rows(self):
        if not self.compared:
            yield from self._codes()
        if self.codes is not None:       # else no line was searched for: those of the census before still hold
            self.memory.native = []
            yield from self._native_calls(self.memory.native)
        for function, site, text, kind in self.memory.native:
            self._object("native", kind, 1, None, 0, None, None, function, site, text)

    def _native_calls(self, found):
        for code, module in list(self.codes.codes):
            space = sys.modules.get(module)
            if space is None or len(found) >= MAX_NATIVE:
                continue
            calls = [(line, text, "call") for line, text in sites.native_calls(code, introspect.module_dict(space))]
            makes = sites.memory_calls(code)
            ran = executed.lines(code) if executed.AT_ONCE and (calls or makes) else {}
            calls = [call for call in calls if ran.get(call[0]) is not False][:1]
            for line, text, kind in calls + [make for make in makes if ran.get(make[0]) is not False][:2]:
                found.append(("%s.%s" % (module, introspect.code_name(code)), sites.where(code, line), text, kind))
            del space
            if self.over():
                yield
