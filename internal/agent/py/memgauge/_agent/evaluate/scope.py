"""Where the names in an eval come from and where what it assigns goes to.

The code runs in the real `__main__`. A name that `__main__` lacks is looked up in the running functions of the user's code
on the main thread, innermost first, then among the globals of their modules. Code that needs no such name is executed as it
stands. Other code is compiled as the body of a function whose free variables are those names: so comprehensions, nested
functions, lambdas and class bodies see them as Python's own scoping rules say, every other name that it assigns is a
global of the real `__main__`, and functions that outlive the eval hold what they use and nothing else.

Locals are read when the code starts and written, if it has changed them, when it ends.
"""
import sys

from .. import persistent

FILENAME = "<memgauge eval>"
WRITE_WAIT = 1.0     # s for the main thread to come by and have a local changed; a step of training is mostly shorter

_AST = 0x400         # ast.PyCF_ONLY_AST; `import ast` alone takes milliseconds
_OPTIMIZED = 1       # code.co_flags: locals are not kept in a dict
_SUSPENDS = 0x20 | 0x80 | 0x200  # generators and coroutines: not on the stack, and yet not ended
_SNAPSHOTS = sys.version_info < (3, 13)  # frame.f_locals is a copy kept in the frame; since 3.13 (PEP 667) it writes through
_HERE = __file__.rpartition("/_agent/")[0] + "/"


class Home:
    """Where a name of the code lives: a function's local variable or a global of another module."""

    def __init__(self, name, value, frame=None, module=None):
        self.name, self.value, self.frame, self.module = name, value, frame, module


