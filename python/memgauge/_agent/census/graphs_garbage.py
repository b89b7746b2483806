"""What a census examines after the walk: graphs of autograd, and garbage."""
import gc

from . import cycles


class GraphsGarbage:
    """The part of a Census for objects that the walk has met but not entered, or not reached."""

    # ------------------------------------------------------------ graphs and garbage

    def _graphs(self):
        """Measures the graphs of the first tensors at each place that wait for it. The program's own are measured
        before the objects of libraries are walked, which may take all the time that is left."""
        for place, length in self.walk.chains.items():
            row = self.graph_rows.setdefault(place, [0, 0])
            row[1] = max(row[1], length)
        waiting, looked = self.walk.graphs, self.graphs_looked
        while waiting and not self.exhausted():
            place = waiting[1]
            if looked.get(place, 0) < 3:
                looked[place] = looked.get(place, 0) + 1
                self._graph(waiting[0], place, self.torch.nodes, 0)
                yield
                self._graph(waiting[0], place, self.torch.chain, 1)
                if self.over():
                    yield
            waiting.popleft()
            waiting.popleft()

    def _graph(self, waiting, place, measure, column):
        t = waiting()
        node = self.torch.grad_fn(t) if t is not None else None
        if node is not None:
            row = self.graph_rows.setdefault(place, [0, 0])
            row[column] = max(row[column], measure(node))

    def _cycles(self):
        """Searches for garbage: among young objects, if they are few; among instances that an earlier census has
        reached and that are alive but not reached now; with the collector off, also among those that this census has
        sampled."""
        self.suspects = []
        done, queued, samples = self.walk.done, self.walk.queued, self.walk.samples

        def reached(key):
            return key in done or key in queued

        if not self.exhausted():
            for generation in range(1 if self.deep else len(cycles.sizes())):
                yield                # it can't be divided: a slice of its own
                cycles.merge(self.suspects, cycles.young(self.kinds, reached, generation, self.deep))
            yield
            cycles.lost(self.suspects, self.memory.samples, reached)
            if not gc.isenabled():
                cycles.lost(self.suspects, samples, _nothing)
        self.memory.samples = samples
        for suspect in self.suspects:
            cycles.examine(suspect, self.kinds, self.torch)
            if self.over():
                yield


def _nothing(key):
    return False
