"""Has Perfetto's own trace_processor, the binary at argv[1], read a trace and count its steps."""
import sys

from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

binary, path, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=binary)) as reader:
    rows = list(reader.query("SELECT count(*) AS n FROM slice WHERE name GLOB 'step *'"))
    assert rows[0].n >= steps, (rows[0].n, steps)
    names = {row.name for row in reader.query("SELECT DISTINCT name FROM counter_track")}
    assert any("allocated cpu" in name for name in names), names
    errors = list(reader.query("SELECT name, value FROM stats WHERE severity = 'error' AND value > 0"))
    assert not errors, [(e.name, e.value) for e in errors]
