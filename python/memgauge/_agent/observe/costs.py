"""Counts what observing costs, by part, for memgauge.overhead; and records that could not be written."""
from .. import state
from ..record._spec import NOT_TAKEN

MAX_BUDGET_EVENTS = 20  # a governor that oscillates would fill the table of events


class Costs:
    """Of one process, since the record before. All times in ns; steps as the observer numbers them."""

    def __init__(self, governor):
        self.governor = governor
        self.spent = {}  # part -> [ns, times]
        self.since, self.step = 0, 0
        self.told_lost = self.told_gap = self.budget_events = 0

    def add(self, part, ns, times=1):
        entry = self.spent.get(part)
        if entry is None:
            entry = self.spent[part] = [0, 0]
        entry[0] += ns
        entry[1] += times

    def tell(self, ring, step, at):
        """Writes what was spent since the last call until `at`, the end of `step`."""
        steps, covered = step - self.step, at - self.since
        for part, (ns, times) in self.spent.items():
            if times:
                sampled = part == "module hooks"
                gap = (1 if self.governor.all else self.governor.gap) if sampled else NOT_TAKEN
                ring.overhead(int(sampled), 0, ring.name(part), max(0, steps), ns, times, covered, gap)
        self.spent.clear()
        self.since, self.step = at, step
        lost, self.told_lost = ring.lost - self.told_lost, ring.lost
        if lost > 0:  # a new ring begins at 0
            state.event("lost", "records that several threads wrote at once", lost)

    def tell_budget(self, modules):
        """An event when sampling has become four times as rare or as frequent."""
        governor = self.governor
        gap = governor.gap * governor.stride
        if governor.all or governor.samples < 8 or self.budget_events >= MAX_BUDGET_EVENTS:
            return
        if not self.told_gap or gap >= 4 * self.told_gap or self.told_gap >= 4 * gap:
            self.told_gap = gap
            self.budget_events += 1
            text = "one step in %d is sampled, one module in %d of %d" % (governor.gap, governor.stride, modules)
            state.event("budget", text, governor.gap, governor.stride, governor.cost(), governor.step_length())
