"""Sizes as text, both ways."""
import re

_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "kb": 1 << 10, "mib": 1 << 20, "mb": 1 << 20, "gib": 1 << 30, "gb": 1 << 30,
          "tib": 1 << 40, "tb": 1 << 40}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*(?:/\s*step)?\s*$")


def parse(text):
    """Bytes of "10 KiB", "2GiB", "10 KiB/step"; "MB" is 2^20 bytes too. ValueError says what is wrong."""
    found = _SIZE.match(str(text))
    if not found or found.group(2).lower() not in _UNITS:
        raise ValueError('%r is no size: write "10 KiB", "1.5 GiB"' % (text,))
    return float(found.group(1)) * _UNITS[found.group(2).lower()]


def show(size):
    """A size in the unit that fits."""
    sign, size = "-" if size < 0 else "", abs(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "TiB"
    return "%s%.*f %s" % (sign, 0 if unit == "B" else 1 if size >= 10 else 2, size, unit)
