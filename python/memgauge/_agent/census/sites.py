"""Which line of the program makes a place grow.

No allocation is traced: that would slow every run for the few that leak. Instead the program's bytecode is searched for
statements that add to the holder: `NAME.append(…)`, `NAME[…] = …`, `NAME += …`. If the program has tracemalloc on, that
knows the line of the allocation and is used first.
"""
import sys
from types import CodeType

from . import introspect

GROWS = frozenset((
    "append", "appendleft", "add", "extend", "extendleft", "insert", "update", "setdefault", "push", "put",
    "put_nowait",
    "push_back", "addHandler", "writelines", "write"))
INSERTERS = frozenset(("heappush", "insort", "insort_left", "insort_right"))   # functions: the container is an argument
JOINS = frozenset(("cat", "stack", "concat", "concatenate", "vstack", "hstack"))
HOOKS = {
    "_forward_hooks": ("register_forward_hook",),
    "_forward_pre_hooks": ("register_forward_pre_hook",),
    "_backward_hooks": ("register_full_backward_hook", "register_backward_hook", "register_hook"),
    "_backward_pre_hooks": ("register_full_backward_pre_hook",),
    "_state_dict_hooks": ("register_state_dict_post_hook", "_register_state_dict_hook"),
    "_load_state_dict_post_hooks": ("register_load_state_dict_post_hook",),
    "open_figures": ("figure", "subplots", "subplot_mosaic"),    # matplotlib.pyplot's
    "_optimizer_step_post_hooks": ("register_step_post_hook",),
    "_optimizer_step_pre_hooks": ("register_step_pre_hook",),
}
# Names that a program may use for its own variables: these functions count only if no statement of the program adds.
REGISTERS = {
    "_buffers": ("register_buffer",),
    "_parameters": ("register_parameter",),
    "_modules": ("add_module", "register_module"),
    "param_groups": ("add_param_group",),
    "_registry": ("finalize",),
    "_callbacks": ("register",),
}
ADDS, STORES, ACCUMULATES, ASSIGNS = 4, 3, 2, 1    # how surely a statement makes something grow
MAX_CODES = 20_000     # functions of the program
ALLOCATES = ("alloc", "create", "new", "open", "map", "init", "incref")


class Codes:
    """The code objects of the program's own modules, each with the globals that it runs with (by the module's name)."""

    def __init__(self):
        self.codes = []        # (code, module's name)
        self._seen = set()

    def gather(self, name, module):
        """Of one module."""
        for value in list(introspect.module_dict(module).values()):
            self._of(value, name, 0)

    def add(self, code, name):
        """A code and those within it."""
        if id(code) in self._seen or len(self.codes) >= MAX_CODES:
            return
        self._seen.add(id(code))
        self.codes.append((code, name))
        for constant in code.co_consts:
            if type(constant) is CodeType:
                self.add(constant, name)

    def _of(self, value, name, depth):
        cls = type(value)
        code = getattr(value, "__code__", None) if cls is type(introspect.is_user_file) else None
        if code is not None:
            if introspect.is_user_file(code.co_filename):
                self.add(code, name)
            wrapped = value.__closure__      # what a decorator has wrapped
            for cell in wrapped or ():
                try:
                    inner = cell.cell_contents
                except ValueError:
                    continue
                if type(inner) is cls and depth < 4:
                    self._of(inner, name, depth + 1)
        elif cls in (staticmethod, classmethod):
            self._of(value.__func__, name, depth + 1)
        elif cls is property:
            for part in (value.fget, value.fset):
                if part is not None:
                    self._of(part, name, depth + 1)
        elif introspect.isinstance_of(value, type) and depth < 3:
            module = introspect.namespace(value).get("__module__")
            if module == name:
                for inner in list(introspect.namespace(value).values()):
                    self._of(inner, name, depth + 1)


def mentions(code, name):
    return name in code.co_names or name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars


