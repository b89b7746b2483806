"""Which optimizer event ends a step.

A step is one iteration of the training, whatever it is made of: a GAN steps two optimizers in it, ZeRO steps one
optimizer once for each group of parameters, a subclass that calls super().step() reports the same step twice.
The closer is the optimizer seen least often of late; among equals, the one that comes last in the order of first sight.

Root modules can be watched only now and then (watching costs). While they are, a step ends at the closer's first event
after a root module ran forward, and the number of the closer's events in a step is learned. While they are not, that
number is counted off instead. Nothing here keeps an optimizer alive: `key` is a number.
"""
from collections import deque

WINDOW = 64  # number of past events that count: 10 iterations of a GAN with five critic steps
LOST = 3  # events without the closer, beyond twice the usual, after which it counts as gone


class Steps:
    """event() says how many steps an optimizer event ends: none, one, or more when it is learned that some were
    missed."""

    def __init__(self):
        self.forwards = 0  # root forwards since the last end, while watched
        self.ever_forward = False
        self.burst = 1  # the closer's events in one step
        self._forget()

    def _forget(self):
        self.events = deque(maxlen=WINDOW)
        self.counts = {}
        self.order = []
        self.closer = None
        self.since = 0  # events since the last end
        self.usual = 0  # most events seen between two ends
        self.burst_seen = 0  # the closer's events since the last end
        self.watched_whole = False  # the modules were watched ever since the last end

    @property
    def solo(self):
        """The only optimizer there is, when each of its events ends a step: the caller may then count without
        asking."""
        if len(self.order) == 1 and self.burst == 1 and len(self.events) >= 2:
            return self.closer
        return None

    def forward(self):
        """A root module ran forward; to be called only while modules are watched."""
        self.forwards += 1
        self.ever_forward = True

    def event(self, key, watched):
        """An optimizer stepped. `watched`: root forwards are being reported. Gives the number of steps that this
        ends."""
        self.since += 1
        # A closer that steps without forwards may be at a step's other parameter groups: give it as long as we
        # remember.
        patience = WINDOW if self.burst_seen else 2 * self.usual + LOST
        stuck = key != self.closer or watched and self.ever_forward and not self.forwards
        if self.usual and stuck and self.since > min(patience, WINDOW):
            return self._relearn(key)
        self._note(key)
        if key != self.closer:
            return 0
        self.burst_seen += 1
        if watched and self.ever_forward:
            return self._end(watched) if self.forwards else 0
        return self._end(watched) if self.burst_seen >= self.burst else 0

    def gone(self, key):
        """An optimizer was freed: its training has ended, and what was learned doesn't hold for the next one."""
        if key not in self.counts:
            return
        events = [event for event in self.events if event != key]
        was_closer = key == self.closer
        if was_closer or not events:
            self._forget()
            self.burst, self.ever_forward = 1, self.forwards > 0    # the next one's forwards may run in compiled code
            for event in events:
                self._note(event)
            return
        self.events = deque(events, WINDOW)
        del self.counts[key]
        self.order.remove(key)

    def unwatched(self):
        """From now on root forwards are not reported, so their absence means nothing."""
        self.watched_whole = False

    def _relearn(self, key):
        """The closer went away (another training began), or its forwards can't be seen any more (they run in compiled
        code). The steps that were missed since are found by starting again without regard to forwards."""
        missed = list(self.events)[1 - self.since:] + [key]
        seen = self.forwards > 0
        self._forget()
        self.burst, self.ever_forward = 1, seen
        for event in missed:
            self._note(event)
        self.forwards = 0
        afresh = Steps()
        return sum(afresh.event(event, False) for event in missed)

    def _end(self, watched):
        # The event that ends a step is the first after a forward; those before it since the last end are the rest of
        # the step before. Both together are one step's worth.
        if watched and self.watched_whole and self.ever_forward:
            self.burst = self.burst_seen
        self.watched_whole = watched
        self.usual = max(self.usual, self.since)
        self.since = self.burst_seen = self.forwards = 0
        return 1

    def _note(self, key):
        if len(self.events) == WINDOW:
            self._drop(self.events[0])
        self.events.append(key)
        if key in self.counts:
            self.counts[key] += 1
            if len(self.order) == 1:
                return
        else:
            self.counts[key] = 1
            self.order.append(key)
        fewest = min(self.counts.values())
        # one more than the fewest is still the same: the window rarely ends where an iteration does
        self.closer = [k for k in self.order if self.counts[k] <= fewest + 1][-1]

    def _drop(self, key):
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            self.order.remove(key)
