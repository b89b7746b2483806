"""A cell as a unit of work: what it leaves behind, and whether it leaves something behind each time that it runs.

`%%memgauge` in a cell's first line is taken off before IPython reads the cell, so the cell runs as any other: its
result, its exception, `Out`, `_`, `await` and the numbers of its lines are as without us. What it held before and after
is compared where IPython tells of a cell's begin and end.

Of every other cell private memory and the allocators' counters are read at both ends: microseconds. Only a cell that is
run again, after a run that left memory behind, is looked at as closely as a marked one."""
import re
from collections import OrderedDict
from time import monotonic

from .. import marks
from ..integrations import gauges
from . import holdings, lines, show

MARK = re.compile(r"%%memgauge(?![\w?])(.*)")
LEAST = 1 << 20        # bytes that a run must leave behind to count
PART = 0.5             # of what the run before left: less is a cache that fills, or a first time
KEPT = 0.75            # of what two runs left must still be there: another cell may have given it back
AGAIN = 1.4            # times what was told of a cell, until it is told again
MAX_CELLS = 512        # remembered
MAX_OPEN = 16          # cells that run cells
MEMORY = "private memory"      # gauges.Memory: what only this process has


def marked(source):
    """The rest of the line where the first line of a cell is %%memgauge; else None."""
    first = source.lstrip().split("\n", 1)[0].rstrip()
    found = MARK.match(first)
    return found.group(1).strip() if found else None


def unmark(given):
    """A transformer of lines: takes off %%memgauge. The line stays, empty, so that the others keep their numbers; but a
    magic below it must come first."""
    for i, line in enumerate(given):
        if line.strip():
            if marked(line) is None:
                return given
            below = next((l for l in given[i + 1:] if l.strip()), "")
            return given[:i] + ([] if below.startswith("%%") else ["\n"]) + given[i + 1:]
    return given


class _Run:
    """A cell that runs."""

    def __init__(self, info, source, words):
        self.info, self.source, self.words = info, source, words
        self.sums = self.memory = None
        self.began = monotonic()


class _Known:
    """What is remembered of a cell: numbers."""

    def __init__(self, text):
        self.text, self.runs, self.left, self.row = text, 0, {}, []
        self.base = {}       # memory before the first of the runs in a row that left something behind
        self.told = 0


