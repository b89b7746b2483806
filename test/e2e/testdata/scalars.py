"""Prints, as JSON, the last value of each scalar in the TensorBoard files below a directory."""
import glob
import json
import os
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

found = {}
for directory in sorted({os.path.dirname(f) for f in glob.glob(sys.argv[1] + "/**/events.*", recursive=True)}):
    events = EventAccumulator(directory)
    events.Reload()
    found.update({tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]})
print(json.dumps(found))
