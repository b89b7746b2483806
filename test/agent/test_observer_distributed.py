"""DDP and FSDP on gloo: ranks told, names as named_modules() gives them."""
import unittest

from torchrun import TorchCase

WORLD = """
import socket, tempfile
import torch.distributed as dist
ends = socket.socketpair()
pid = os.fork()
rank = 1 if pid else 0
dist.init_process_group("gloo", init_method="file://" + os.environ["RUNTIME"] + "/store", rank=rank, world_size=2)
%s
dist.barrier()
ends[rank].send(b"x"); ends[rank].recv(1)    # gloo has no patience with one that leaves while the other is in a barrier
dist.destroy_process_group()
if pid: os.waitpid(pid, 0)
else:
    observer.flush(); os._exit(0)
"""


class Distributed(TorchCase):
    def ranks(self, code):
        self.run_code(WORLD % code, quiet=False)
        self.assertEqual(sorted((r.ring.rank, r.ring.world_size) for r in self.runs.values()), [(0, 2), (1, 2)])
        return list(self.runs.values())

    def test_ddp(self):
        for run in self.ranks("""
m = nn.parallel.DistributedDataParallel(net()); train(m, torch.optim.SGD(m.parameters(), .01), 30)
"""):
            self.assertEqual(run.counted, 30)
            self.assertEqual({t.module for t in run.trace if not t.optimizer},
                             {"DistributedDataParallel", "module", "module.0", "module.1", "module.2"})

    def test_fsdp(self):
        if self.torch < (2, 4):
            self.skipTest("fully_shard on the CPU came with torch 2.4")
        for run in self.ranks("""
from torch.distributed.device_mesh import init_device_mesh
try: from torch.distributed.fsdp import fully_shard
except ImportError: from torch.distributed._composable.fsdp import fully_shard
m = net(); mesh = init_device_mesh("cpu", (2,))
fully_shard(m[0], mesh=mesh); fully_shard(m, mesh=mesh); train(m, torch.optim.SGD(m.parameters(), .01), 30)
"""):
            self.assertEqual(run.counted, 30)
            self.assertEqual({t.module for t in run.trace if t.root}, {"FSDPSequential"})
            self.assertTrue({"0", "1", "2"} <= {t.module for t in run.trace})


if __name__ == "__main__":
    unittest.main()
