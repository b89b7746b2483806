"""Which lines of the program make places grow, found once and remembered."""
import sys

from .. import frames
from . import executed, introspect, sites

MAX_SITES = 60           # places whose source line is searched
MAX_KNOWN_SITES = 512    # places whose source line is remembered
NOT_FOUND = 3            # censuses until a line that was not found, or is one of several, is searched again
MAX_NAMED = 4            # lines of several that are named


class SourceLines:
    """The part of a Census that searches the program's functions for the lines that add to what it found."""

    def _codes(self):
        """The program's functions, when the first line is searched for: most are known from the census before."""
        if self.codes is not None:
            return
        self.codes = sites.Codes()
        import dis      # 3 ms
        del dis
        yield
        for name in self.own_names:
            self._gather(name)
            if self.over():
                yield
        self._gather_frames()

    codes = None

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

    found, among = "", ""    # of the place that was looked for last: its line, and how many others it may be
    wavers = False           # another line may turn out to be it

    def _site(self, place):
        """The line that makes a place grow; it is known from a census before, or searched for."""
        key, known = hash(self.walk.places.path(place)), self.memory.sites
        self.found, self.among, self.wavers, number = known.get(key, ("", "", True, -NOT_FOUND))
        if not self.wavers or self.number < number + NOT_FOUND:
            return
        yield from self._search_site(place)
        if len(known) < MAX_KNOWN_SITES and len(self.lines) < MAX_SITES and self.spent <= self.allowance:
            known[key] = self.found, self.among, self.wavers, self.number

    def _search_site(self, place):
        """The line that makes a place grow: of the innermost name in its path that the program adds to, else of one
        that it assigns to. What a library holds is told by the line of its running function, or its file. A generator,
        for searching takes time; the result is in self.found."""
        self.found, self.among, self.wavers, best = "", "", True, 0
        labels = self.walk.places.labels(place)
        library = self.libraries.get(labels[0], "") if labels else ""
        own = labels and labels[0].rpartition(".")[2] in sites.REGISTERS      # the program adds by calling something
        if library and not own and not any(label[:1] != "[" for label in labels[1:]):
            # its own; what hangs below may be the program's: a worker's loop holds the data set
            self.found, self.wavers = library, False
            return
        home = self.homes.get(labels[0]) if labels else None
        for key in sites.names_of(labels)[:4]:
            key = key + (home,)
            if key not in self.lines:
                if len(self.lines) >= MAX_SITES or self.spent > self.allowance:
                    continue
                yield from self._codes()
                yield from self._search(key)
            score, *line = self.lines[key]
            if score > best:
                best, (self.found, self.among, self.wavers) = score, line
            if score >= sites.ACCUMULATES:
                break
        if library and not self.found:
            self.found, self.wavers = library, False

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
        statements = []
        for code, _ in self.codes.codes:
            if not registered and name not in sites.HOOKS and not sites.mentions(code, name):
                continue
            found = sites.growing(code, name, attribute, function, registered)
            if found:
                fits = 0.5 * (code.co_name == function) + 0.25 * (code.co_filename == home)
                ran, running = executed.lines(code), id(code) in self.running
                for line, score in found.items():
                    statements.append(Statement(score + fits, ran.get(line), running, code, line))
            if self.over():
                yield
        self.lines[key] = choose(statements)

    def _closing(self, path):
        """(line, how many others it may be) of the statement that closes a cycle, that is, stores into the last
        attribute of its path."""
        name = path.rpartition(".")[2].partition("[")[0]
        statements = []
        for code, _ in self.codes.codes:
            if name in code.co_names:
                ran = executed.lines(code)
                statements += [Statement(1, ran.get(line), id(code) in self.running, code, line)
                               for line in sites.attributes_stored(code, name)]
        return choose(statements)[1:3]


class Statement:
    """One that may make a place grow: how well it fits, whether it has run (None: not known), whether its function
    runs now."""

    __slots__ = ("fits", "ran", "running", "path", "line")

    def __init__(self, fits, ran, running, code, line):
        self.fits, self.ran, self.running, self.path, self.line = fits, ran, running, code.co_filename, line


def choose(statements):
    """(how surely, its line, among how many it was chosen, whether another one may run later) of the statement that
    fits best; one that has never run adds nothing. Where several fit as well, the text says so: they can't be told
    apart."""
    may = [s for s in statements if s.ran is not False] or statements
    if not may:
        return 0, "", "", True
    best = max(s.fits for s in may)
    equal = sorted((s for s in may if s.fits == best), key=lambda s: (not s.ran, not s.running, s.line))
    first = equal[0]
    others = sorted({s.line for s in equal if s.path == first.path})
    count = len({(s.path, s.line) for s in equal})
    among = ""
    if count > 1:
        among = "one of %d lines: %s" % (count, ", ".join(map(str, others[:MAX_NAMED]))
                                         + ", …" * (len(others) > MAX_NAMED or len(others) < count))
    return int(best), "%s:%d" % (first.path, first.line), among, len({(s.path, s.line) for s in statements}) > 1
