"""How the names in an eval are resolved, and where its assignments are stored.

The code runs in the real `__main__`. A name that `__main__` lacks is looked up in the running functions of the user's
code on the main thread, innermost first, then among the globals of their modules. Code that needs no such name is
executed unchanged. Other code is compiled as the body of a function whose free variables are those names. So
comprehensions, nested functions, lambdas and class bodies see them by Python's own scoping rules. Every other name
that the code assigns is a global of the real `__main__`. Functions that outlive the eval hold only what they use.

Locals are read when the code starts and written, if it has changed them, when it ends.
"""
import sys

from .. import frames, mainthread, state

FILENAME = "<memgauge eval>"
MOST_MADE = 1_000    # names that evals have made are remembered
WRITE_WAIT = 1.0     # s for the main thread to reach a bytecode, where a local can be changed; most steps are shorter

_AST = 0x400         # ast.PyCF_ONLY_AST; `import ast` alone takes milliseconds
_OPTIMIZED = 1       # code.co_flags: locals are not kept in a dict
_SUSPENDS = 0x20 | 0x80 | 0x200  # generators and coroutines: not on the stack, and yet not ended


class Home:
    """Where a name of the code lives: a function's local variable or a global of another module."""

    def __init__(self, name, value, frame=None, module=None):
        self.name, self.value, self.frame, self.module = name, value, frame, module


def user_frames():
    """The main thread's frames of the user's code, innermost first. Where no function among them is the user's (the
    program is an installed package), those of installed packages count too, except torch."""
    stack = frames.stack(frames.innermost_of(_thread_of_frames()))
    users = [f for f in stack if not is_ours_or_python(f.f_code.co_filename)]
    own = [f for f in users if not is_installed(f.f_code.co_filename)]
    if any(f.f_code.co_flags & _OPTIMIZED for f in own):
        return own
    return [f for f in users if "/torch/" not in f.f_code.co_filename]


def _thread_of_frames():
    """The thread whose functions the code sees: the one that stands still for it, else the main thread."""
    import threading
    stop = mainthread.stopped
    return stop.ident if stop is not None else threading.main_thread().ident


def is_installed(filename):
    return "site-packages/" in filename or "dist-packages/" in filename


def is_ours_or_python(filename):
    import os
    standard = os.__file__.rpartition("/")[0] + "/"   # site-packages lies below it
    return filename.startswith(("<frozen", "<memgauge", state.PACKAGE, standard)) and not is_installed(filename)


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
                values = frames.values(frame)
                read.append(frame)
                homes.update((n, Home(n, values[n], frame=frame)) for n in held if n in values)
                del values
        else:
            space = frames.values(frame)
            if space is not frame.f_globals:   # a class body: its namespace is a dict
                homes.update((n, Home(n, space[n], module=space)) for n in missing if n in space)
        missing.difference_update(homes)
        module = frame.f_globals
        if module is not main:
            homes.update((n, Home(n, module[n], module=module)) for n in missing if n in module)
            missing.difference_update(homes)
    return homes, read


# ---------------------------------------------------------------- the code

def _parsed(source, tries=20):
    """The source's tree. CPython 3.11 counts the depth of trees in one place for all threads (gh-106905): that another
    thread makes one at the same time is a SystemError."""
    try:
        return compile(source, FILENAME, "exec", _AST, dont_inherit=True)
    except SystemError:
        if tries == 0:
            raise
    return _parsed(source, tries - 1)


class Program:
    """One piece of code, ready to run; run once, then write_back, then close."""

    def __init__(self, source, main):
        self.main = main
        self.homes, self.cells = {}, {}
        tree = _parsed(source)
        code = compile(source, FILENAME, "exec", dont_inherit=True)   # every SyntaxError comes from the code as it is
        futures = code.co_flags & _future_flags() if "__future__" in source else 0
        names = _names(code)
        new = {n for n in names if n not in main or n in state.evaluated}
        self.made = new and new & _bound(source)
        homes, read = find(names, main)
        if homes:
            homes = {n: h for n, h in homes.items() if n in _free_names(source)}
        theirs = dict({n: main[n] for n in names - new}, **{n: h.value for n, h in homes.items()})
        self.notes = _without_placeholders(tree, theirs)
        try:
            if homes:
                self.run = self._enclosed(source, tree, futures, homes)
            else:
                self.run = self._plain(tree, futures)
        finally:
            mainthread.release(read)

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
        notes, stores = self.notes, {}
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
                stores.setdefault(home.frame, {})[name] = value
        for frame, changes in stores.items():
            notes += _store(frame, changes)
        return notes

    def close(self):
        """Releases all objects of the trainer. Functions that the code has left behind keep their own cells. A census
        must know which names the code made: what these keep alive the program would not."""
        for name in self.made if self.main is not None else ():
            state.evaluated.pop(name, None)
            if name in self.main and len(state.evaluated) < MOST_MADE:
                state.evaluated[name] = id(self.main[name])
        self.homes, self.cells, self.run, self.main = {}, {}, None, None


def _without_placeholders(tree, theirs):
    """Leaves out `step = ...` where the program has a step: documents write so where a value is to be put in, and it
    would end a training that counts in it. Returns a note about each."""
    import _ast
    notes = []
    for i, node in enumerate(tree.body):
        if isinstance(node, _ast.Assign) and getattr(node.value, "value", None) is ...:
            named = [getattr(target, "id", None) for target in node.targets]
            if all(theirs.get(name, ...) is not ... for name in named):
                tree.body[i] = _ast.Pass(**_place(node))
                notes.append("`%s = ...` is left out: the program has that variable, and its value is used"
                             % " = ".join(named))
    return notes


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
    return _parsed(text)


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
    if not mainthread.SNAPSHOTS:
        # Each is one C call under the GIL; since 3.14 the frame keeps the old value for loads that borrowed it
        # (Objects/frameobject.c framelocalsproxy_setitem, f_overwritten_fast_locals).
        for name, value in changes.items():
            frame.f_locals[name] = value
        return []
    problem = mainthread.on_main_thread(lambda: _locals_to_fast(frame, changes), WRITE_WAIT)
    return [problem + ": %s of %snot changed" % (", ".join(changes), where)] if problem else []


def _runs(frame):
    if frame.f_code.co_flags & _SUSPENDS:
        return True
    return any(f is frame for f in frames.stack(frames.innermost_of(_thread_of_frames())))


def _locals_to_fast(frame, changes):
    """CPython <= 3.12, on the main thread, which therefore doesn't move while this runs. PyFrame_LocalsToFast without
    `clear` writes the names that the snapshot holds and no others, so the snapshot is emptied first."""
    import ctypes
    if not _runs(frame):
        return
    held = mainthread.empty(frame)
    values = frames.values(frame) if held is None else held
    values.update(changes)
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    if held is not None:
        held.clear()
