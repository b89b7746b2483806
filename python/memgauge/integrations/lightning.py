"""For Lightning's Trainer:

    trainer = Trainer(…, callbacks=[MemgaugeCallback()])

Epochs, validations and checkpoints become events of the session; the verdict and the rate of a leak go to the Trainer's
loggers. Under `memgauge run --guard` the guard's checkpoints are the Trainer's, and a stop ends fit() after one."""
import os

try:
    from lightning.pytorch import Callback
except ImportError:     # the older name of the package
    from pytorch_lightning import Callback

from ..guarding import Callbacks
from .verdicts import Verdicts


class MemgaugeCallback(Callback):
    """Needs no arguments. Does nothing in a process that memgauge doesn't observe, but to say so once."""

    def __init__(self):
        self._verdicts, self._guard = None, Callbacks("Lightning")

    def on_train_start(self, trainer, pl_module):
        if trainer.world_size == 1:     # all ranks would have to save together (Trainer.save_checkpoint)
            self._guard.begin()
        self._verdicts = Verdicts(trainer.is_global_zero)
        self._tell("training", "begin", trainer)

    def on_train_batch_end(self, trainer, pl_module, *_, **__):
        if self._verdicts is not None:
            self._log(trainer, self._verdicts.look())
        wanted = self._guard.wanted()
        if wanted:
            self._save(trainer, "stop" in wanted)

    def _save(self, trainer, stop):
        path = os.path.join(trainer.default_root_dir, "memgauge-guard.ckpt")
        trainer.save_checkpoint(path)
        if stop:
            trainer.should_stop = True
            self._guard.stopped("saved %s" % path)

    def on_train_epoch_start(self, trainer, pl_module):
        self._tell("epoch", "begin", trainer)

    def on_train_epoch_end(self, trainer, pl_module):
        self._tell("epoch", "end", trainer)

    def on_validation_start(self, trainer, pl_module):
        self._tell("evaluation", "begin", trainer)

    def on_validation_end(self, trainer, pl_module):
        self._tell("evaluation", "end", trainer)

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        self._tell("checkpoint", "begin", trainer)

    def on_train_end(self, trainer, pl_module):
        self._guard.end()
        self._tell("training", "end", trainer)
        if self._verdicts is not None:
            self._log(trainer, self._verdicts.last())

    def _tell(self, name, text, trainer):
        if self._verdicts is not None and not trainer.sanity_checking:
            self._verdicts.event(name, text, trainer.current_epoch, trainer.global_step)

    def _log(self, trainer, metrics):
        for logger in trainer.loggers if metrics else ():
            logger.log_metrics(metrics, step=trainer.global_step)


MemoryAwareCallback = MemgaugeCallback
