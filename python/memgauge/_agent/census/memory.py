"""What a process remembers from one census to the next, and the time that it may spend on them."""
from _weakref import ref as weak
from time import monotonic_ns

from .. import state

SHARE = 0.5              # share of the budget for censuses; the rest is for what observes all the time
WINDOW = 60_000_000_000  # ns over which the budget is kept: a purse holds no more
SAVED = 2_400_000_000    # ns whose share a purse holds at the process's start: 12 ms at 1 %
FIRST_COST = 10_000_000  # ns that a first census is taken to cost: of the program's own, not of libraries
LIBRARIES = 25_000_000   # ns that looking through all of their globals takes, the first time; …
LIBRARIES_AGAIN = 6_000_000  # … and later
TICK = 10_000_000        # ns of a clock tick in /proc (USER_HZ is 100 wherever PyTorch runs)
MAX_MARKS = 20_000       # tensors remembered from census to census, some 150 bytes each


class Purse:
    """The CPU time in ns that censuses may take."""

    def __init__(self):
        self.level = self.at = None

    def look(self, budget):
        now, full = monotonic_ns(), budget * SHARE * WINDOW
        if self.at is None:      # saved up since the process began
            process = state.current
            age = now - int((process.deadline - state.GRACE) * 1e9) if process is not None else 0
            self.level = min(full, (SAVED + age) * budget * SHARE)
        else:
            self.level = min(full, self.level + (now - self.at) * budget * SHARE)
        self.at = now
        return self.level

    def wait(self, wanted, budget):
        """s until it holds that much."""
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
        self.modules = {}        # name -> (id, whether it is the program's own)
        self.listed = None       # how many modules there were, the newest's name, names of the own and of the others
        self.candidates = {}     # a library's name -> (number of its globals, names of those that are containers)
        self.anon = self.named = 0   # bytes: private memory at the last census, and what that has named of it
        self.finalizers = self.loggers = None   # how many there were at the first census
        self.looks = 0           # through all of the collector's objects
        self.unexplained = False # memory grew between the last two censuses, and what they named did not
        self.sites = {}          # hash of a holder's path -> (line that makes it grow or "", census that looked)
        self.native = []         # calls of native libraries and the like: function, line, what is called, its kind
        self.followed = []       # containers that are counted until the next census
        self.last_cost = FIRST_COST
        self.running = None
        self.told = 0            # ns, CLOCK_MONOTONIC: when the cost of one was last told

    def covered(self, ring, took):
        """ns since a cost was last told, or since the process started, for one of `took` ns. A census's cost is a share
        of that time, not of its own duration."""
        at = monotonic_ns()
        since, self.told = self.told or ring.start * TICK, at
        return max(at - since, took)     # start ticks go on while a machine sleeps, this clock does not

    def library_cost(self):
        """ns that looking through libraries' globals takes."""
        return LIBRARIES_AGAIN if self.candidates else LIBRARIES

    def wanted(self, budget):
        """ns that a census needs to begin. Where the program's own objects don't explain what grows, libraries are
        looked at too, and the purse saves up for that."""
        cost = self.last_cost * 1.2 + (self.library_cost() * 1.4 if self.unexplained else 0)
        return min(cost, budget * SHARE * WINDOW)

    def purse_for(self, budget):
        """(ns that a census needs, ns that there are)"""
        return self.wanted(budget), self.purse.look(budget)
