"""One rank of torchrun with NCCL: the communicator's memory lies outside PyTorch's allocator."""
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
before = torch.cuda.mem_get_info()[0]
x = torch.ones(1 << 20, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
print("nccl took %d bytes" % (before - torch.cuda.mem_get_info()[0]), flush=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(int(sys.argv[1])):
    loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
dist.destroy_process_group()
