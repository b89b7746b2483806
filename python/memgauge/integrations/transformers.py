"""For transformers' Trainer:

    trainer = Trainer(…, callbacks=[MemgaugeCallback()])

Epochs, evaluations and checkpoints become events of the session; the verdict and the rate of a leak are written with
the Trainer's own logs, so they land in TensorBoard, wandb, MLflow. Under `memgauge run --guard` the guard's checkpoints
are the Trainer's, and a stop ends train() after one."""
import sys

from transformers import TrainerCallback

from ..guarding import Callbacks
from .verdicts import Verdicts

FRAMES = 6      # between Trainer.train() and a callback are three


class MemgaugeCallback(TrainerCallback):
    """Needs no arguments. Does nothing in a process that memgauge doesn't observe, but to say so once."""

    def __init__(self):
        self._verdicts, self._over, self._guard = None, False, Callbacks("transformers")

    def on_train_begin(self, args, state, control, **kwargs):
        self._over = False
        if args.world_size == 1:
            self._guard.begin()
        self._verdicts = Verdicts(state.is_world_process_zero)
        self._come_first()
        self._verdicts.event("training", "begin", 0, state.global_step)

    def _come_first(self):
        """The callbacks that write logs come before those of the user, and all get the same dict: what we add must be
        there before they write. The Trainer gives callbacks no way to their handler, so it is looked for among the
        callers; where it isn't found, the metrics land in the Trainer's history alone."""
        frame = sys._getframe(1)
        for _ in range(FRAMES):
            callbacks = getattr(frame.f_locals.get("self"), "callbacks", None)
            if isinstance(callbacks, list) and any(callback is self for callback in callbacks):
                callbacks[:] = [self] + [callback for callback in callbacks if callback is not self]
                return
            frame = frame.f_back
            if frame is None:
                return

    def on_log(self, args, state, control, logs=None, **kwargs):
        verdicts = self._verdicts
        if verdicts is None or logs is None:
            return
        if state.max_steps and state.global_step >= state.max_steps and not self._over:
            self._over = True
            verdicts.last()     # the Trainer may write no more logs after those of the last step
        else:
            verdicts.look()
        logs.update(verdicts.metrics)
        if state.log_history:
            state.log_history[-1].update(verdicts.metrics)

    def on_step_end(self, args, state, control, **kwargs):
        if self._verdicts is not None:
            self._verdicts.look()
        wanted = self._guard.wanted()
        if wanted:
            control.should_save = True      # at the end of this very step, before it looks whether to stop
        if "stop" in wanted:
            control.should_training_stop = True
            self._guard.stopped("saved in %s" % args.output_dir)

    def on_epoch_begin(self, args, state, control, **kwargs):
        self._tell("epoch", "begin", state)

    def on_epoch_end(self, args, state, control, **kwargs):
        self._tell("epoch", "end", state)

    def on_evaluate(self, args, state, control, **kwargs):
        self._tell("evaluation", "end", state)

    def on_save(self, args, state, control, **kwargs):
        self._tell("checkpoint", "end", state)

    def on_train_end(self, args, state, control, **kwargs):
        self._guard.end()
        self._tell("training", "end", state)

    def _tell(self, name, text, state):
        if self._verdicts is not None:
            self._verdicts.event(name, text, round(state.epoch or 0), state.global_step)
