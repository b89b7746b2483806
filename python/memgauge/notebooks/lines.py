"""The line of a cell, or of a function that a cell calls, that makes a name grow: the census's own search
(memgauge/_agent/census/sites.py), in the code of the cell and of the functions in the notebook."""
import ast
import sys

from .._agent.census import interactive, introspect, libraries, sites

CELL = "<memgauge cell>"


class Finder:
    """Finds lines for one cell."""

    def __init__(self, shell, source):
        self.shell, self.last = shell, 0
        self.codes = sites.Codes()
        try:
            text = shell.transform_cell(source)
            tree = ast.parse(text)
            if tree.body and isinstance(tree.body[-1], ast.Expr):
                self.last = tree.body[-1].lineno      # its value is the cell's result
            self.codes.add(compile(text, CELL, "exec", getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0), True), "__main__")
        except (SyntaxError, ValueError):
            pass    # the cell has told
        self.own = len(self.codes.codes)
        self.gathered = False

    def find(self, labels):
        """"line 3", "In[4]:3", "train.py:12", or ""."""
        if not labels:
            return ""
        if labels[0].startswith(interactive.RESULTS + "["):
            return "line %d" % self.last if self.last else ""
        for name, attribute, function in sites.names_of(labels)[:4]:
            place = self._search(self.codes.codes[:self.own], name, attribute, function)
            if not place:
                self._gather()
                place = self._search(self.codes.codes[self.own:], name, attribute, function)
            if place:
                return self._show(*place)
        return ""

    def _search(self, codes, name, attribute, function):
        best = 0, "", 0
        for code, _ in codes:
            if name not in sites.HOOKS and not sites.mentions(code, name):
                continue
            for line, score in sites.growing(code, name, attribute, function).items():
                if score > best[0]:
                    best = score, code.co_filename, line
        return best[1:] if best[0] else None

    def _gather(self):
        if self.gathered:
            return
        self.gathered = True
        main = sys.modules.get(libraries.MAIN)
        if introspect.is_module(main):
            self.codes.gather(libraries.MAIN, main)
        for name, own in introspect.modules(list(sys.modules)):
            if own and name in sys.modules and sys.modules[name] is not main:
                self.codes.gather(name, sys.modules[name])

    def _show(self, file, line):
        if file == CELL:
            return "line %d" % line
        number = getattr(self.shell.compile, "_filename_map", {}).get(file)
        if number is None and file.startswith("<ipython-input-"):
            number = file.split("-")[2]
        if number is not None:
            return "In[%s]:%d" % (number, line)
        return "%s:%d" % (file.rpartition("/")[2], line)
