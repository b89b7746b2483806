"""A small training with a known truth, on a GPU or (MEMGAUGE_KIT_DEVICE=cpu) on the processor.

    train.py [--leak none|device|graph|host|outside|cache] [--steps N | --seconds S] [--out FILE] [--go FILE]

What each step keeps: device, 1 MiB of the device; graph, the losses with their graphs (2 MiB of activations); host,
512 KiB of pageable memory; outside, 1 MiB that the driver gives and PyTorch does not know; cache, nothing, but every
step's batch is a little longer, so that PyTorch's cache fragments. FILE gets what PyTorch itself counted, as JSON.
"""
import argparse
import ctypes
import json
import os
import time

import torch
from torch import nn

DEVICE = os.environ.get("MEMGAUGE_KIT_DEVICE", "cuda")
WIDTH, BATCH = (2048, 256) if DEVICE != "cpu" else (128, 64)
MIB = 1 << 20


def outside(size):
    """Allocates from the driver, past PyTorch. Returns the address."""
    if DEVICE == "cpu":
        return 0
    driver, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    code = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    if code:
        raise RuntimeError("cuMemAlloc_v2: CUresult %d" % code)
    return pointer.value


def counters():
    """What PyTorch and the driver count now, in bytes."""
    if DEVICE == "cpu":
        return {}
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    return {"allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
            "peak_allocated": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
            "driver_used": total - free, "total": total}


def synchronize():
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--leak", default="none", choices=("none", "device", "graph", "host", "outside", "cache"))
    parser.add_argument("--steps", type=int, default=10 ** 9)
    parser.add_argument("--seconds", type=float, default=10 ** 9)
    parser.add_argument("--pause", type=float, default=0.008, help="s that each step waits for its data")
    parser.add_argument("--out")
    parser.add_argument("--stop", help="end when this file exists")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                          nn.Linear(WIDTH, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    kept_outputs, kept_losses, kept_arrays, kept_pointers = [], [], [], []
    every, begin, step = [], time.monotonic(), 0
    while step < args.steps and time.monotonic() - begin < args.seconds:
        if args.stop and os.path.exists(args.stop):
            break
        step += 1
        batch = BATCH + (step * 37 % 512 if args.leak == "cache" else 0)
        x = torch.randn(batch, WIDTH, device=DEVICE)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.leak == "device":
            kept_outputs.append(torch.empty(MIB // 4, device=DEVICE))
        elif args.leak == "graph":
            kept_losses.append(model(x[:64]).mean())
        elif args.leak == "host":
            kept_arrays.append(torch.ones(MIB // 8))
        elif args.leak == "outside":
            kept_pointers.append(outside(MIB))
        if step == 20:
            synchronize()
            print("ready", flush=True)
        if step % 20 == 0:
            every.append(dict(counters(), step=step))
        time.sleep(args.pause)
    synchronize()
    truth = dict(counters(), steps=step, pid=os.getpid(), seconds=time.monotonic() - begin, every=every[-5:],
                 loss=loss.item())
    if args.out:
        with open(args.out, "w") as f:
            json.dump(truth, f)


main()
