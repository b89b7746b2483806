"""Has a random tiny model of transformers make tokens: 40 calls, of 2 prompts of 5 tokens, 7 tokens each."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(1)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=32)).eval()
for _ in range(40):
    out = model.generate(torch.ones(2, 5, dtype=torch.long), attention_mask=torch.ones(2, 5, dtype=torch.long),
                         max_new_tokens=7, min_new_tokens=7, do_sample=True, pad_token_id=0)
    assert out.shape == (2, 12), out.shape
