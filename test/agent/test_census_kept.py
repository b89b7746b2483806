"""Holders that the walk once passed by: functions with names of Python's own kind, streams, what a class wraps, what a
manager keeps for others, graphs of tensors that each step replaces, and what a census that was cut short has not
seen."""
import functools
import io
import itertools
import logging
import multiprocessing.managers
import sys
import threading
import unittest

from census_case import take

from memgauge._agent.census import census, walk

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None


class Clips:
    @functools.lru_cache(maxsize=None)
    def __getitem__(self, index):
        return bytearray(1000 + index)

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def decoded(index):
        return bytearray(2000 + index)


class Kept(unittest.TestCase):
    def test_cache_on_getitem_is_a_methods(self):
        clips = Clips()
        for i in range(40):
            clips[i]
        row = take().holder("Clips.__getitem__")
        self.assertEqual(row["length"], 40)
        self.assertIn("; of a method", row["detail"])
        self.assertGreater(row["bytes"], 40_000)

    def test_cache_behind_staticmethod(self):
        for i in range(40):
            Clips.decoded(i)
        row = take().holder("Clips.decoded")
        self.assertEqual(row["length"], 40)
        self.assertNotIn("; of a method", row["detail"])

    def test_streams_have_rows(self):
        text, raw = io.StringIO(), io.BytesIO()
        text.write("x" * 200_000)
        raw.write(b"x" * 300_000)
        taken = take()
        self.assertGreaterEqual(taken.holder("().text")["length"], 200_000)
        row = taken.holder("().raw")
        self.assertGreaterEqual(row["length"], 300_000)
        self.assertEqual(row["length"], row["bytes"])
        self.assertIn("in one piece", row["detail"])

    def test_stream_of_a_handler_that_only_logging_holds(self):
        logger = logging.getLogger("census.kept")
        handler = logging.StreamHandler(io.StringIO())
        logger.addHandler(handler)
        handler.stream.write("x" * 100_000)
        try:
            del logger, handler
            self.assertTrue(take().holder(".stream"))
        finally:
            logging.getLogger("census.kept").handlers.clear()

    def test_streams_in_a_list_are_the_lists(self):
        kept = [io.BytesIO(b"x" * 100_000) for _ in range(20)]
        rows = [r for r in take().of("container") if "().kept" in r["holder"]]
        self.assertEqual([r["type"] for r in rows], ["list"])
        self.assertGreater(rows[0]["bytes"], 2_000_000 * 0.9)
        del kept

    def test_cycle_is_named(self):
        source = itertools.cycle(bytearray(500) for _ in range(40))
        for _ in range(30):
            next(source)
        row = take().holder("().source")
        self.assertEqual(row["length"], 30)
        self.assertIn("in itertools.cycle", row["detail"])

    def test_managers_objects_are_the_programs(self):
        class Serving(multiprocessing.managers.Server):
            def __init__(self):
                self.id_to_obj = {"1": (list(range(50)), (), {})}
                self.stop_event, self.began = threading.Event(), threading.Event()

            def accepter(self):
                self.began.set()
                self.stop_event.wait()

        server = Serving()
        thread = threading.Thread(target=self.serve, args=(server,))
        thread.start()
        self.assertTrue(server.began.wait(60))
        try:
            self.assertEqual(take().of("container", "multiprocessing.Manager().list")[0]["length"], 50)
        finally:
            server.stop_event.set()
            thread.join(60)

    @staticmethod
    def serve(server):
        try:
            server.serve_forever()
        except SystemExit:      # its way to end
            pass

    @unittest.skipIf(numpy is None, "no numpy in this Python")
    def test_array_that_is_made_anew_is_a_holder(self):
        table = numpy.zeros((0, 100))
        table = numpy.concatenate([table, numpy.zeros((200, 100))])
        row = take().holder("().table")
        self.assertEqual(row["length"], 160_000)


    def test_bytes_of_callbacks_have_the_functions(self):
        def callback(value):
            return lambda: value

        kept = [callback(None) for _ in range(100)]
        inner = kept[0]
        size = sum(map(sys.getsizeof, (inner, inner.__closure__, inner.__closure__[0])))
        self.assertGreaterEqual(take().holder("().kept")["bytes"], 100 * (size + 8))
        del kept


@unittest.skipIf(torch is None, "no torch in this Python")
class KeptTensors(unittest.TestCase):
    def test_graph_of_a_vector_that_each_step_replaces(self):
        class Center:
            mean = torch.zeros(12)

        weight, center, memory = torch.ones(12, requires_grad=True), Center(), census.Memory()

        def step():
            center.mean = 0.9 * center.mean + weight

        for _ in range(60):
            step()
        row = take(memory, between=step).of("graph")
        row = [r for r in row if r["holder"].endswith("center.mean")]
        self.assertTrue(row and row[0]["length"] >= 100, row)

    def test_graph_of_a_buffer_that_each_step_replaces(self):
        class Norm(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("stored", torch.zeros(12))

        weight, model, memory = torch.ones(12, requires_grad=True), torch.nn.Sequential(Norm()), census.Memory()

        def step():
            model[0].stored = 0.9 * model[0].stored + weight

        for _ in range(60):
            step()
        row = [r for r in take(memory, between=step).of("graph") if r["holder"].endswith("stored")]
        self.assertTrue(row and row[0]["length"] >= 100, row)

    def test_bytes_of_a_container_have_what_a_tensor_takes_beside(self):
        kept = [torch.zeros(16) for _ in range(100)]
        row = take().holder("().kept")
        self.assertGreaterEqual(row["bytes"], 100 * (64 + walk.BESIDE))
        del kept
