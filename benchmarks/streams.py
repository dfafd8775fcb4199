"""Three networks on a processor of two cores: calls one by one, side by side, and in stages.

    JAX_PLATFORMS=cpu python -m benchmarks.streams [FOLDER]

Prints a table in Markdown: calls a second of the ways that `edgec split --for=throughput` times.
The folder keeps what was compiled.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kept import in_folder
from edgec.exporters import export
from edgec.splitting import Streamed, split_for_stream

Example = tuple[Callable[[Any], Any], np.ndarray]


def _drawn() -> Callable[..., np.ndarray]:
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        scale = np.sqrt(np.prod(shape[:-1]))
        return (random.standard_normal(shape) / scale).astype(np.float32)

    return weights


def convolutions() -> Example:
    """Eight convolutions of 3 x 3 over 64 channels of an image of 56 x 56."""
    import jax
    from jax import lax

    weights = _drawn()
    kernels = [weights(3, 3, 64, 64) for _ in range(8)]

    def network(x: Any) -> Any:
        for kernel in kernels:
            layout = ("NHWC", "HWIO", "NHWC")
            x = jax.nn.relu(
                lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
            )
        return x

    return network, weights(1, 56, 56, 64)


def lstm() -> Example:
    """Two LSTMs of width 256 over 64 steps of one sequence: each step waits for the one before."""
    import jax
    import jax.numpy as jnp

    weights = _drawn()
    layers = [weights(512, 1024) for _ in range(2)]

    def layer(weight: np.ndarray, x: Any) -> Any:
        def step(carried: Any, at: Any) -> tuple[Any, Any]:
            hidden, cell = carried
            i, f, g, o = jnp.split(jnp.concatenate([at, hidden]) @ weight, 4)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zero = jnp.zeros(256, jnp.float32)
        return jax.lax.scan(step, (zero, zero), x)[1]

    def network(x: Any) -> Any:
        for weight in layers:
            x = layer(weight, x)
        return x

    return network, weights(64, 256)


def dense() -> Example:
    """Sixteen layers of width 1,024, 64 MiB of weights together, and eight rows."""
    import jax.numpy as jnp

    weights = _drawn()
    layers = [weights(1024, 1024) for _ in range(16)]

    def network(x: Any) -> Any:
        for weight in layers:
            x = jnp.tanh(x @ weight)
        return x

    return network, weights(8, 1024)


NETWORKS = {"eight convolutions": convolutions, "two LSTMs": lstm, "sixteen dense layers": dense}


def measure(name: str, folder: Path) -> Streamed:
    """Compile a network's pieces, prove every way by JAX's answers, and time it."""
    network, x = NETWORKS[name]()
    program = export(network, (x,)).save(folder / f"{name.replace(' ', '_')}.mlirbc")
    return split_for_stream(program, ["cpu", "cpu"], program.path.with_suffix(".split"))


def main(folder: Path) -> None:
    """Print the table."""
    print("| | one by one, two cores | side by side, a core each | two stages, a core each |")
    print("|---|--:|--:|--:|")
    for name in NETWORKS:
        made = measure(name, folder)
        one = next(way for way in made.tried if len(way.devices) == 1)
        beside = next(w for w in made.tried if len(w.stages) == 1 and len(w.devices) > 1)
        behind = next(way for way in made.tried if len(way.stages) > 1)
        rates = [f"{1 / way.seconds:.0f}" for way in (one, beside, behind) if way.seconds]
        print(f"| {name} | {' | '.join(rates)} |", flush=True)


if __name__ == "__main__":
    in_folder(main)
