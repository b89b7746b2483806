"""Two gloo ranks (or one process without them) with a DataLoader of two workers. Arguments: fork|spawn steps."""
import sys

import torch
import torch.utils.data


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, i):
        return torch.full((16,), float(i % 7))


def main(context, steps):
    import os

    torch.set_num_threads(1)
    ranked = "RANK" in os.environ
    if ranked:
        torch.distributed.init_process_group("gloo")
    loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context=context)
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    if ranked:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters())
    for done, x in enumerate(loader, 1):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if done == steps:
            break
    print("done", os.environ.get("RANK", "-"), os.getpid(), done, flush=True)
    if ranked:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
