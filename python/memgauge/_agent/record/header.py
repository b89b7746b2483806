"""The description of a process in its ring's header."""
import os
import sys

from .. import ranks
from . import redact


def lines(s, agent):
    """[(key, value)] that describe the process. Short values come first, since lines that don't fit are left out."""
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
