"""Functions of a library whose calls go through us, by an exchange of their code objects, as that of Module.__call__ is
exchanged (hooks.py). The new code has the same parameters. It finds us through a name in the library's module, and is
out of the way while torch.compile traces: what that makes of the function is what it would make without us.
"""
from types import CodeType, FunctionType

from .hooks import copy_of

SOURCE = """
def outer({free}):
    def _memgauge_made({parameters}):
        try:
            _memgauge_now = {ours}
        except NameError:
            return {again}({arguments})
        if _memgauge_now[0]():
            return _memgauge_now[1]({arguments})
        return _memgauge_now[2]({arguments})
        if 0: ({free})
"""


def _again(function, owner, name):
    """What stands for the function itself within it: it is called by a thread that was just entering ours when the
    names went."""
    space = function.__globals__
    if space.get(owner) is not None:
        return owner + "." + name
    if space.get(name) is function:
        return name
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if isinstance(cell.cell_contents, FunctionType):
            return free      # it is a wrapper, of this
    raise ValueError("nothing stands for it in its module")


def _same_shape(code, ours, again):
    """Code with the parameters and free variables of another's, which calls what stands as `ours` in its globals."""
    names, count, only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    positional, keywords = names[:count], names[count:count + only]
    rest = list(names[count + only:])
    star = "*" + rest.pop(0) if code.co_flags & 4 else "*" if keywords else ""
    double = "**" + rest.pop(0) if code.co_flags & 8 else ""
    parameters = list(positional)
    if getattr(code, "co_posonlyargcount", 0):
        parameters.insert(code.co_posonlyargcount, "/")
    arguments = list(positional) + ([star] if len(star) > 1 else []) + ["%s=%s" % (k, k) for k in keywords]
    parameters += ([star] if star else []) + list(keywords)
    if double:
        parameters.append(double)
        arguments.append(double)
    space = {}
    source = SOURCE.format(free=", ".join(code.co_freevars), parameters=", ".join(parameters),
                           arguments=", ".join(arguments), ours=ours, again=again)
    exec(compile(source, code.co_filename, "exec"), space)
    made = next(c for c in space["outer"].__code__.co_consts if isinstance(c, CodeType))
    if made.co_freevars != code.co_freevars:
        raise ValueError("free variables in another order")
    named = {"co_qualname": code.co_qualname} if hasattr(code, "co_qualname") else {}
    return made.replace(co_name=code.co_name, co_firstlineno=code.co_firstlineno, **named)


class Noticed:
    """A function of a library, whose calls go through around(plain, args, kwargs). Its code is exchanged, so that it is
    found whoever has imported it."""

    def __init__(self, function, owner, name, around, dynamo):
        self.function, self.original = function, function.__code__
        plain = copy_of(function)

        def through(*args, **kwargs):
            return around(plain, args, kwargs)

        self.name = "_memgauge_around_" + name
        self.ours = _same_shape(self.original, self.name, _again(function, owner, name))
        function.__globals__[self.name] = dynamo.compiling, plain, dynamo.skip(through)
        function.__code__ = self.ours

    def off(self):
        if self.function.__code__ is self.ours:
            self.function.__code__ = self.original
        self.function.__globals__.pop(self.name, None)
