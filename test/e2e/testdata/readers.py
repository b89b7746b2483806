"""Opens what memgauge export wrote, each file with the program's own reader. argv[1] is how many steps there are at
least; leak: it is known by now that the program leaks.
"""
import glob
import gzip
import json
import sys

import pyarrow.parquet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2  # noqa: F401  the package is there
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator  # noqa: F401

steps = int(sys.argv[1])

with gzip.open("t.json.gz") as f:
    events = json.load(f)["traceEvents"]
slices = [e for e in events if e["ph"] == "X" and e["name"].startswith("step ")]
assert len(slices) >= steps, (len(slices), steps)
slices.sort(key=lambda e: e["ts"])
for a, b in zip(slices, slices[1:]):
    assert a["ts"] + a["dur"] <= b["ts"], ("slices overlap", a, b)
counters = {e["name"] for e in events if e["ph"] == "C"}
assert {"allocated cpu", "anonymous", "host available"} <= counters, counters
assert any(e["ph"] == "i" and e["name"] == "start" for e in events)
if "leak" in sys.argv:
    assert any(e["ph"] == "X" and e["name"].startswith("LEAK: host") and "kept" in e["name"] for e in events)

runs = glob.glob("runs/trainer*")   # a slow machine may show a child of `import torch` beside it
assert len(runs) == 1, glob.glob("runs/*")
reader = event_accumulator.EventAccumulator(runs[0], size_guidance={"scalars": 0})
reader.Reload()
tags = reader.Tags()
duration = reader.Scalars("step/duration_seconds")
assert max(e.step for e in duration) >= steps and min(e.value for e in duration) > 0.004, duration[-1]
held = reader.Scalars("process/rss_bytes")
assert held[-1].value - held[0].value > (held[-1].step - held[0].step) * 200 * 1024, (held[0], held[-1])
assert "verdict" in tags["tensors"], tags
assert b"host" in reader.Tensors("verdict")[0].tensor_proto.string_val[0]

table = pyarrow.parquet.read_table("tables/python.steps.parquet")
assert max(table["step"].to_pylist()) >= steps and str(table.schema.field("ts").type).startswith("timestamp")
assert pyarrow.parquet.read_table("tables/process.memory.parquet").num_rows > 0
assert not glob.glob("tables/python.backtrace*") and not glob.glob("**/.memgauge-*", recursive=True)
