"""A process's place in a distributed job, as its launcher or torch tells it."""
import os

from . import torchhook


def from_environment():
    """torchrun's and its likes' names first, then Slurm's, Open MPI's and PMI's; -1 for what is not known."""
    rank = number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    return rank, number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def from_torch():
    """torch.distributed's rank and world size once it has them, else None. Only looked for, never imported."""
    distributed = torchhook.loaded("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def number(*names):
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit() and len(text) < 10:   # fits an int32
            return int(text)
    return -1
