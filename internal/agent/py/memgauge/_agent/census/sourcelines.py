"""Which lines of the program make places grow, found once and remembered."""
import sys

from .. import frames
from . import introspect, sites

MAX_SITES = 60           # places whose source line is searched
MAX_KNOWN_SITES = 512    # places whose source line is remembered
NOT_FOUND = 3            # censuses until a line that was not found is searched again


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

    def _site(self, place):
        """The line that makes a place grow; it is known from a census before, or searched for."""
        key, known = hash(self.walk.places.path(place)), self.memory.sites
        self.found, number = known.get(key, ("", -NOT_FOUND))
        if self.found or self.number < number + NOT_FOUND:
            return
        yield from self._search_site(place)
        if len(known) < MAX_KNOWN_SITES and len(self.lines) < MAX_SITES and self.spent <= self.allowance:
            known[key] = self.found, self.number

    def _search_site(self, place):
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
                yield from self._codes()
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
                score += 0.5 * (code.co_name == function) + 0.25 * (code.co_filename == home)
                score += 0.125 * (id(code) in self.running)
                if score > best:
                    best, site = score, sites.where(code, line)
            if self.over():
                yield
        self.lines[key] = int(best), site

    def _closing(self, path):
        """The line that closes a cycle, that is, stores into the last attribute of its path."""
        name = path.rpartition(".")[2].partition("[")[0]
        for code, _ in self.codes.codes:
            line = sites.attribute_stored(code, name) if name in code.co_names else 0
            if line:
                return sites.where(code, line)
        return ""