def _instructions(code):
    """(line, operation, argument, its text, what the instruction does to the stack's depth). The attribute for the line
    has changed its meaning in 3.13."""
    import dis
    line = code.co_firstlineno
    for i in dis.get_instructions(code):
        number = getattr(i, "line_number", i.starts_line)
        if number and number is not True:
            line = number
        try:
            effect = dis.stack_effect(i.opcode, i.arg if i.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        except ValueError:
            effect = 0
        yield line, i.opname, i.argval, i.argrepr, effect


def growing(code, name, attribute, function, registered=False):
    """{line: how surely} of the statements in a code that make `name` grow. `attribute`: it is looked up on an object,
    not as a variable; `function`: it is a local variable there; `registered`: by a library's method that adds to what
    has this name.

    The depth of the stack is followed, so that it is known what a method is looked up on and into what is stored. Jumps
    disturb it, but within a statement it is right again."""
    hooks = REGISTERS.get(name) if registered else HOOKS.get(name)
    statements = {}
    depth = 0
    at = []                  # where on the stack values of the name lie, or items of them
    argument = None          # where the first argument of a function that inserts lies
    loaded = inserter = joined = 0   # lines in which the name, a function that inserts, and an addition were met
    for line, operation, value, text, effect in _instructions(code):
        found = 0
        if operation == "LOAD_CONST":
            value = None             # a text is no name
        pair = type(value) is tuple and len(value) == 2     # 3.13: LOAD_FAST_LOAD_FAST, STORE_FAST_LOAD_FAST …
        if hooks:
            found = ADDS if value in hooks and operation.startswith("LOAD") else 0
        elif operation.startswith("LOAD") or pair:
            on_top = depth - 1 in at
            if inserter == line and argument is None:
                argument = depth + effect - 1
            if pair and operation.startswith("STORE") and value[0] == name and not attribute:
                found = ACCUMULATES if joined == line else ASSIGNS
            if value == name and _fits(operation, attribute, function) or pair and not attribute and name in value:
                top = depth + effect - 1
                if pair and value[0] == name and not operation.startswith("STORE"):
                    top -= 1
                loaded = line
                at = [p for p in at if p < top] + [top]
                if inserter == line and top == argument:
                    found = ADDS
            elif value in GROWS and on_top and operation in ("LOAD_ATTR", "LOAD_METHOD"):
                found = ADDS
            elif value in INSERTERS:
                inserter, argument = line, None
            elif value in JOINS:
                joined = line
            elif on_top and operation in ("LOAD_ATTR", "LOAD_METHOD"):
                at.pop()     # `name.other…`: it is about something else
        elif operation == "STORE_SUBSCR":
            found = STORES if depth - 2 in at else 0
        elif operation.startswith(("INPLACE_", "BINARY_OP", "BINARY_ADD")):
            if (depth - 1 in at or depth - 2 in at) and "[]" not in text:
                joined = line
        elif operation.startswith("STORE") and value == name and ("ATTR" in operation) >= attribute:
            found = ACCUMULATES if joined == line == loaded else ASSIGNS
        if found:
            statements[line] = max(found, statements.get(line, 0))
        depth += effect
        while at and at[-1] >= depth:
            at.pop()
    return statements


def _fits(operation, attribute, function):
    if attribute:
        return "ATTR" in operation
    if function:
        return "FAST" in operation or "DEREF" in operation or "CLOSURE" in operation
    return "METHOD" not in operation and "ATTR" not in operation


def attributes_stored(code, name):
    """The lines of the statements that put something into an attribute."""
    return {line for line, operation, value, _, _ in _instructions(code) if operation == "STORE_ATTR" and value == name}


def names_of(labels):
    """The names in a place's labels, the innermost first, as a statement would mention them: (name, whether it is an
    attribute, the function whose local it is or "")."""
    out = []
    for label in reversed(labels):
        if label.startswith(" "):            # a frame of a traceback
            continue
        if label in ("[*]", ".key", ".__self__", ".?") or label.startswith("['"):
            continue
        name = label.rpartition(".")[2].partition("[")[0]
        if name.isidentifier() and name not in ("self", "cls"):
            attribute = label.startswith(".") and not label.startswith(".<")
            out.append((name, attribute, label.rpartition("().")[0].rpartition(".")[2]))
    return out


def where(code, line):
    return "%s:%d" % (code.co_filename, line)


FREEZES = frozenset(("freeze",))
SHARES = frozenset(("SharedMemory", "ShareableList", "memfd_create", "shm_open", "share_memory_", "share_memory"))
MAPS = frozenset(("memmap", "mmap", "open_memmap", "mmap_mode"))
_MAKES = SHARES | MAPS | FREEZES


def memory_calls(code):
    """(line, text, kind) of calls that make memory which no container need hold: shared memory, maps of files; and of
    gc.freeze()."""
    options = [c for c in code.co_consts if type(c) is tuple and c and type(c[-1]) is str]     # names of arguments
    words = set(_MAKES) if "gc" in code.co_names else _MAKES - FREEZES
    if any("name" in c for c in options) and not any("create" in c for c in options):
        words -= {"SharedMemory"}        # it opens what is there
    if words.isdisjoint(code.co_names) and not any("mmap_mode" in c for c in options):
        return []
    found = []
    for line, operation, value, _, _ in _instructions(code):
        if operation == "KW_NAMES" and type(value) is not tuple:     # 3.11 doesn't tell which
            value = tuple(name for names in options for name in names)
        if not operation.startswith(("STORE", "IMPORT")):
            for word in words.intersection(w for w in (value if type(value) is tuple else (value,)) if type(w) is str):
                found.append((line, word, "shared" if word in SHARES else "map" if word in MAPS else "freeze"))
    return found


def native_calls(code, space):
    """(line, text) of calls into a native library (ctypes, cffi): nothing else shows what such a library allocates."""
    libraries = {}
    for name in code.co_names:
        value = space.get(name)
        if value is not None:
            module = introspect.type_name(type(value)).partition(".")[0]
            if module in ("ctypes", "_ctypes", "cffi", "_cffi_backend") and not introspect.isinstance_of(value, type):
                libraries[name] = value
            elif value is sys.modules.get("ctypes") and "pythonapi" in code.co_names:
                libraries["pythonapi"] = value
    if not libraries:
        return []
    found, waiting, text = [], None, ""
    for line, operation, value, _, _ in _instructions(code):
        if operation.startswith("LOAD") and value in libraries:
            waiting, text = line, value
            if "FuncPtr" in introspect.type_name(type(libraries[value])):
                found.append((line, text))
        elif waiting and operation in ("LOAD_ATTR", "LOAD_METHOD") and type(value) is str:
            found.append((line, "%s.%s" % (text, value)))
            waiting = None
        else:
            waiting = None
    return sorted(found, key=lambda call: not any(word in call[1].lower() for word in ALLOCATES))


def traced(o):
    """The line that allocated an object, if tracemalloc was on; else ""."""
    tracemalloc = sys.modules.get("tracemalloc")
    if tracemalloc is None or not tracemalloc.is_tracing():
        return ""
    trace = tracemalloc.get_object_traceback(o)
    for frame in reversed(trace or ()):
        if introspect.is_user_file(frame.filename):
            return "%s:%d" % (frame.filename, frame.lineno)
    return ""
