"""The extension for IPython and Jupyter, `%load_ext memgauge`: docs/notebooks.md.

IPython is never imported here: the shell that loads the extension is IPython's already. Nothing of the user's is kept
alive by what is kept between two cells, which is names, sizes and lines; and no error of ours reaches a cell."""
from . import extension

_loaded = None


def load_ipython_extension(shell):
    """Called by `%load_ext memgauge`."""
    global _loaded
    if _loaded is None:
        _loaded = extension.Extension(shell)
        _loaded.on()


def unload_ipython_extension(shell):
    """Called by `%unload_ext memgauge`."""
    global _loaded
    loaded, _loaded = _loaded, None
    if loaded is not None:
        loaded.off()
