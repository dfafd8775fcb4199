import jax.numpy as jnp
import numpy as np


def net():
    w = np.sin(np.arange(8 * 16, dtype=np.float32)).reshape(8, 16)
    v = np.cos(np.arange(16 * 4, dtype=np.float32)).reshape(16, 4)

    def answer(x):
        return {"scores": jnp.tanh(x @ w) @ v}

    return answer, (np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8),)