class Cells:
    """Reads memory around each cell."""

    def __init__(self, shell):
        self.shell, self.gauge = shell, gauges.Memory()
        self.open, self.known = [], OrderedDict()

    def close(self):
        self.gauge.close()

    # ------------------------------------------------------------ begin and end

    def before(self, info):
        source = getattr(info, "raw_cell", None)
        if type(source) is not str:
            return
        run = _Run(info, source, marked(source))
        known = self.known.get(_key(info))
        suspect = known is not None and known.text == hash(source) and bool(known.left)
        if run.words is not None or suspect:
            gauges.collect()
            run.sums = holdings.look(self.shell)[1]
        run.memory = self._read()
        del self.open[:-MAX_OPEN]
        self.open.append(run)
        marks.event("cell", "begin", self._number())

    def after(self, result):
        info, run = getattr(result, "info", None), None
        while self.open and (run is None or run.info is not info):
            run = self.open.pop()
        if run is None or run.info is not info:
            return
        now = self._read()
        marks.event("cell", "end", self._number())
        known = self._known(run)
        seen = None
        if run.sums is not None and (run.words is not None or _left(run.memory, now)):
            gauges.collect()
            garbage, now = now, self._read()
            seen = holdings.look(self.shell)[1]
            if run.words is not None:
                self._tell(run, now, seen, garbage)
        self._judge(run, known, now, seen)

    def _number(self):
        number = getattr(self.shell, "execution_count", 0)
        return number if isinstance(number, int) else 0

    def _read(self):
        read = self.gauge.read()
        read.pop("heap", None)
        return {"host" if name == MEMORY else name: size for name, size in read.items()}

    def _known(self, run):
        key = _key(run.info)
        known = self.known.get(key)
        if known is None or known.text != hash(run.source):
            known = self.known[key] = _Known(hash(run.source))
        self.known.move_to_end(key)
        if len(self.known) > MAX_CELLS:
            self.known.popitem(last=False)
        known.runs += 1
        return known

    # ------------------------------------------------------------ %%memgauge

    def _tell(self, run, now, seen, garbage):
        page, took = show.Page(), monotonic() - run.began
        if run.words:
            page.line("memgauge: %%%%memgauge takes no words, %r is passed by" % run.words)
        more = {memory: size - run.memory.get(memory, 0) for memory, size in now.items()}
        told = {memory: size for memory, size in more.items() if abs(size) >= holdings.TOLD}
        page.line("memgauge: this cell left behind %s (%.2f s)" % (
            show.sizes(told, show.signed) if told else "nothing", took))
        self._rows(page, run, seen, more)
        freed = {memory: garbage.get(memory, 0) - size for memory, size in now.items()
                 if garbage.get(memory, 0) - size >= LEAST}
        if freed:
            page.line("  garbage, collected: %s" % show.sizes(freed))
        if not seen.complete or not run.sums.complete:
            page.line("  not everything was looked at: there are more objects than are walked in %g s"
                      % holdings.LONGEST)
        page.put()

    def _rows(self, page, run, seen, more):
        grown = holdings.grown(run.sums, seen)
        finder = lines.Finder(self.shell, run.source)
        memories = show.ordered(set(more) | {memory for row in grown for memory in row[2]})
        rows, stages = [], []
        for path, labels, part, about in grown:
            if not any(size > 0 for size in part.values()):
                continue
            stage = seen.stages.get(labels[0])
            stages += [stage] * (stage not in stages and stage in HIDDEN)
            rows.append([path] + [show.signed(part[m]) if m in part else "" for m in memories]
                        + [finder.find(labels), about])
        rest = {m: more.get(m, 0) - sum(part.get(m, 0) for _, _, part, _ in grown) for m in memories}
        rest = {m: size for m, size in rest.items() if size >= max(LEAST, more.get(m, 0) // 20)}
        if rest:
            rows.append(["(no name leads to it)"] + [show.signed(rest[m]) if m in rest else "" for m in memories]
                        + ["", ""])
        if rows:
            page.table(["held by"] + memories + ["line", ""], rows)
        for stage in stages:
            page.line("  %s" % HIDDEN[stage])

    # ------------------------------------------------------------ run after run

    def _judge(self, run, known, now, seen):
        """Whether two runs of a cell in a row have left memory behind."""
        left = _left(run.memory, now)
        before, known.left = known.left, left
        if not left:
            known.base, known.row, known.told = {}, [], 0
            return
        if not before:
            known.base, known.row = dict(run.memory), [left]
            return
        known.row = known.row[-2:] + [left]
        leaks = {memory: (before[memory], size) for memory, size in left.items()
                 if memory in before and size >= PART * before[memory]
                 and now[memory] - known.base.get(memory, 0) >= KEPT * (before[memory] + size)}
        total = sum(now[memory] - known.base.get(memory, 0) for memory in leaks)
        if leaks and seen is not None and total >= AGAIN * known.told:
            known.told = total
            self._warn(run, known, leaks, seen)

    def _warn(self, run, known, leaks, seen):
        page = show.Page()
        page.line("memgauge: this cell leaves memory behind each time it runs (run %d): %s" % (known.runs, "; ".join(
            "%s %s, then %s" % (memory, show.signed(leaks[memory][0]), show.signed(leaks[memory][1]))
            for memory in show.ordered(leaks))))
        if run.words is None:
            self._rows(page, run, seen, {memory: pair[1] for memory, pair in leaks.items()})
        page.put()


HIDDEN = {
    "results": "results of cells stay until `%memgauge free results`; a `;` at the end of the line keeps none",
    "errors": "the last error keeps every frame that it came through: `%memgauge free errors`",
    "figures": "pyplot keeps a figure until plt.close(fig): `%memgauge free figures`",
    "widgets": "ipywidgets keeps a widget until it is closed: `%memgauge free widgets`",
}


def _left(before, now):
    """Memories in which a run has left LEAST or more."""
    return {memory: size - before.get(memory, 0) for memory, size in now.items()
            if size - before.get(memory, 0) >= LEAST}


def _key(info):
    """A cell's own id where the frontend has one, else its text."""
    return getattr(info, "cell_id", None) or getattr(info, "raw_cell", None)
