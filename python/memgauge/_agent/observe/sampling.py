"""Samples: the steps whose modules are watched, and what watching them costs."""
from .. import ranks, state

IDLE, BEFORE, SAMPLED, AFTER = range(4)  # position of the current step in a sample


class Sampling:
    """The part of an Observer that opens and closes windows for module rows. One plain step is clocked before a sample,
    one after it."""

    def _window(self, cpu):
        """Sets the position in a sample of the step that begins now. `cpu`: this thread's CPU time at the end of the
        last step."""
        if self.governor.off or not self.modules:
            return
        if self.phase == BEFORE:
            self.cpu_before = cpu - self.cpu
            self._begin_sample()
        elif self.phase == SAMPLED:
            self.cpu_sampled = cpu - self.cpu if self.cpu is not None else None
            self.phase = AFTER
            if self.governor.all:
                self._sample_over(None)
        elif self.phase == AFTER:
            self._sample_over(cpu - self.cpu)
        if self.phase == IDLE and self.step >= self.next_sample - 2:
            if self.governor.all or self.step == self.next_sample - 1:
                self.cpu_before = None
                self._begin_sample()
            else:
                self.phase = BEFORE
        self.cpu = cpu

    def _begin_sample(self):
        if self._profiled():
            self.next_sample = self.step + 3
            self.phase = IDLE
            return
        for optimizer in self.optimizers.alive() if not self.compiled else ():
            self.starts.add(optimizer)
        self.compiles.listen()
        got = self.modules.watch("all")
        if not got:
            if self.removed or got is None:
                return
            if not self.modules.guarded:
                state.event("error", "no module rows: somebody else exchanged Module.__call__'s code")
            self.governor.trace = "off"
            return
        self.calls.begin(self.ring, self.step + 1, self.governor.stride, self.governor.samples)
        self.phase = SAMPLED

    def _end_sample(self):
        self.calls.end()
        self.starts.remove()
        keep = self.governor.all or self.looking and self.step < 2
        self.looking = False
        if not keep:
            self.modules.watch("roots" if self.inference else None)
        self.tail += self.calls.own
        rank = ranks.from_torch()
        if rank:
            state.set_rank(*rank)

    def _sample_over(self, cpu_after):
        governor = self.governor
        modules = len(self.names.table)
        on_device = bool(self.calls.devices)  # its work is not in the thread's CPU time
        governor.after_sample(self.calls.own, self.cpu_before, self.cpu_sampled, cpu_after, modules)
        if on_device:
            governor.cpu.values.clear()
        self.costs.add("module hooks", governor.cost(), self.calls.rows)
        self.phase = IDLE
        self.last_sample = self.step
        self.next_sample = self.step + governor.next_sample(self.step)
        self.costs.tell_budget(modules)

    def _profiled(self):
        """torch.profiler takes Module.__call__'s code object for a mark the first time it runs: don't hide it then."""
        enabled = getattr(self.torch._C._autograd, "_profiler_enabled", None)
        return bool(enabled and enabled())
