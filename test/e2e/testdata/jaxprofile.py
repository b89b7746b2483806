"""Holds some arrays of JAX and writes its memory profile to the file that the argument names."""
import sys

import jax
import jax.numpy as jnp
import jax.profiler


def hold(n):
    # ten buffers of 1 MiB
    return [jnp.ones((1024, 256)) for _ in range(n)]


def other():
    return jnp.zeros((512, 512))


a, b = hold(10), other()
jax.block_until_ready(a)
jax.block_until_ready(b)
jax.profiler.save_device_memory_profile(sys.argv[1])
