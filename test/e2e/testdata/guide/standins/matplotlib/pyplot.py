"""The functions that the guide's module calls."""
_figures = {}


class _Figure:
    def __init__(self):
        self.pixels = bytearray(b"\xff") * (1 << 20)


def figure(figsize=None):
    number = max(_figures, default=0) + 1
    _figures[number] = _Figure()
    return _figures[number]


def scatter(x, y):
    _figures[max(_figures)].points = len(x), len(y)


def savefig(path, dpi=None, bbox_inches=None):
    with open(path, "wb") as f:
        f.write(b"\x89PNG")


def get_fignums():
    return sorted(_figures)


def close(which=None):
    if which == "all":
        _figures.clear()
    elif _figures:
        _figures.pop(max(_figures) if which is None else which, None)
