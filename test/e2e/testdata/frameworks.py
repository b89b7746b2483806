"""A small training with the framework that the first argument names; each step leaves 64 KiB behind where the second
says leaky, and then takes STEP at least, however fast the machine: a verdict needs readings, which are taken by time.
Logs go to TensorBoard files below the third."""
import json
import os
import sys
import time

import torch

name, leaks, out = sys.argv[1], sys.argv[2] == "leaky", sys.argv[3]
kept = []
STEP = 0.006    # s, of 1,200
torch.set_num_threads(1)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2400 if leaks else 80

    def __getitem__(self, i):
        return {"x": torch.full((8,), float(i % 7)), "labels": torch.ones(1)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x, labels=None):
        if leaks and self.training:
            kept.append(torch.ones(16384))
            time.sleep(STEP)
        y = self.layer(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


def transformers():
    from transformers import Trainer, TrainingArguments
    from memgauge.integrations.transformers import MemgaugeCallback
    os.environ["TENSORBOARD_LOGGING_DIR"] = out
    arguments = TrainingArguments(output_dir=os.path.join(out, "model"), per_device_train_batch_size=4, use_cpu=True,
                                  num_train_epochs=2, logging_steps=100, save_steps=600, eval_strategy="epoch",
                                  report_to=["tensorboard"], disable_tqdm=True)
    trainer = Trainer(model=Model(), args=arguments, train_dataset=Data(), eval_dataset=Data(),
                      callbacks=[MemgaugeCallback()])
    trainer.train()
    print(json.dumps(trainer.state.log_history[-1]))


def lightning():
    import lightning.pytorch as pl
    from lightning.pytorch.loggers import TensorBoardLogger
    from memgauge.integrations.lightning import MemgaugeCallback

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch):
            return self.model(**batch)["loss"]

        def validation_step(self, batch):
            self.model(**batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.001)

    loader = torch.utils.data.DataLoader(Data(), batch_size=4)
    pl.Trainer(max_epochs=2, accelerator="cpu", logger=TensorBoardLogger(out), callbacks=[MemgaugeCallback()],
               enable_progress_bar=False, enable_model_summary=False,
               default_root_dir=out).fit(Module(), loader, loader)


def accelerate():
    from accelerate import Accelerator
    from memgauge.integrations.accelerate import MemgaugeCallback
    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=out)
    accelerator.init_trackers("run")
    model = Model()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.001),
                                                   torch.utils.data.DataLoader(Data(), batch_size=4))
    memory = MemgaugeCallback(accelerator)
    for epoch in range(2):
        with memory.epoch(epoch):
            for batch in loader:
                optimizer.zero_grad()
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                memory.step()
        with memory.evaluation(), torch.no_grad():
            model(**batch)
        accelerator.save_state(os.path.join(out, "state%d" % epoch))
    memory.end()
    accelerator.end_training()


{"transformers": transformers, "lightning": lightning, "accelerate": accelerate}[name]()
