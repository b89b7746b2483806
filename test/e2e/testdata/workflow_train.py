"""The training of the workflow's test; with the file `change` beside it, a pull request that leaks."""
import os
import sys

import memgauge
import numpy

kept = []
for _ in range(int(sys.argv[2])):
    a = numpy.random.rand(128, 512)
    (a @ a.T).sum()
    if os.path.exists("change"):
        kept.append(numpy.ones(16384))
    memgauge.step()
