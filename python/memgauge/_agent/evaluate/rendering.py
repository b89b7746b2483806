"""Values, tracebacks and stacks as a client sees them."""
from .. import frames, state, torchhook
from . import scope

MAX_TEXT = (1 << 20) - 1024   # bytes of a value or a traceback: a frame holds 1 MiB


def render(value):
    return _bounded(repr(value), "… [a repr of %d characters, cut]")


def _bounded(text, note):
    """At most MAX_TEXT bytes of UTF-8."""
    if len(text) <= MAX_TEXT // 4:
        return text
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MAX_TEXT:
        return text
    note = note % len(text)
    return data[:MAX_TEXT - 4 * len(note)].decode("utf-8", "ignore") + note


def traceback(error, source):
    import traceback
    cut = _cut(error.__traceback__)
    with _lines_of(source):
        parts = traceback.format_exception(type(error), error, cut) + [_advice(cut)]
    return _bounded("".join(parts), "… [a traceback of %d characters, cut]\n")


NO_GPU = ("memgauge: PyTorch sees no GPU in this process, so torch.cuda can't do that: "
          "put it under `if torch.cuda.is_available():`\n")


def _advice(trace):
    """What to do about an exception that torch.cuda has raised where there is no GPU; its own texts don't tell."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    torch = torchhook.loaded("torch")
    home = getattr(getattr(torch, "cuda", None), "__file__", None)
    if trace is None or not home or not trace.tb_frame.f_code.co_filename.startswith(home.rpartition("/")[0] + "/"):
        return ""
    return "" if torch.cuda.is_initialized() or torch.cuda.is_available() else NO_GPU


def _cut(trace):
    """The traceback without our own frames at either end."""
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    last, item = None, trace
    while item is not None:
        if not _is_ours(item):
            last = item
        item = item.tb_next
    if last is not None:
        last.tb_next = None
    return trace


def _is_ours(trace):
    return trace.tb_frame.f_code.co_filename.startswith(state.PACKAGE)


def stack(frame, source):
    """Where the thread is, outermost first, as in a traceback."""
    if frame is None:
        return []
    import traceback
    with _lines_of(source):
        walked = ((f, f.f_lineno) for f in reversed(frames.stack(frame)))
        entries = [e for e in traceback.StackSummary.extract(walked)
                   if not e.filename.startswith(state.PACKAGE) and not e.filename.endswith("/threading.py")]
        return ["Traceback (most recent call last):\n"] + traceback.format_list(entries)


class _lines_of:
    """Puts the code into linecache while a traceback is made, and removes it again."""

    def __init__(self, source):
        self.source = source

    def __enter__(self):
        import linecache
        self.before = linecache.cache.get(scope.FILENAME)
        linecache.cache[scope.FILENAME] = (len(self.source), None, self.source.splitlines(True), scope.FILENAME)

    def __exit__(self, *_):
        import linecache
        linecache.cache.pop(scope.FILENAME, None)


def let_go(error):
    """Clears the frames of the exception and of its causes, whose locals keep the code's objects alive."""
    seen = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        waiting += [error.__cause__, error.__context__]
        trace = error.__traceback__
        while trace is not None:
            try:
                trace.tb_frame.clear()
            except RuntimeError:   # it still runs: ours
                pass
            trace = trace.tb_next
        error.__traceback__ = None
