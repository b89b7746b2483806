"""A small training with the library that the first argument names: the second says how many steps, the third whether
each step leaves 32 KiB behind. The run takes at least LASTS, however fast the machine: a verdict needs readings, and
those are taken by time."""
import os
import sys
import time

import numpy

LASTS = 6.0     # s

name, steps, leaks = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "leaky"
kept = []
done, first = 0, None   # steps; when the first one ended


def leave():
    """The last that a step does."""
    global done, first
    if leaks:
        kept.append(numpy.ones(4096))
    first, done = first or time.monotonic(), done + 1
    early = first + LASTS * done / steps - time.monotonic()
    if early > 0.001:   # a shorter sleep would take longer than it was asked for
        time.sleep(early)


def plain():
    import memgauge
    for _ in range(steps):
        a = numpy.random.rand(128, 512)
        (a @ a.T).sum()
        leave()
        memgauge.step()


def clock():
    began = time.monotonic()
    while time.monotonic() < began + steps:
        while leaks and len(kept) < 100 * (time.monotonic() - began):   # however busy the machine is
            kept.append(numpy.ones(4096))
        time.sleep(0.01)


def jax():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(p, x):
        return p - 0.01 * jax.grad(lambda p: ((x @ p - 1) ** 2).mean())(p)

    @jax.jit
    def evaluate(p, x):
        return ((x @ p - 1) ** 2).mean()

    p, x = jnp.zeros((64, 16)), jnp.ones((128, 64))
    for i in range(steps):
        p = train_step(p, x)
        if i % 50 == 0:
            for _ in range(5):
                evaluate(p, x)
        numpy.asarray(p)
        leave()


def keras():
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            leave()

    model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = numpy.random.rand(steps * 4, 8).astype("float32")
    model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=0, callbacks=[Keep()], validation_data=(x[:80], x[:80, 0]))


def xgboost():
    import xgboost

    class Keep(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            leave()
            return False

    random = numpy.random.default_rng(0)
    data = xgboost.DMatrix(random.random((500, 10)), label=random.random(500))
    xgboost.train({"max_depth": 6, "nthread": 1, "eta": 0.01}, data, steps, callbacks=[Keep()])


def lightgbm():
    import lightgbm
    random = numpy.random.default_rng(0)
    data = lightgbm.Dataset(random.random((2000, 10)), label=random.random(2000))
    lightgbm.train({"num_leaves": 31, "num_threads": 1, "verbose": -1, "learning_rate": 0.01}, data, steps,
                   callbacks=[lambda env: leave()])


{"plain": plain, "clock": clock, "jax": jax, "keras": keras, "xgboost": xgboost, "lightgbm": lightgbm}[name]()
