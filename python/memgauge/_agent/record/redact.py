"""Hides secrets by the rules of internal/base/secret, in everything that the agent writes into a ring: a ring lies on a
disk. The rules are generated (_secrets.py); what is done with them is written twice, here and in internal/base/secret,
and a test compares the two. re and the rules are needed only for a text that may hold a secret: most don't, and are
told by a glance.
"""

import sys

from ..pipe import proc

# characters, or bytes of a command line; a ring keeps half. re holds the GIL: so many take 80 ms at worst
MAX_TEXT = 4096
_rules = None    # compiled when first needed: some 20 ms once, on the thread that writes such a text


def text(string):
    """The string without its secrets."""
    string = string[:MAX_TEXT]
    if _harmless(string):
        return string
    try:
        for rule in _rules or _compile():
            string = rule.apply(string)
    except Exception:       # a program may have a re.py of its own: then nothing that is suspicious is written
        return "<redacted>"
    return string


def args(arguments):
    """A command's arguments without their secrets."""
    if not arguments:
        return []
    joined = "\x1f".join(text(a).replace("\x1e", " ").replace("\x1f", " ").replace(" ", "\x1e") for a in arguments)
    return [a.replace("\x1e", " ") for a in text(joined).split("\x1f")]


def command_line():
    """This process's, without its secrets, and longer than a ring keeps it: a secret that was cut may not be known for
    one."""
    try:
        arguments = proc("/proc/self/cmdline", MAX_TEXT).decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:     # a root directory without /proc
        arguments = getattr(sys, "orig_argv", None) or getattr(sys, "argv", [])
    return " ".join(args(arguments))


_MARKERS = None
_ALNUM = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-+")


def _harmless(string):
    """Whether no rule can match: neither a marker nor a long word is in it."""
    global _MARKERS
    if _MARKERS is None:
        from ._secrets import MARKERS
        _MARKERS = MARKERS
    low = string.lower()
    for marker in _MARKERS:
        if marker in low:
            return False
    run = 0
    for c in low:
        if c in _ALNUM:
            run += 1
            if run >= 12:
                return False
        else:
            run = 0
    return True


def _compile():
    global _rules
    from ._redactor import Rule
    from ._secrets import PATTERNS
    _rules = [Rule(*p) for p in PATTERNS]
    return _rules
