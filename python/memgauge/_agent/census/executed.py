"""Which lines of a function have run.

From CPython 3.11 on an instruction that may be specialized has a counter behind it in the bytecode, which its first
runs change (`adaptive_counter_warmup` in Include/internal/pycore_code.h). The raw bytes are `code._co_code_adaptive`.
Before
3.11, and in free-threaded builds, where each thread has a copy, nothing tells."""
import sys

TELLS = sys.version_info >= (3, 11) and "t" not in getattr(sys, "abiflags", "")
# 3.11 counts in functions that have been called eight times; later versions from the first instruction on.
AT_ONCE = sys.version_info >= (3, 12)
_SAMPLE = "a.b(c)\na.b = c\na[b] = c\na += c\na[b]\na == b\nlen(a)\n"
_unused = {}         # operation -> the counter of one that never ran


def lines(code):
    """{line: whether it has run}; a line that is not in it may have."""
    if not TELLS:
        return {}
    if not _unused:
        _unused.update((operation, counter) for _, operation, counter in _counters(compile(_SAMPLE, "", "exec")))
    found = {}
    for line, operation, counter in _counters(code):
        if operation in _unused:
            found[line] = found.get(line, False) or counter != _unused[operation]
    return found if AT_ONCE or any(found.values()) else {}


def _counters(code):
    """(line, operation, its counter) of the instructions that have one."""
    import dis
    raw, plain, line = code._co_code_adaptive, code.co_code, code.co_firstlineno
    for i in dis.get_instructions(code):
        number = getattr(i, "line_number", i.starts_line)
        if number and number is not True:
            line = number
        after = i.offset + 2
        if plain[after:after + 1] == b"\0":      # the operation CACHE
            yield line, i.opname, raw[after:after + 2]
