"""What memory a step of training takes at most, with its state donated and without.

JAX_PLATFORMS=edgec,cpu python -m benchmarks.jax_tests.donated_memory [SIDE]

A step of Adam on a matrix of SIDE x SIDE (7168), on Linux: how much memory the process holds at its
height and between the steps, beside the bytes of the state.
"""

import re
import sys
from pathlib import Path
from typing import Any

_STEPS = 3


def main() -> None:
    """Measure and print, each in a process of its own."""
    import subprocess

    side = sys.argv[1] if len(sys.argv) > 1 else "7168"
    for platform in ("edgec", "cpu"):
        for donated in ("", "donated"):
            words = [sys.executable, "-m", __spec__.name, side, platform, donated]
            subprocess.run(words, check=True)


def _measure(side: int, platform: str, *, donated: bool) -> None:
    import edgec.plugins.jax

    edgec.plugins.jax.initialize()
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_device", jax.devices(platform)[0])

    def step(state: Any, x: Any) -> Any:
        p, m, v = state
        slope = jax.grad(lambda p: jnp.sum(jnp.tanh(x @ p) ** 2))(p)
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope * slope
        return p - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v

    run = jax.jit(step, donate_argnums=0 if donated else ())
    start = jax.jit(lambda k: jnp.full((side, side), k) * k)
    state, x = tuple(start(k) for k in (0.1, 0.2, 0.3)), jnp.ones((4, side))
    size = sum(each.nbytes for each in state)
    for _ in range(_STEPS):
        state = jax.block_until_ready(run(state, x))
    between = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the height from now on
    for _ in range(_STEPS):
        state = jax.block_until_ready(run(state, x))
    how = "donated" if donated else "not donated"
    print(
        f"{platform}, {how}: the state {size / 2**20:.0f} MiB, between steps "
        f"{between:.0f}, at the most {_status('VmHWM'):.0f}",
        flush=True,
    )


def _status(name: str) -> float:
    """MiB of this process."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError(f"this system does not say {name}")
    return int(found[1]) / 1024


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _measure(int(sys.argv[1]), sys.argv[2], donated=bool(sys.argv[3]))
    else:
        main()
