"""Writes the records of a step: the step itself, its gauges, and the heap."""
import gc
from time import monotonic_ns as now
from time import thread_time_ns as cpu_now

from ..record._spec import FLAG_INFERENCE, FLAG_SAMPLED, NOT_TAKEN
from .governor import MAX_STEPS
from .sampling import BEFORE, IDLE, SAMPLED


class StepRecords:
    """The part of an Observer that writes step records."""

    def _record_due(self, steps):
        if steps <= 0:
            return False
        return self.phase in (BEFORE, SAMPLED) or self.governor.all or steps >= self.governor.steps_per_record

    def _record(self, at, flush=False):
        """Writes the step record and the records before it. Returns what that cost, in ns."""
        recorded, last = self.counter.recorded()
        steps, number = self.step - recorded, self.step
        if steps <= 0 or self.ring is None:
            return 0
        host = None
        self.phases.step_ended(number)
        # Not in a window, where it would count as the sample's cost, nor at a flush: at exit half of the memory is
        # gone.
        reading = not flush and (self.phase == IDLE or self.governor.all) and self.host.heap_due(at)
        self.gauged = number >= self.gauges_at or flush or reading
        if self.gauged:
            self.gauges_at = number + self.governor.gauge_gap * self.governor.steps_per_record
            host = self._host()
            if self.cuda.ready() and not self.cuda.capturing():
                self._devices(number, at)
        if reading:
            self._heap(at, number)
        wrote = now()
        flags = (FLAG_SAMPLED if self.phase == SAMPLED and self.modules else 0) | (FLAG_INFERENCE if self.inference
            else 0)
        duration = at - last if last else NOT_TAKEN
        while steps > 0:
            part = min(steps, MAX_STEPS)
            self.ring.step(flags, part, number - steps + part, min(self.tail, 0xFFFFFFFF), duration, host, at)
            steps -= part
            duration = 0
        took = now() - wrote
        self.tail = 0
        self.counter.told(number, at, took, self.offset)
        return took

    def _host(self):
        """A host record's fields: rss, anon, max_rss."""
        rss, anon = self.host.memory()
        highest = self.host.max_resident()
        peak = NOT_TAKEN
        if highest > self.max_resident:
            peak = self.max_resident = highest
        return rss, anon, peak

    def _devices(self, number, at):
        devices = self.calls.devices if self.modules else set()
        devices.add(self.cuda.current())
        for device in devices:
            self.ring.device(0, 0, device, number, 0, *self.cuda.read(device), ts=at)
            failures = self.cuda.failures(device)
            if failures:
                from ..gauges import oom
                oom.caught(device, failures)

    def _heap(self, at, number):
        begin, cpu = now(), cpu_now()
        reading = self.host.heap(at, self.governor.budget, 0 if self.gauged else self.governor.look.value)
        if reading is None:
            return
        in_use, held, blocks, cost = reading
        counts = [generation["collections"] for generation in gc.get_stats()]
        full, self.gc_full = counts[-1] - self.gc_full, counts[-1]
        self.ring.heap(0, min(full, 0xFFFF), number, sum(counts) & 0xFFFFFFFF, in_use, held, blocks, cost, ts=at)
        self.heap_cost, self.heap_cpu = now() - begin, cpu_now() - cpu
        self.costs.add("heap", self.heap_cost)
