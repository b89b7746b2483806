"""Steps without PyTorch; a checkpoint is a line in the file that the first argument names. The
second says what the guard knows of it: hook (a function), slow (one that takes a while), asks (the loop asks)."""
import os
import sys
import time

import memgauge

path, kind = sys.argv[1], sys.argv[2]


def save():
    with open(path, "a") as f:
        f.write("step %d\n" % step)
    if kind == "slow":
        print("saving", flush=True)
        time.sleep(3)
        with open(path, "a") as f:
            f.write("whole\n")


print("pid %d" % os.getpid())
print("address: %s" % [name for name, value in os.environ.items() if "127.0.0.1" in value], flush=True)
with memgauge.guard(checkpoint=None if kind == "asks" else save) as guard:
    for step in range(1, 401):
        time.sleep(0.002)
        memgauge.step()
        if kind == "asks" and guard.should_stop:
            save()
            print("the loop stopped at %d" % step)
            break
print("finished")
