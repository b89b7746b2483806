"""What a ring's header says of its process."""
import os
import sys

from .. import ranks
from . import redact


def lines(s, agent):
    """The process in words, the bounded values first: what does not fit into the header is left out."""
    told = [("python", sys.version.split()[0]), ("ppid", os.getppid()), ("agent", agent)]
    local = ranks.number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
    if local >= 0:
        told.append(("local_rank", local))
    if s.parent:
        told.append(("parent", s.parent))
    try:
        cwd = os.getcwd()
    except OSError:     # removed
        cwd = ""
    return told + [("argv", redact.command_line()), ("cwd", cwd), ("executable", sys.executable or "")]