def user_frames():
    """The main thread's frames of the user's code, innermost first. Where no function among them is the user's (the
    program is an installed package), those of installed packages count too, except torch."""
    frame = sys._current_frames().get(_thread_of_frames())
    frames = []
    while frame is not None:
        if not _is_ours_or_python(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    own = [f for f in frames if not _is_installed(f.f_code.co_filename)]
    if any(f.f_code.co_flags & _OPTIMIZED for f in own):
        return own
    return [f for f in frames if "/torch/" not in f.f_code.co_filename]


stopped = []    # ident of the thread that stands still for an eval (moment.Stop), if one does


def _thread_of_frames():
    """The thread whose functions the code sees: the one that stands still for it, else the main thread."""
    import threading
    return stopped[0] if stopped else threading.main_thread().ident


def _is_installed(filename):
    return "site-packages/" in filename or "dist-packages/" in filename


def _is_ours_or_python(filename):
    import os
    standard = os.__file__.rpartition("/")[0] + "/"   # site-packages lies below it
    return filename.startswith(("<frozen", "<memgauge", _HERE, standard)) and not _is_installed(filename)


def find(names, main):
    """Homes of those names that `__main__` lacks, by name; and the frames whose locals were read."""
    homes, read = {}, []
    missing = {n for n in names if n not in main and not n.startswith("__")}
    if not missing:
        return homes, read
    for frame in user_frames():
        code = frame.f_code
        if code.co_flags & _OPTIMIZED:
            held = missing.intersection(code.co_varnames + code.co_cellvars + code.co_freevars)
            if held:
                values = frame.f_locals
                read.append(frame)
                homes.update((n, Home(n, values[n], frame=frame)) for n in held if n in values)
                del values
        elif frame.f_locals is not frame.f_globals:   # a class body: its namespace is a dict
            homes.update((n, Home(n, frame.f_locals[n], module=frame.f_locals)) for n in missing if n in frame.f_locals)
        missing.difference_update(homes)
        module = frame.f_globals
        if module is not main:
            homes.update((n, Home(n, module[n], module=module)) for n in missing if n in module)
            missing.difference_update(homes)
    return homes, read


# ---------------------------------------------------------------- the code

class Program:
    """One piece of code, ready to run; run once, then write_back, then close."""

    def __init__(self, source, main):
        self.main = main
        self.homes, self.cells = {}, {}
        tree = compile(source, FILENAME, "exec", _AST, dont_inherit=True)
        code = compile(source, FILENAME, "exec", dont_inherit=True)   # every SyntaxError comes from the code as it is
        futures = code.co_flags & _future_flags() if "__future__" in source else 0
        homes, read = find(_names(code), main)
        if homes:
            homes = {n: h for n, h in homes.items() if n in _free_names(source)}
        try:
            if homes:
                self.run = self._enclosed(source, tree, futures, homes)
            else:
                self.run = self._plain(tree, futures)
        finally:
            release(read)

    def _plain(self, tree, futures):
        import _ast
        main, last = self.main, None
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            last = _ast.Expression(body=tree.body.pop().value)
        body = compile(tree, FILENAME, "exec", dont_inherit=True)
        value = last and compile(last, FILENAME, "eval", futures, dont_inherit=True)

        def run():
            exec(body, main)
            return eval(value, main) if value is not None else None
        return run

    def _enclosed(self, source, tree, futures, homes):
        from types import CellType, FunctionType
        code = _enclose(tree, sorted(homes), _bound(source) - set(homes), futures)
        self.homes = homes
        self.cells = {n: CellType(homes[n].value) for n in code.co_freevars}
        return FunctionType(code, self.main, "<module>", None, tuple(self.cells[n] for n in code.co_freevars))

    def write_back(self):
        """Puts changed locals into their frames. Returns notes about what could not be done."""
        notes, frames = [], {}
        for name, cell in self.cells.items():
            home = self.homes[name]
            try:
                value = cell.cell_contents
            except ValueError:   # `del name`
                value = None
                if home.module is not None:
                    home.module.pop(name, None)
                    continue
                notes.append("%r is a local of %s(): it can't be deleted from outside, it was set to None"
                             % (name, home.frame.f_code.co_name))
            if value is home.value:
                continue
            if home.module is not None:
                home.module[name] = value
            else:
                frames.setdefault(home.frame, {})[name] = value
        for frame, changes in frames.items():
            notes += _store(frame, changes)
        return notes

    def close(self):
        """Lets go of everything of the trainer. Functions that the code has left behind keep their own cells."""
        self.homes, self.cells, self.run, self.main = {}, {}, None, None


def _names(code):
    """Every name that the code mentions, attributes too: a cheap first look."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            names |= _names(constant)
    return names


def _future_flags():
    import __future__
    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


def _table(source):
    import _symtable
    return _symtable, _symtable.symtable(source, FILENAME, "exec")


def _free_names(source):
    """Names that the code looks up, or assigns at its top level, outside the scopes of its own functions."""
    s, top = _table(source)

    def scope(flags):
        return flags >> s.SCOPE_OFF & s.SCOPE_MASK
    names = {n for n, flags in top.symbols.items() if scope(flags) != s.GLOBAL_EXPLICIT}
    declared = set(top.symbols) - names   # `global x` at the top: the user says where x is
    inner = list(top.children)
    while inner:
        table = inner.pop()
        names |= {n for n, flags in table.symbols.items() if scope(flags) == s.GLOBAL_IMPLICIT}
        inner += table.children
    return names - declared


def _bound(source):
    """Names that the top level of the code assigns, imports or defines."""
    s, top = _table(source)
    return {n for n, flags in top.symbols.items() if flags & (s.DEF_LOCAL | s.DEF_IMPORT | s.DEF_GLOBAL)}


def _enclose(tree, free, names, futures):
    """Code object of the statements as a function body, with `free` as its free variables and `names` global."""
    import _ast
    lines = ["def outer(%s):" % ", ".join(free), " def snippet():", "  nonlocal %s" % ", ".join(free)]
    if names:
        lines.append("  global %s" % ", ".join(sorted(names)))
    lines += ["  pass", " return snippet"]
    frame = _parse("\n".join(lines))
    snippet = frame.body[0].body[0]
    body = [n for n in tree.body if not (isinstance(n, _ast.ImportFrom) and n.module == "__future__")]
    _make_local(body, _ast)
    if body and isinstance(body[-1], _ast.Expr):
        body[-1] = _ast.Return(value=body[-1].value, **_place(body[-1]))
    snippet.body[-1:] = body
    snippet.lineno = 1
    module = compile(frame, FILENAME, "exec", futures, dont_inherit=True)
    code = _inner(_inner(module, "outer"), "snippet")
    if sys.version_info >= (3, 11):
        return code.replace(co_name="<module>", co_qualname="<module>")
    return code.replace(co_name="<module>")


def _make_local(statements, ast):
    """What a module's top level allows and a function's does not: `from m import *`, annotated assignments."""
    for i, node in enumerate(statements):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            text = "exec('from %s%s import *', globals())" % ("." * (node.level or 0), node.module or "")
            statements[i] = _placed(_parse(text).body[0], node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.value is None:
                statements[i] = ast.Pass(**_place(node))
            else:
                statements[i] = ast.Assign(targets=[node.target], value=node.value, type_comment=None, **_place(node))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                _make_local(getattr(node, field, ()), ast)
            for part in list(getattr(node, "handlers", ())) + list(getattr(node, "cases", ())):
                _make_local(part.body, ast)


def _parse(text):
    return compile(text, FILENAME, "exec", _AST, dont_inherit=True)


def _place(node):
    return {n: getattr(node, n) for n in ("lineno", "col_offset", "end_lineno", "end_col_offset")}


def _placed(tree, node):
    """The tree with every position set to the node's."""
    import _ast
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, _ast.AST):
            if "lineno" in item._attributes:
                item.__dict__.update(_place(node))
            waiting += [getattr(item, f) for f in item._fields if hasattr(item, f)]
    return tree


def _inner(code, name):
    return next(c for c in code.co_consts if isinstance(c, type(code)) and c.co_name == name)


# ---------------------------------------------------------------- frames

