"""What a process remembers from one census to the next, and the time that it has left for them."""
from _weakref import ref as weak
from time import monotonic_ns

SHARE = 0.5              # of the budget may go to censuses; the rest is for what observes all the time
WINDOW = 60_000_000_000  # ns over which the budget is kept: a purse holds no more
MAX_MARKS = 20_000       # tensors remembered from census to census, some 150 bytes each


class Purse:
    """ns that censuses may take."""

    def __init__(self):
        self.level = self.at = None

    def look(self, budget):
        now, full = monotonic_ns(), budget * SHARE * WINDOW
        if self.level is None:
            self.level = full
        else:
            self.level = min(full, self.level + (now - self.at) * budget * SHARE)
        self.at = now
        return self.level

    def wait(self, wanted, budget):
        """s until it holds so much."""
        return max(0, wanted - self.level) / (budget * SHARE) / 1e9


class Marks:
    """Tensors seen before, known by weak references."""

    def __init__(self):
        self.refs, self.first = {}, {}
        self.step = 0

    def see(self, t):
        """(not seen before, step of the census that saw it first; 0 for this one)"""
        known = self.refs.get(id(t))
        if known is not None and known() is t:
            return False, self.first[id(t)]
        if len(self.refs) < MAX_MARKS:
            self.refs[id(t)], self.first[id(t)] = weak(t), self.step
        return True, 0

    def prune(self, begin, size):
        """Forgets tensors that are gone, among `size` of them from the `begin`th on; False at the end."""
        keys = list(self.refs)[begin:begin + size]
        for key in keys:
            if self.refs[key]() is None:
                del self.refs[key], self.first[key]
        return len(keys) == size


class Memory:
    """What a process remembers of its censuses."""

    def __init__(self):
        self.number = 0
        self.purse, self.marks = Purse(), Marks()
        # hash of a holder or of a type's name -> number
        self.lengths, self.types, self.graphs, self.library, self.others = {}, {}, {}, {}, {}
        self.roots = set()
        self.samples = {}        # id of a class of the program's -> weak references to some instances
        self.last_cost = 30_000_000
        self.running = None
        self.told = 0            # ns, CLOCK_MONOTONIC: when the cost of one was last told
