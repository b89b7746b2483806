"""What `%load_ext memgauge` puts into a shell, and `%unload_ext memgauge` takes off: the magics %memgauge and
%%memgauge, and two functions that IPython calls around each cell."""
import logging
import os
import tempfile

from ..integrations import gauges
from . import cells, hidden, holdings, session, show

log = logging.getLogger("memgauge")

WORDS = "verdict, where, tensors, free, report"
HELP = """%memgauge                 the verdict, where the bytes are, who holds them, and the report's page
%memgauge verdict         the verdict alone; also: where, tensors, report
%memgauge free            what holds memory that you can't see
%memgauge free KIND …     frees it: {kinds}, or all (without graphs)
%%memgauge                first line of a cell: what the cell leaves behind""".format(kinds=", ".join(hidden.KINDS))
COMMANDS = (("verdict", ["leak"]), ("where", ["where"]), ("tensors", ["tensors", "--top", "10"]))
FOUND = (0, 3)      # exit codes of an answer


class Extension:
    """Everything that one shell has of ours."""

    def __init__(self, shell):
        self.shell, self.cells = shell, cells.Cells(shell)
        self.began = None       # the session that we have begun
        self.why = ""           # why there is none
        # bound once: IPython finds a function again by its identity
        self.events = [("pre_run_cell", self._before), ("post_run_cell", self._after)]

    def on(self):
        shell = self.shell
        shell.register_magic_function(self._line, "line", "memgauge")
        shell.register_magic_function(self._cell, "cell", "memgauge")
        shell.input_transformer_manager.cleanup_transforms.append(cells.unmark)
        for name, function in self.events:
            shell.events.register(name, function)
        self._begin()

    def off(self):
        shell = self.shell
        for name, function in self.events:
            try:
                shell.events.unregister(name, function)
            except ValueError:
                pass
        transforms = shell.input_transformer_manager.cleanup_transforms
        transforms[:] = [t for t in transforms if t is not cells.unmark]
        for kind in "line", "cell":
            shell.magics_manager.magics[kind].pop("memgauge", None)
        self.cells.close()
        if self.began is not None:
            try:
                session.end()
            except session.Refused as error:
                log.debug("detach: %s", error)

    def _begin(self):
        """A session, where none observes this kernel yet. Without one the rest works all the same."""
        try:
            if not session.observed():
                self.began = session.begin()
                print("memgauge observes this kernel, as session %s; %%memgauge shows it, %%unload_ext memgauge ends it"
                      % self.began)
        except session.Refused as error:
            self.why = str(error)
            print("memgauge: no session observes this kernel, so there will be no verdict; %%%%memgauge and %%memgauge "
                  "free work: %s" % self.why.partition("\n")[0])
        except Exception as error:
            self.why = "%s: %s" % (type(error).__name__, error)
            log.debug("the session could not be begun", exc_info=True)

    # ------------------------------------------------------------ around each cell

    def _before(self, info=None):
        self._quietly(self.cells.before, info)

    def _after(self, result=None):
        self._quietly(self.cells.after, result)

    @staticmethod
    def _quietly(function, argument):
        try:
            function(argument)
        except KeyboardInterrupt:       # it takes us too long for the user
            pass
        except Exception:
            log.debug("around a cell", exc_info=True)

    # ------------------------------------------------------------ magics

    def _line(self, line):
        """Memory of this notebook, as memgauge sees it."""
        try:
            self._do(line.split())
        except session.Refused as error:
            print("memgauge: %s" % error)
        except Exception as error:
            print("memgauge: %%memgauge failed: %s: %s" % (type(error).__name__, error))
            log.debug("%%memgauge", exc_info=True)

    def _cell(self, line, cell):
        """What this cell leaves behind: by name, by line, host and GPU."""
        self.shell.run_cell("%%%%memgauge %s\n%s" % (line, cell))

    def _do(self, words):
        names = [name for name, _ in COMMANDS]
        if not words:
            self._all()
        elif words[0] == "free":
            self._free(words[1:])
        elif words == ["report"]:
            self._report()
        elif len(words) == 1 and words[0] in names:
            self._some([command for command in COMMANDS if command[0] == words[0]])
        elif words[0] in ("help", "--help", "-h", "?"):
            print(HELP)
        else:
            print("memgauge: %r is not known: %%memgauge alone, or one of %s" % (" ".join(words), WORDS))

    def _free(self, words):
        page = show.Page()
        kinds = hidden.ALL if words == ["all"] else tuple(words)
        unknown = [word for word in kinds if word not in hidden.KINDS]
        if unknown:
            print("memgauge: free: %r is not known: one or more of %s, or all" % (unknown[0], ", ".join(hidden.KINDS)))
            return
        if kinds:
            hidden.free(self.shell, kinds, page)
        else:
            hidden.tell(self.shell, page)
        page.put()

    def _all(self):
        if not session.observed():
            self._unobserved()
            return
        self._some(COMMANDS, report=True)

    def _some(self, commands, report=False):
        if not session.observed():
            raise session.Refused(self._remedy())
        page = show.Page()
        with tempfile.TemporaryDirectory(prefix="memgauge-") as folder:
            file = os.path.join(folder, "report.html")
            asked = [words for _, words in commands] + ([["report", "-o", file]] if report else [])
            answers = session.gather([session.about(words) for words in asked])
            for (code, out, errors), _ in zip(answers, commands):
                page.block(out if code in FOUND else errors)
            if report:
                self._frame(page, file, answers[-1])
        page.put()

    def _report(self):
        self._some((), report=True)

    @staticmethod
    def _frame(page, file, answer):
        code, _, errors = answer
        if code != 0:
            page.block(errors)
            return
        size = os.path.getsize(file)
        if size > session.MAX_PAGE:
            page.line("the report has %s, too much for a notebook: `memgauge %d report` writes it into a file"
                      % (show.size(size), os.getpid()))
            return
        with open(file, encoding="utf-8") as f:
            page.frame(f.read())

    def _unobserved(self):
        """What can be told without a session: what the memory is now, and whose it is."""
        page = show.Page()
        memory = gauges.Memory()
        try:
            now = memory.read()
        finally:
            memory.close()
        now.pop("heap", None)
        page.line("memgauge: %s" % show.sizes({"host" if name == cells.MEMORY else name: size
                                              for name, size in now.items()}))
        sums = holdings.look(self.shell)[1]
        rows = holdings.grown(holdings.Nothing, sums)
        memories = show.ordered({memory for row in rows for memory in row[2]})
        if rows:
            page.table(["held by"] + memories + [""], [
                [path] + [show.size(sizes[m]) if m in sizes else "" for m in memories] + [about]
                for path, _, sizes, about in rows])
        page.line("  no verdict: " + self._remedy())
        page.put()

    def _remedy(self):
        return self.why or ("no session observes this kernel any more: `%%reload_ext memgauge` begins one, or "
                            "`memgauge attach %d` in a terminal" % os.getpid())
