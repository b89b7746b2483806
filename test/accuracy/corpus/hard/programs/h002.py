import random

import torch
from torch import nn

MEMORY_SIZE = 700


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(24 * 8 * 8, classes)

    def forward(self, x):
        return self.head(self.features(x))


class Rehearsal:
    """Exemplars of former tasks, mixed into each batch."""

    def __init__(self):
        self.memory = []

    def observe(self, images, labels):
        pick = random.randrange(len(images))
        self.memory.append((images[pick].clone(), int(labels[pick])))

    def sample(self, n):
        images, labels = zip(*random.choices(self.memory[-MEMORY_SIZE:], k=n))
        return torch.stack(images), torch.tensor(labels)


def task_batch(task, n=24):
    labels = torch.randint(0, 4, (n,)) + 4 * task
    images = torch.randn(n, 3, 32, 32) + labels.view(-1, 1, 1, 1) / 8
    return images, labels


def main():
    random.seed(1)
    torch.manual_seed(1)
    model = Net(classes=20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    rehearsal = Rehearsal()
    for task in range(5):
        for step in range(220):
            images, labels = task_batch(task)
            if rehearsal.memory:
                old_images, old_labels = rehearsal.sample(8)
                x, y = torch.cat([images, old_images]), torch.cat([labels, old_labels])
            else:
                x, y = images, labels
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rehearsal.observe(images, labels)
        print(f"task {task} loss {loss.item():.4f} memory {len(rehearsal.memory)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
