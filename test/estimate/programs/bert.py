"""BERT-large on sequences of 512, as in "Model training anatomy" and "Efficient training on a single GPU" of the
Hugging Face documentation, whose figures are nvidia-smi's of a V100: PyTorch and transformers of 2022 (attention
that is not fused, an optimizer that goes from parameter to parameter, gradients that are zeroed).

    bert.py BATCH PARTS [--checkpoint]      PARTS batches are accumulated to one step
"""
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

BATCH, PARTS, CHECKPOINT = int(sys.argv[1]), int(sys.argv[2]), "--checkpoint" in sys.argv
config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                    attn_implementation="eager")
model = BertForSequenceClassification(config).cuda()
model.train()
if CHECKPOINT:
    model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), 5e-5, foreach=False)
for step in range(3):
    for _ in range(PARTS):
        tokens = torch.randint(100, 30000, (BATCH, 512)).to("cuda")
        labels = torch.randint(2, (BATCH,)).to("cuda")
        model(input_ids=tokens, labels=labels).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
