package check

import (
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// quiet has code that readers of strangers' repositories found to be no leak, each with the rule that alarmed.
const quiet = `
-- MG122 read by an f-string --
import torch
def main(env, agent):
    kept = []
    for episode in range(30):
        total = torch.zeros(4)
        kept.append(total + agent(torch.ones(4)))
    print(f"mean {torch.stack(kept).mean():.3f}")
-- MG122 read by a keyword --
import torch
def embed(model, loader, sort):
    rows = []
    for x, _ in loader:
        rows.extend(model.backbone(x).detach().cpu())
    return sort(items=rows)
-- MG106 rows of a Jacobian --
import torch
def fisher(actor, states, actions):
    log_probs = torch.distributions.Categorical(actor(states)).log_prob(actions)
    rows = []
    for log_prob in log_probs:
        actor.zero_grad()
        log_prob.backward(retain_graph=True)
        rows.append(torch.cat([p.grad.view(-1) for p in actor.parameters()]))
    return torch.stack(rows)
-- MG103 each critic once --
import torch
def update(critics, optimizers, states, targets):
    values = []
    for critic, optimizer in zip(critics, optimizers):
        value = critic(states)
        values.append(value)
        loss = torch.nn.functional.mse_loss(value, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.stack(values).detach().mean().item()
-- MG103 one step's losses --
import torch
def train(model, train_loader, optimizer, criterion, args):
    for images, labels in train_loader:
        losses = []
        for _ in range(args.subnets):
            loss = criterion(model(images), labels)
            losses.append(loss)
            loss.backward()
        optimizer.step()
        print(sum(losses) / len(losses))
-- MG103 another framework --
import tensorflow as tf
import matplotlib.pyplot as plt
def evaluate(model, data_loader):
    all_logits = []
    for batch in data_loader:
        logits = model(batch, training=False)
        all_logits.append(logits)
    return tf.concat(all_logits, axis=0)
-- MG103 the object around a loss --
import torch
def train(model, loader, optimizer, epochs):
    log = {"a": []}
    for epoch in range(epochs):
        for x in loader:
            terms = Terms(model(x))
            optimizer.zero_grad()
            terms.total.backward()
            optimizer.step()
            for name, value in terms.items():
                log["a"].append(value)
    return log
-- MG103 the count beside a loss --
import torch
def step(model, x, optimizer):
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, x.size(0)
def train(model, loader, optimizer):
    counts = []
    for x in loader:
        loss, count = step(model, x, optimizer)
        counts.append(count)
    return counts
-- MG103 dict cleaned before it is kept --
import torch
def train(loader, module, optimizer):
    outputs = []
    for batch in loader:
        output = module.training_step(batch)
        output["loss"].backward()
        optimizer.step()
        output["loss"] = output["loss"].detach()
        outputs.append(output)
    return outputs
-- MG117 frozen model --
import torch
def predict(model, test_loader):
    model.eval()
    model.freeze()
    for x in test_loader:
        yield model(x).cpu()
-- MG117 adversarial evaluation --
import torch
def robust(model, test_loader, attack):
    model.eval()
    hits = 0
    for x, y in test_loader:
        x = attack(x, y)
        hits += (model(x).argmax(1) == y).sum().item()
    return hits
-- MG120 features of one pass over a loader --
import torch
def extract(model, layer, loader):
    features = []
    def hook(module, inputs, output):
        features.append(output.detach().cpu())
    handle = layer.register_forward_hook(hook)
    with torch.no_grad():
        for x, _ in loader:
            model(x)
    handle.remove()
    return torch.cat(features)
-- MG121 one episode --
import torch
def main(env, agent, episodes):
    for episode in range(episodes):
        seen = []
        for step in range(env.max_steps):
            seen.append({"state": env.state(), "action": agent(env.state())})
        agent.learn(seen[-32:])
-- MG123 a state that begins anew --
import torch
from torch import nn
class Spiking(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.register_buffer("potential", torch.zeros(n))
    def reset_state(self):
        self.potential = torch.zeros_like(self.potential)
    def forward(self, x):
        self.potential = 0.9 * self.potential + self.layer(x)
        return self.potential
-- MG202 indices in a set --
import torch
from torch.utils.data import Dataset
class Items(Dataset):
    def __init__(self, data):
        self.data, self.good = data, set()
    def __getitem__(self, i):
        at = int(i)
        self.good.add(at)
        return self.data[at]
-- MG205 a prepared list --
import itertools
import torch
def warm_up(model, fields, prepare):
    batches = prepare(fields)
    again = itertools.cycle(batches)
    with torch.no_grad():
        for _ in range(8):
            model(next(again))
-- MG301 for a gallery's eyes --
import matplotlib.pyplot as plt
import torch
for index in chosen:
    fig = plt.figure()
    plt.bar(x, torch.tensor(heights)[index])
-- MG301 left at once --
import matplotlib.pyplot as plt
import torch
for images, labels in train_loader:
    fig, ax = plt.subplots()
    ax.imshow(images[0])
    fig.savefig("first.png")
    break
-- MG402 what lies in the CPU's memory --
import torch
import torch.distributed as dist
def resume(scheduler, path):
    dist.init_process_group("nccl")
    scheduler.load_state_dict(torch.load(path))
    cached_features = torch.load(path + ".features")
    return cached_features
-- MG403 a device with its number --
import torch
import torch.distributed as dist
def main(model, local_rank, x):
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    model.to(device)(x).sum().backward()
-- MG410 two devices compared --
import torch
for device in ["cpu", "cuda"]:
    optimizer = torch.optim.Adam(model.parameters())
    model.to(device)
    model(x.to(device)).sum().backward()
    optimizer.step()
-- MG120 features until the hook is removed --
import torch
kept = []
handle = layer.register_forward_hook(lambda m, i, o: kept.append(o.detach()))
with torch.no_grad():
    for at in range(0, 640, 64):
        model(tokens[at:at + 64])
handle.remove()
features = torch.cat(kept)
-- MG120 sizes of what passes --
import torch
class Recorder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lengths = []
    def forward(self, x):
        self.lengths.append(x.shape[1])
        return x
-- MG120 a test's spy --
import pytest
import torch
class Spy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = []
    def forward(self, x):
        self.calls.append(x.detach())
        return x
-- MG122 numbers of a mean --
import numpy as np
import torch
def predict(models, loader):
    means = []
    for x in loader:
        mean = np.mean([m(x).detach().numpy() for m in models], axis=0)
        means.append(mean)
-- MG101 begun in the same step --
import torch
import lightning.pytorch as pl
class Net(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        self.total = 0.0
        loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
        self.total += loss
        return loss
-- MG102 losses made numbers --
import torch
import lightning.pytorch as pl
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.history = {"a": []}
    def training_step(self, batch, batch_idx):
        losses = list(map(float, [self(batch).mean().detach()]))
        for name, loss_val in zip(self.names, losses):
            self.history[name].append(loss_val)
-- MG113 numbers of a column --
import torch
def score(model, loader):
    scores = []
    for x, y in loader:
        probs = model(x).softmax(1).detach().numpy()
        scores.extend(probs[:, 1])
    return scores
-- MG117 a model that sees to it --
import torch
def main(model, dataloader):
    model.eval()
    for data in dataloader:
        yield model(data, mode="inference").cpu()
-- MG301 in the first round --
import matplotlib.pyplot as plt
import torch
for step, x in enumerate(loader):
    if step == 0:
        fig, ax = plt.subplots()
        ax.imshow(x)
        fig.savefig("first.png")
-- MG101 a share of sizes that a module returns --
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.pool = Pool()
    def forward(self, x):
        out = self.pool(self.lin(x))
        return out, out.size(0) / x.size(0)
model = Net().to("cuda")
def test(loader):
    total = 0
    for x in loader:
        out, ratio = model(x)
        total += ratio
    return total / len(loader)
def train(loader, optimizer):
    for x in loader:
        out, _ = model(x)
        out.mean().backward()
        optimizer.step()
-- MG121 numbers of sklearn --
import torch
from sklearn.metrics import roc_auc_score
def main(model, loader, optimizer, truth):
    history = []
    for epoch in range(100):
        probs = torch.cat([model(x) for x in loader])
        history.append(roc_auc_score(truth, probs[:, 1]))
        print(history[-1])
-- MG121 a look now and then --
import torch
def project(model, latent, optimizer):
    path = []
    for step in range(1000):
        loss = model(latent).sum()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            path.append(latent.detach().clone())
    return path[-1]
-- MG402 the process that starts the ranks --
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
def train(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    model = Net().to(rank)
    torch.save(model.state_dict(), "last.pt")
def test():
    model = Net()
    model.load_state_dict(torch.load("last.pt"))
if __name__ == "__main__":
    mp.spawn(train, args=(4,), nprocs=4)
    test()
-- MG403 the process that starts the ranks --
import torch
import torch.distributed as dist
from torch.multiprocessing import Process
def run(rank, size, batch):
    Net().cuda(rank)(batch.cuda(rank)).sum().backward()
def begin(rank, size, fn, batch):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    fn(rank, size, batch)
for rank in range(4):
    Process(target=begin, args=(rank, 4, run, batch)).start()
model = torch.nn.DataParallel(model.cuda())
-- MG206 a memory for each round --
class Memory:
    def __init__(self):
        self.memory = []
    def push(self, *transition):
        self.memory.append(transition)
import torch
for round in range(100):
    memories = [Memory() for _ in range(8)]
    collect(memories)
-- MG101 a sum whose gradients another asks --
import torch
class Agent:
    def __init__(self, device):
        self.model = Net().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
    def compute_loss(self, batch):
        return torch.nn.functional.mse_loss(self.model(batch), batch)
    def update(self, batches):
        total = 0
        for batch in batches:
            total += self.compute_loss(batch)
        self.optimizer.update(lambda: total / 10)
-- MG117 volatile inputs of a helper --
import torch
from utils import make_variable
def evaluate(classifier, data_loader):
    classifier.eval()
    for images, labels in data_loader:
        images = make_variable(images, volatile=True)
        print(classifier(images).data.max(1)[1])
-- MG402 if somebody's weights are asked for --
import torch
import torch.distributed as dist
def build(pretrained=False):
    model = Net()
    if pretrained:
        model.load_state_dict(torch.load(checkpoint_path))
    return model
def main():
    dist.init_process_group("nccl")
    model = build().cuda()
    torch.save(model.state_dict(), "last.pt")
-- MG301 figures of three data sets --
import torch
import matplotlib.pyplot as plt
names = ["mnist", "cifar", "svhn"]
for name in names:
    plt.figure()
    plt.plot(torch.load(name))
    plt.savefig(name + ".pdf")
-- MG201 rows that become an array --
import pickle
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self, path):
        self.rows = pickle.load(open(path, "rb"))
        self.rows = np.asarray(self.rows)
    def __getitem__(self, i):
        return self.rows[i]
loader = DataLoader(Rows("a"), num_workers=4)
-- MG108 once, in the first round --
import torch
def main(model, x, y, loss_fn):
    for i in range(30):
        if i == 0:
            loss = loss_fn(model(x), y)
            loss.backward(create_graph=True)
            model.step(update_params=False)
-- MG403 where there are no ranks --
import torch
import torch.distributed as dist
def main(args, model, x):
    if args.distributed:
        dist.init_process_group("nccl")
    if not args.distributed:
        model.cuda()
    model(x).sum().backward()
-- MG101 a solver --
import torch
def solve(product, b, iters):
    x, r = torch.zeros_like(b), b
    p = r
    for _ in range(iters):
        alpha = r.dot(r) / p.dot(product(p))
        x = x + alpha * p
        p = r + alpha * p
    return x
def main(model, y, product):
    loss = model(y).mean()
    loss.backward()
    return solve(product, loss, 10)
`

// TestLoadUnderConditions: what stands under conditions of another kind is still found, and in few steps.
func TestLoadUnderConditions(t *testing.T) {
	ids := found(t, `
import torch
import torch.distributed as dist
def main(args, model):
    dist.init_process_group("nccl")
    if args.distributed:
        if args.checkpoint:
            model.load_state_dict(torch.load(args.checkpoint))
    torch.save(model.state_dict(), "last.pt")
`)
	if !slices.Equal(ids, []string{"MG402"}) {
		t.Error(ids)
	}
}

func TestQuiet(t *testing.T) {
	for _, f := range txtar.Parse([]byte(quiet)).Files {
		t.Run(f.Name, func(t *testing.T) {
			if ids := found(t, string(f.Data)); slices.Contains(ids, f.Name[:5]) {
				t.Errorf("%v in\n%s", ids, f.Data)
			}
		})
	}
}
