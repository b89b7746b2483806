"""The two lanes of tests, as test/env/lane.go has them: MEMGAUGE_LONG is empty in the short one, and else multiplies
the long one's counts."""
import os
import unittest

SCALE = float(os.environ.get("MEMGAUGE_LONG") or 0)


def long(why):
    """Leaves a test, or a class of them, to the long lane."""
    return unittest.skipUnless(SCALE, "long lane: " + why)


def times(few, many):
    """How often a test repeats what it does: few in the short lane, many times the scale in the long one."""
    return max(1, round(many * SCALE)) if SCALE else few
