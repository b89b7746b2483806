"""`python -m memgauge …` is the command line, wherever this package can be imported: it becomes the memgauge
command."""
import os
import sys

from .feed import FeedError, binary

if __name__ == "__main__":
    try:
        command = binary()
        os.execv(command, ["memgauge"] + sys.argv[1:])
    except (FeedError, OSError) as error:
        sys.exit("memgauge: start: %s" % error)
