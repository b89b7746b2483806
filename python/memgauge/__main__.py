"""`python -m memgauge …` executes the memgauge command, wherever this package can be imported."""
import os
import sys

from .feed import FeedError, binary

if __name__ == "__main__":
    try:
        command = binary()
        os.execv(command, ["memgauge"] + sys.argv[1:])
    except (FeedError, OSError) as error:
        sys.exit("memgauge: start: %s" % error)
