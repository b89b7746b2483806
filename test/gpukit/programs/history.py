"""Trains a transformer on batches of changing length and records PyTorch's memory history: a snapshot, and the truth.

    history.py SNAPSHOT.pickle TRUTH.json [STEPS]

PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF) decides about expandable segments.
"""
import json
import random
import sys

import torch
from torch import nn

snapshot, truth, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 12
torch.cuda.init()
torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
torch.manual_seed(0)
lengths = random.Random(0)
width, vocabulary = 768, 8192
layer = nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True, dropout=0.0)
model = nn.Sequential(nn.Embedding(vocabulary, width), nn.TransformerEncoder(layer, 8, enable_nested_tensor=False),
                      nn.Linear(width, vocabulary)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for step in range(steps):
    tokens = torch.randint(vocabulary, (8, lengths.randrange(64, 768)), device="cuda")
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == steps // 2:
        with torch.no_grad():
            model(torch.randint(vocabulary, (32, 512), device="cuda"))  # an evaluation, larger than any batch
        torch.cuda.empty_cache()
torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
torch.cuda.memory._dump_snapshot(snapshot)
with open(truth, "w") as f:
    json.dump({"peak_allocated": stats["allocated_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"],
               "peak_requested": stats.get("requested_bytes.all.peak"),
               "allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
               "allocations": stats["allocation.all.allocated"], "segments": stats["segment.all.allocated"],
               "driver_calls": stats.get("num_device_alloc"), "driver_frees": stats.get("num_device_free"),
               "total": torch.cuda.get_device_properties(0).total_memory, "loss": loss.item()}, f)
