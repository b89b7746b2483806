"""A training on the CPU that evals are aimed at: victim.py SHAPE STEPS OUT. Shapes: plain, workers, ddp (a process of a
gloo group, by RANK, WORLD_SIZE and MASTER_PORT), hooks, checkpoint. Most of a step is one C++ call, backward(), without
Python's lock.

OUT gets one JSON line: the losses as bytes of their doubles in hex, and the seconds of backward(), sorted. A file OUT +
".stop" ends the training early; a file OUT + ".do" is what the program does to itself before its next step, once."""
import json
import os
import struct
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, DEPTH, BATCH = 512, 6, 64


class Net(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, 1)
        self.checkpointed = checkpointed

    def block(self, layer, x):
        return torch.relu(layer(x)) + x

    def forward(self, x):
        for layer in self.layers:
            if self.checkpointed:
                from torch.utils.checkpoint import checkpoint
                x = checkpoint(self.block, layer, x, use_reentrant=self.checkpointed == "reentrant")
            else:
                x = self.block(layer, x)
        return self.head(x)


def hang_hooks(model):
    """Python that runs in the middle of backward()."""
    seen = []

    def on_grad(grad):
        seen.append(sum(k * k for k in range(300)))
        del seen[:-10]
        return grad

    for p in model.parameters():
        p.register_hook(on_grad)
    for layer in model.layers:
        layer.register_full_backward_hook(lambda module, given, got: None)


def batches(loader):
    while True:
        for (x,) in loader:
            yield x


def do(path):
    if os.path.exists(path):
        with open(path) as f:
            code = f.read()
        os.remove(path)
        exec(code, {"os": os})


def decided(end, shape):
    """What one rank has seen holds for all: one that went on alone would wait for the others' gradients."""
    if shape != "ddp":
        return end
    import torch.distributed as dist
    flag = torch.tensor([int(end)])
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag.item())


def main(shape, steps, out):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = net = Net({"checkpoint": "reentrant", "recompute": "other"}.get(shape))
    if shape == "hooks":
        hang_hooks(model)
    if shape == "ddp":
        import torch.distributed as dist
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(TensorDataset(data), batch_size=BATCH, num_workers=2 if shape == "workers" else 0,
                              shuffle=True,
                              generator=torch.Generator().manual_seed(2))
    all_losses, losses, took = [], [], []
    for step, x in enumerate(batches(train_loader)):
        if decided(step == steps or os.path.exists(out + ".stop"), shape):
            break
        do(out + ".do")
        optimizer.zero_grad()
        if "checkpoint" in shape:
            x.requires_grad_()
        loss = model(x).pow(2).mean()
        began = time.perf_counter()
        loss.backward()
        took.append(time.perf_counter() - began)
        optimizer.step()
        losses.append(loss.item())
        all_losses.append(loss.detach())
        del all_losses[:-50]
        if step == 2:
            print("ready", flush=True)
    print("done", flush=True)
    with open(out, "w") as f:
        f.write(json.dumps({"losses": struct.pack("<%dd" % len(losses), *losses).hex(), "backward": sorted(took)})
                + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
