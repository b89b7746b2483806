"""The optimizers of a training, by number. Unlike an id, a number is not reused after an optimizer is gone."""
import itertools
from weakref import ref

MAX_OPTIMIZERS = 64

_NOBODY = type(None), 0  # calling type(None) gives None, like the weak reference to a freed optimizer


class Optimizers:
    """The table of optimizers. It keeps none alive."""

    def __init__(self):
        self._known = {}  # id -> (weak reference, number)
        self._numbers = itertools.count(1)

    def number(self, optimizer):
        """Returns an optimizer's number; 0 if it was not seen before."""
        known, number = self._known.get(id(optimizer), _NOBODY)
        return number if known() is optimizer else 0

    def gone(self):
        """Returns the numbers of freed optimizers, and forgets them."""
        return [self._known.pop(key)[1] for key in [key for key, (known, _) in self._known.items() if known() is None]]

    def enter(self, optimizer):
        """Gives it a number."""
        if len(self._known) >= MAX_OPTIMIZERS:
            self._known.clear()
        number = next(self._numbers)
        self._known[id(optimizer)] = ref(optimizer), number
        return number

    def key(self, number):
        """Returns the id of the optimizer with this number; None if there is none."""
        for key, (known, other) in self._known.items() if number else ():
            if other == number and known() is not None:
                return key
        return None

    def alive(self):
        return [optimizer for optimizer in [known() for known, _ in self._known.values()] if optimizer is not None]
