"""The training of test/gpukit/programs/history.py, whose memory an H100 recorded, with the batch size as a number."""
import random

import torch
from torch import nn

BATCH = 8
torch.manual_seed(0)
lengths = random.Random(0)
width, vocabulary = 768, 8192
layer = nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True, dropout=0.0)
model = nn.Sequential(nn.Embedding(vocabulary, width), nn.TransformerEncoder(layer, 8, enable_nested_tensor=False),
                      nn.Linear(width, vocabulary)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for step in range(12):
    tokens = torch.randint(vocabulary, (BATCH, lengths.randrange(64, 768)), device="cuda")
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 6:
        with torch.no_grad():
            model(torch.randint(vocabulary, (4 * BATCH, 512), device="cuda"))
        torch.cuda.empty_cache()
