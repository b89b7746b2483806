"""What a census looks at besides the walk: graphs of autograd, and garbage."""
import gc

from . import cycles


class GraphsGarbage:
    """The part of a Census that looks at what the walk has met but not entered, or not reached."""

    # ------------------------------------------------------------ graphs and garbage

    def _graphs(self):
        """For each place a few of the tensors that have a graph: the first, and the last ones."""
        # place -> [nodes at most, longest chain]
        self.graph_rows = {place: [0, length] for place, length in self.walk.chains.items()}
        waiting, looked = self.walk.graphs, {}
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
        """Garbage: among the young objects, where they are few; among instances that were seen before and are alive,
        and reached no more; with the collector off, also among those that this census saw at its beginning."""
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
