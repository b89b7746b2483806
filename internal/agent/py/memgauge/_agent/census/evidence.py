"""The rows of a census in python.tensors and python.objects: the largest and the fastest growing of each kind."""
import gc
import sys
from time import monotonic_ns

from .. import frames, recording
from . import cycles, introspect, sites, tensors
from .places import ROLES, TENSOR_ROLE
from ..record._spec import FLAG_COMPARED, FLAG_ESTIMATED, NOT_TAKEN

RESERVE = 0.25           # share of a census's time for writing rows
MAX_KNOWN = 4_096        # lengths of containers and numbers of instances remembered until the next one
MAX_GROUPS, MAX_CONTAINERS, MAX_TYPES, MAX_ERRORS, MAX_GRAPH_ROWS, MAX_NATIVE = 64, 48, 32, 16, 16, 8   # rows
LINKS = 16               # objects; shorter chains are not worth a row
TICK = 10_000_000        # ns of a clock tick in /proc (USER_HZ is 100 wherever PyTorch runs)
MAX_SITES = 60           # places whose source line is searched


class Telling:
    """The part of a Census that makes rows of what the walk has found."""

    def _report(self):
        self.lines = {}            # (name, function) -> file:line
        self.codes = sites.Codes()
        import dis      # 3 ms
        del dis
        yield
        for name in self.own_names:
            self._gather(name)
            if self.over():
                yield
        self._gather_frames()
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
            ring.overhead(0, 0, ring.name("census"), 0, self.spent, 1, self._covered(ring), NOT_TAKEN)

    def _covered(self, ring):
        """ns since the previous census, or since the process started. A census's cost is a share of that time, not of
        its own duration."""
        at = monotonic_ns()
        since, self.memory.told = self.memory.told or ring.start * TICK, at
        return max(at - since, at - self.began)     # start ticks go on while a machine sleeps, this clock does not

    def _gather(self, name):
        module = sys.modules.get(name)
        if module is not None:
            self.codes.gather(name, module)

    def _gather_frames(self):
        """Adds the code of running functions that no name refers to: a module's own code, nested functions."""
        self.running = set()
        for top in frames.innermost().values():
            for frame in frames.stack(top):
                if introspect.is_user_file(frame.f_code.co_filename):
                    self.codes.add(frame.f_code, frame.f_globals.get("__name__"))
                    self.running.add(id(frame.f_code))

    def _site(self, place):
        """The line that makes a place grow: of the innermost name in its path that the program adds to, else of one
        that it assigns to. What a library holds is told by the line of its running function, or its file. A generator,
        for searching takes time; the result is in self.found."""
        self.found, best = "", 0
        labels = self.walk.places.labels(place)
        library = self.libraries.get(labels[0], "") if labels else ""
        own = labels and labels[0].rpartition(".")[2] in sites.REGISTERS      # the program adds by calling something
        if library and not own and not any(label[:1] != "[" for label in labels[1:]):
            # its own; what hangs below may be the program's: a worker's loop holds the data set
            self.found = library
            return
        home = self.homes.get(labels[0]) if labels else None
        for key in sites.names_of(labels)[:4]:
            key = key + (home,)
            if key not in self.lines:
                if len(self.lines) >= MAX_SITES or self.spent > self.allowance:
                    continue
                yield from self._search(key)
            score, site = self.lines[key]
            if score > best:
                best, self.found = score, site
            if score >= sites.ACCUMULATES:
                break
        self.found = self.found or library

    def _search(self, key):
        name, attribute, function, home = key
        yield from self._search_as(key)
        if not self.lines[key][0] and not attribute and not function:
            other = name, True, "", home     # a module's global, from another module
            yield from self._search_as(other)
            self.lines[key] = self.lines[other]
        if not self.lines[key][0] and name in sites.REGISTERS:
            yield from self._search_as(key, True)

    def _search_as(self, key, registered=False):
        name, attribute, function, home = key
        best, site = 0, ""
        for code, _ in self.codes.codes:
            if not registered and name not in sites.HOOKS and not sites.mentions(code, name):
                continue
            score, line = sites.growing(code, name, attribute, function, registered)
            if score:
                score += 0.5 * (code.co_name == function) + 0.25 * (code.co_filename == home) + 0.125 * (id(code) in self.running)
                if score > best:
                    best, site = score, sites.where(code, line)
            if self.over():
                yield
        self.lines[key] = int(best), site

    def _tensor_rows(self):
        groups = self.walk.groups
        places = range(len(groups.place))
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
            self.out.append((_put_tensors, text, (flags, self.number, self.step, _u32(groups.count[i]),
                                                  _u32(groups.oldest[i]),
                                                  _u32(groups.fresh[i]), int(groups.bytes[i]))))

    def _object(self, evidence, kind, count, before, number, length=None, size=None, holder="", site="", detail="",
                estimated=False):
        """A row; `number` is what is compared with what it was `before` (None: not known)."""
        compared = self.compared and before is not None
        delta = max(-2**31, min(2**31 - 1, int(round(number - before)))) if compared else 0
        flags = FLAG_COMPARED * compared | FLAG_ESTIMATED * estimated
        fields = (flags, self.number, self.step, _u32(count), delta,
                  NOT_TAKEN if length is None else int(round(length)),
                  NOT_TAKEN if size is None else int(size))
        self.out.append((_put_objects, (evidence, kind, holder, site, detail), fields))

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
        for delta, size, place, path, was in sorted(set(grown + big + long), key=lambda r: (-r[0], -r[1])):
            yield from self._site(place)
            hooks = path.endswith("_hooks") and path.rpartition(".")[2] in sites.HOOKS
            count = w.containers[place]
            self._object("hooks" if hooks else "container", w.container_type[place], count, was, w.length[place],
                         w.length[place],
                         None if place in cut else size, path, self.found,
                         self._about(place, unseen.get(place, 0)), count != int(count))

    def _about(self, place, unseen):
        bound = self.walk.bound.get(place)
        text = "a chain" if place in self.walk.links else "of " + self.walk.inner.get(place, "?")
        if unseen:
            text += "; the bytes of %d objects of libraries can't be seen" % unseen
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
            count = w.graph_count.get(place, 1)
            ranked.append((count * chain, place, nodes, chain, count))
        for length, place, nodes, chain, count in sorted(ranked, reverse=True)[:MAX_GRAPH_ROWS]:
            path = w.places.path(place)
            now[hash(path)] = length
            yield from self._site(place)
            most = nodes >= tensors.MAX_NODES
            detail = "the longest chain %s%d" % ("more than " if chain >= tensors.MAX_CHAIN else "", chain)
            if nodes:
                detail = "%s%d nodes behind one of them, %s" % ("more than " if most else "", nodes, detail)
            was = before.get(hash(path), 0 if "[*]" in path else None)   # a variable's graph comes and goes
            self._object("graph", "torch.Tensor", count, was, length, length, None, path, self.found, detail,
                         most)
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
                         self.found)

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
                site = self._closing(s.path)
                detail = "%d objects hold each other; %s" % (s.members, waiting)
                size = s.bytes / s.garbage * count if s.bytes else None
                self._object("cycle", s.name, count, was, count, None, size, s.path, site, detail, True)
            else:
                self._object("extension", s.name, count, was, count,
                             detail="alive, but nothing in Python leads to them",
                             estimated=True)
            yield

    def _closing(self, path):
        """The line that closes a cycle, that is, stores into the last attribute of its path."""
        name = path.rpartition(".")[2].partition("[")[0]
        for code, _ in self.codes.codes:
            line = sites.attribute_stored(code, name) if name in code.co_names else 0
            if line:
                return sites.where(code, line)
        return ""

    def _native_rows(self):
        rows = 0
        for code, module in list(self.codes.codes):
            space = sys.modules.get(module)
            if space is None or rows >= MAX_NATIVE:
                continue
            for line, text in sites.native_calls(code, introspect.module_dict(space))[:1]:
                rows += 1
                self._object("native", "call", 1, None, 0, None, None, "%s.%s" % (module, introspect.code_name(code)),
                             sites.where(code, line), text)
            del space
            if self.over():
                yield


def _u32(number):
    return max(0, min(int(round(number)), 0xFFFFFFFF))


def _text(parts):
    """Joins the parts of a record's text. Separators within a part are removed, and long parts are cut, so that each
    has room."""
    return "\t".join(_clip(part.replace("\t", " ").replace("\n", " ")) for part in parts)


def _clip(text, most=600):
    return text if len(text) <= most else text[:most // 2 - 1] + "…" + text[-most // 2:]


def _put_tensors(ring, text, fields):
    ring.tensors(_text(text), *fields)


def _put_objects(ring, text, fields):
    ring.objects(_text(text), *fields)
