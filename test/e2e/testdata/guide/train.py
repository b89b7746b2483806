"""Runs system.py with matplotlib, or with what stands in for it where it isn't installed. torchmetrics, which Lightning
imports, would want the real one's insides, so the stand-in comes after it."""
import importlib.util
import os
import runpy
import sys

import lightning.pytorch  # noqa: F401

here = os.path.dirname(os.path.abspath(__file__))
if importlib.util.find_spec("matplotlib") is None:
    sys.path.append(os.path.join(here, "standins"))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