def _store(frame, changes):
    """Rebinds locals of a running function; returns notes."""
    where = "%s() " % frame.f_code.co_name
    if not _runs(frame):
        return ["%shas ended meanwhile: %s not changed" % (where, ", ".join(changes))]
    if not _SNAPSHOTS:
        # Each is one C call under the GIL; since 3.14 the frame keeps the old value for loads that borrowed it
        # (Objects/frameobject.c framelocalsproxy_setitem, f_overwritten_fast_locals).
        for name, value in changes.items():
            frame.f_locals[name] = value
        return []
    problem = on_main_thread(lambda: _locals_to_fast(frame, changes), WRITE_WAIT)
    return [problem + ": %s of %snot changed" % (", ".join(changes), where)] if problem else []


def _runs(frame):
    if frame.f_code.co_flags & _SUSPENDS:
        return True
    other = sys._current_frames().get(_thread_of_frames())
    while other is not None and other is not frame:
        other = other.f_back
    return other is frame


def _locals_to_fast(frame, changes):
    """CPython <= 3.12, on the main thread, which therefore doesn't move while this runs. PyFrame_LocalsToFast without
    `clear` writes the names that the snapshot holds and no others, so the snapshot is emptied first."""
    import ctypes
    if not _runs(frame):
        return
    held = _empty(frame)
    values = frame.f_locals if held is None else held
    values.update(changes)
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    if held is not None:
        held.clear()


def _empty(frame):
    """Empties the snapshot and returns it. None, and it stays, where somebody else has it (`config = locals()` gives
    out the very same dict), or where a debugger or profiler is on: their call is framed by a copy into the snapshot and
    a copy back that unbinds every name that it lacks (Python/sysmodule.c call_trampoline)."""
    if sys.gettrace() is not None or sys.getprofile() is not None or frame.f_trace is not None:
        return None
    values = frame.f_locals
    if sys.getrefcount(values) > 3:   # the frame's, ours, the argument's
        return None
    values.clear()
    return values


def release(frames):
    """CPython <= 3.12: reading frame.f_locals leaves a snapshot in the frame that keeps every local alive, the last
    activations too, until it is read again or the function ends. Emptied on the main thread, when it comes by."""
    if _SNAPSHOTS and frames:
        def let_go_of():
            for frame in frames:
                _empty(frame)
        on_main_thread(let_go_of, 0)


def let_go(frame):
    """CPython <= 3.12: empties the snapshot that reading this frame's f_locals has just left in it. On this thread and at
    once where the frame is another thread's: until the main thread comes by, a reference would keep that frame alive."""
    if not _SNAPSHOTS:
        return
    threading = sys.modules.get("threading")
    top = sys._current_frames().get(threading.main_thread().ident) if threading is not None else None
    if threading is None or _outermost(top) is _outermost(frame):
        release([frame])
    else:
        _empty(frame)


def _outermost(frame):
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _make_pending():
    """What the main thread shall do, and the C function that it is told to call for it, which must outlive its last return.
    An exception in there is a signal handler's of the user's, which happened to run now: it is raised again where the
    main thread goes on."""
    import ctypes
    from collections import deque
    calls = deque()

    def make_calls(_argument, calls=calls):
        try:
            while calls:
                call = calls.popleft()
                try:
                    function, done = call.pop()
                except IndexError:
                    continue
                try:
                    function()
                finally:
                    done.release()
                    function = None
        except BaseException as error:
            import ctypes
            import threading
            ident = ctypes.c_ulong(threading.main_thread().ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(type(error)))
        return 0
    return calls, ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(persistent.bare(make_calls))


_pending = None    # (calls, C function), once needed


def retire():
    """Before a detach: what the main thread has not come by to do is not done any more; what need not be done there is
    done here."""
    moment = sys.modules.get(__package__ + ".moment")
    if moment is not None:
        moment.retire()
    while _pending is not None and _pending[0]:
        call = _pending[0].popleft()
        try:
            function, done = call.pop()
        except IndexError:
            continue
        if function.__name__ == "let_go_of":
            function()
        done.release()


def on_main_thread(function, wait):
    """Has the main thread call the function between two of its own bytecodes, and waits up to `wait` seconds.
    Returns "" or why it didn't happen; after a wait in vain it never will (with wait 0 it will, sooner or later)."""
    global _pending
    stop = getattr(sys.modules.get(__package__ + ".moment"), "_stop", None)
    if stop is not None:    # it stands still, and no pending call comes before it goes on
        return "" if stop.call(function, wait) else "the main thread was busy for %g s" % wait
    try:
        import ctypes
    except ImportError:
        return "this Python has no ctypes"
    import _thread
    if _pending is None:
        _pending = persistent.get("pending.1", _make_pending)
    calls, thunk = _pending
    done = _thread.allocate_lock()
    done.acquire()
    call = [(function, done)]
    calls.append(call)
    if ctypes.pythonapi.Py_AddPendingCall(thunk, None) != 0:
        call.clear()
        return "the main thread has too much to do"
    if wait and not done.acquire(timeout=wait):
        try:
            call.pop()
            return "the main thread was busy outside Python for %g s" % wait
        except IndexError:   # it has just begun
            done.acquire(timeout=wait)
    return ""
