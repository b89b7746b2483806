"""Tensors of Genesis's document beside numpy's arrays."""
import unittest

import alloclib


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class Numpy(unittest.TestCase):
    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        import memgauge
        x = memgauge.rand(3, 5, device="cpu")
        shared = numpy.asarray(x.T)
        shared[4, 2] = 42
        self.assertEqual((x.tolist()[2][4], shared.shape, shared.dtype), (42, (5, 3), numpy.float32))
        self.assertTrue(numpy.allclose(numpy.asarray(x @ x.T), shared.T @ shared))
        self.assertEqual(memgauge.from_buffer(numpy.ascontiguousarray(shared)).tolist(), x.T.tolist())
        del x
        self.assertEqual(shared[4, 2], 42)  # numpy keeps the memory


if __name__ == "__main__":
    unittest.main()
