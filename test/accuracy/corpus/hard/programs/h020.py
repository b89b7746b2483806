import ctypes

import numpy as np
import torch
from torch import nn

incref = ctypes.pythonapi.Py_IncRef
decref = ctypes.pythonapi.Py_DecRef
incref.argtypes = decref.argtypes = [ctypes.py_object]


class Ring:
    """A C library's view of arrays: it works on addresses, so the arrays must outlive the call."""

    def __init__(self, size):
        self.addresses = [0] * size
        self.owners = [None] * size
        self.position = 0

    def put(self, array):
        incref(array)
        if self.owners[self.position] is not None:
            decref(self.owners[self.position])
        self.owners[self.position] = array
        self.addresses[self.position] = array.ctypes.data
        self.position = (self.position + 1) % len(self.owners)

    def mean(self, shape):
        views = []
        for address in filter(None, self.addresses):
            views.append(np.ctypeslib.as_array((ctypes.c_float * int(np.prod(shape))).from_address(address)))
        return np.mean(views, 0).reshape(shape)


def main():
    torch.manual_seed(10)
    rng = np.random.default_rng(10)
    model = nn.Sequential(nn.Linear(200, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 200))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    ring = Ring(8)
    mix = rng.standard_normal((200, 200)).astype(np.float32) / 14
    for step in range(1300):
        noise = rng.standard_normal((48, 200)).astype(np.float32)
        ring.put(noise)
        x = torch.from_numpy(noise - ring.mean((48, 200)))
        target = torch.from_numpy(noise @ mix)
        loss = nn.functional.smooth_l1_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
