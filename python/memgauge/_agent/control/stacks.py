"""Every thread's Python stack with the line that it executes, as lines of text: docs/formats/control.md, "stacks".

It runs on the control thread, without code of the program: locals of known types are rendered here, of others only the
type is shown. So it takes no lock of the program, calls no __repr__ that may hang, and copies no tensor from a GPU.
"""
import _thread
import os
import sys

from .. import frames, mainthread, torchhook

MAX_TEXT = 1 << 20    # bytes of the answer: a frame of the control socket holds no more
MAX_INNER, MAX_OUTER = 200, 50   # frames kept of a deep recursion: where it is, and how it began
MAX_LOCALS = 50       # of one frame
MAX_REPR = 120        # characters of a value: a line on a terminal
MAX_ITEMS = 5         # of a container
MAX_NAME = 500        # characters of a function's, a file's or a thread's name
NESTED = 2            # levels of nested containers that are rendered

_OPTIMIZED = 1        # code.co_flags: locals are not kept in a dict


def report(with_locals=False):
    """The reply as bytes, at most MAX_TEXT. The last line counts the threads that were left out."""
    mine = _thread.get_ident()
    lines, size = [_line("agent", _thread.get_native_id())], 0
    tops = frames.innermost()
    names = _names(tops)
    waiting = [ident for ident in tops if ident != mine]
    waiting.sort(key=lambda ident: names.get(ident, (0,))[0] or 1 << 62)   # the main thread's number is the lowest
    while waiting:
        ident = waiting[0]
        text = _thread_text(ident, names.get(ident), tops.pop(ident), with_locals)
        size += len(text)
        if size > MAX_TEXT - 100:
            break
        waiting.pop(0)
        lines.append(text)
    tops.clear()
    if waiting:
        lines.append(_line("left", len(waiting)))
    return b"".join(lines)


def _names(tops):
    """ident -> (native id, name, daemon). The interpreter itself knows no thread's native id but its own, so threads
    that were not started through `threading` stay unnamed. Nothing of `threading` is called: it has locks."""
    threading = sys.modules.get("threading")
    if threading is None:   # a program of one thread, mostly
        return {ident: (os.getpid(), "MainThread", False) for ident, top in tops.items() if _is_program(top)}
    table = {}
    for ident, thread in list(threading._active.items()):
        state = thread.__dict__
        name, native = state.get("_name"), state.get("_native_id")
        table[ident] = native or 0, name if isinstance(name, str) else "", bool(state.get("_daemonic"))
    return table


def _is_program(frame):
    return frames.stack(frame)[-1].f_code.co_name == "<module>"


def _thread_text(ident, known, frame, with_locals):
    native, name, daemon = known or (0, "", False)
    lines = [_line("thread", native, ident, name, int(daemon))]
    chain = frames.stack(frame)
    cut = len(chain) - MAX_INNER - MAX_OUTER
    for depth, frame in enumerate(chain):
        if cut > 0 and MAX_INNER <= depth < MAX_INNER + cut:
            if depth == MAX_INNER:
                lines.append(_line("cut", cut))
            continue
        code = frame.f_code
        lines.append(_line("frame", getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0))
        if with_locals:
            lines += _locals(frame, code)
    del chain, frame
    return b"".join(lines)


def _locals(frame, code):
    """The locals of a frame. A module's frame has none here: its locals are the globals, that is, the whole program."""
    if not code.co_flags & _OPTIMIZED:
        return []
    names = code.co_varnames + code.co_cellvars + code.co_freevars
    values = frames.values(frame)
    lines = []
    for name in names:
        if name in values:
            if len(lines) == MAX_LOCALS:
                lines.append(_line("local", "…", "%d names in all" % len(names)))
                break
            lines.append(_line("local", name, _short(values[name])))
    del values
    mainthread.let_go(frame)
    return lines


def _short(value, nested=NESTED):
    kind = type(value)
    if kind in (int, float, complex, bool, type(None)):
        text = repr(value) if kind is not int or value.bit_length() < 400 else "int of %d bits" % value.bit_length()
    elif kind in (str, bytes):
        text = repr(value[:MAX_REPR])
        if len(value) > MAX_REPR:
            text += "… (%d)" % len(value)
        return text
    elif kind in (list, tuple, set, frozenset, dict):
        text = _container(value, kind, nested)
    else:
        text = _object(value, kind)
    return text if len(text) <= MAX_REPR else text[:MAX_REPR] + "…"


def _container(value, kind, nested):
    left, right = {list: "[]", tuple: "()", dict: "{}"}.get(kind, "{}")
    if not nested or not value:
        return left + right if not value else "%s…%s (%d)" % (left, right, len(value))
    items = []
    try:
        for item in value.items() if kind is dict else value:
            if len(items) == MAX_ITEMS:
                break
            items.append("%s: %s" % (_short(item[0], 0), _short(item[1], nested - 1)) if kind is dict
                         else _short(item, nested - 1))
    except RuntimeError:   # the program changed its size meanwhile
        pass
    more = ", … (%d)" % len(value) if len(value) > len(items) else ""
    return left + ", ".join(items) + more + right


def _object(value, kind):
    """A short text of a value. Of its attributes only torch's and numpy's own are read."""
    torch = torchhook.loaded("torch")
    try:
        if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
            return "%s(%s, %s, %s)" % (kind.__name__, tuple(value.shape), str(value.dtype).replace("torch.", ""),
                                       value.device)
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            return "ndarray(%s, %s)" % (value.shape, value.dtype)
    except Exception:
        pass
    module = kind.__module__ if isinstance(kind.__module__, str) else "?"
    own = "" if module in ("builtins", "__main__") else module + "."
    if kind is type(sys):
        return "<module %s>" % value.__dict__.get("__name__")
    if kind is type(report) or kind is type:
        return "<%s %s>" % ("function" if kind is not type else "class", getattr(value, "__qualname__", "?"))
    return "<%s%s at 0x%x>" % (own, kind.__qualname__, id(value))


def _line(*fields):
    out = []
    for field in fields:
        text = field if isinstance(field, str) else str(field)
        if len(text) > MAX_NAME:
            text = text[:MAX_NAME] + "…"
        out.append(text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t"))
    return ("\t".join(out) + "\n").encode("utf-8", "backslashreplace")
