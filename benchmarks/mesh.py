"""A transformer block on two devices of one CPU: edgec's beside XLA's, and each on one device.

    JAX_PLATFORMS=cpu python -m benchmarks.mesh [FOLDER]

Prints a table in Markdown: milliseconds of a call with host arrays in and out, the least of many,
in turns. The folder keeps what was compiled, so that a second run measures alone.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kept import in_folder
from edgec.exporters import export
from edgec.meshing import compile_mesh
from edgec.runtime import load
from edgec.runtime.mesh.folder import is_mesh
from edgec.runtime.mesh.running import load_mesh
from edgec.toolchain import CompileOptions, compile

TEXTS, TOKENS, WIDTH, HEADS, INNER = 4, 128, 256, 8, 1024
AXIS = "model"
SECONDS = 2.0


def _block() -> Callable[[Any], Any]:
    """Heads and the inner layer are cut along the mesh's axis."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    each = WIDTH // HEADS
    query, key, value = (weights(WIDTH, HEADS, each) for _ in range(3))
    out, up, down = weights(HEADS, each, WIDTH), weights(WIDTH, INNER), weights(INNER, WIDTH)

    def cut(x: Any, *axes: str | None) -> Any:
        known = jax.sharding.get_abstract_mesh().axis_names
        return jax.lax.with_sharding_constraint(x, P(*axes)) if known else x

    def norm(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)

    def block(x: Any) -> Any:
        h = norm(x)
        heads = (jnp.einsum("btd,dhe->bhte", h, weight) for weight in (query, key, value))
        q, k, v = (cut(one, None, AXIS) for one in heads)
        scores = jax.nn.softmax(jnp.einsum("bhte,bhse->bhts", q, k) / np.sqrt(each))
        x = x + jnp.einsum("bhte,hed->btd", jnp.einsum("bhts,bhse->bhte", scores, v), out)
        return x + cut(jax.nn.gelu(norm(x) @ up), None, None, AXIS) @ down

    return block


def least(calls: dict[str, Callable[[], object]], seconds: float = SECONDS) -> dict[str, float]:
    """Milliseconds of each, called in turns for so many seconds each."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def measure(folder: Path) -> dict[str, float]:
    """Compile what is not there yet, and measure all four ways."""
    import jax
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.config.update("jax_num_cpu_devices", 2)
    block = _block()
    x = np.random.default_rng(1).standard_normal((TEXTS, TOKENS, WIDTH)).astype(np.float32)
    options = CompileOptions(output=folder / "one.vmfb")
    if not is_mesh(folder / "two.mesh"):
        compile(export(block, (x,)), "cpu", options)
        two = export(
            block, (x,), mesh=f"{AXIS}=2", external_weights=folder / "block.safetensors"
        ).save(folder / "block.mlirbc")
        compile_mesh(two, "cpu", folder / "two.mesh", options)
    mesh = jax.make_mesh((2,), (AXIS,), axis_types=(AxisType.Auto,))
    whole = jax.jit(block)
    wanted = np.asarray(whole(x))
    with jax.set_mesh(mesh):
        sharded = jax.jit(block, out_shardings=NamedSharding(mesh, P()))
        sharded(x)

    def xla() -> np.ndarray:
        with jax.set_mesh(mesh):
            return np.asarray(sharded(x))

    places = ["cpu?threads=1", "cpu?threads=1"]
    with (
        load(folder / "one.vmfb", device="cpu?threads=2") as both,
        load(folder / "one.vmfb", device="cpu?threads=1") as single,
        load_mesh(folder / "two.mesh", places) as pair,
    ):
        calls: dict[str, Callable[[], Any]] = {
            "edgec, one device of one core": lambda: single.main(x),
            "edgec, two devices of a core each": lambda: pair.main(x),
            "edgec, one device of two cores": lambda: both.main(x),
            "XLA, one device of two cores": lambda: np.asarray(whole(x)),
            "XLA, two devices": xla,
        }
        for name, call in calls.items():
            np.testing.assert_allclose(call(), wanted, rtol=1e-3, atol=1e-3, err_msg=name)
        return least(calls)


def main(folder: Path) -> None:
    """Print the table."""
    print("| | ms a call |\n|---|---|")
    for name, taken in measure(folder).items():
        print(f"| {name} | {taken:.2f} |")


if __name__ == "__main__":
    in_folder(main)
