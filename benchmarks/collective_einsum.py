"""A product whose rows are gathered first, and the same as a ring of pieces, on two cores.

    JAX_PLATFORMS=cpu python -m benchmarks.collective_einsum [FOLDER]

Each device has half of the rows and half of the weight's columns. Either all rows are gathered and
multiplied (all_gather), or each device multiplies its own rows while the other's are on their way
(collective_permute; the collective einsum). Prints a table in Markdown: milliseconds of a call with
its arrays on the devices, the least of many, in turns, and that of the all_gather alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kept import in_folder
from benchmarks.mesh import least
from edgec.exporters import export
from edgec.meshing import compile_mesh
from edgec.runtime.mesh.folder import is_mesh
from edgec.runtime.mesh.running import load_mesh
from edgec.toolchain import CompileOptions

ROWS, WIDTH, COLUMNS = 1024, 1024, 2048


def _gathered(x: Any, weight: Any) -> Any:
    import jax

    return jax.lax.all_gather(x, "x", axis=0, tiled=True) @ weight


def _ring(x: Any, weight: Any) -> Any:
    import jax
    import jax.numpy as jnp

    other = jax.lax.ppermute(x, "x", [(0, 1), (1, 0)])
    mine, theirs = x @ weight, other @ weight
    first = jax.lax.axis_index("x") == 0
    return jnp.concatenate([jnp.where(first, mine, theirs), jnp.where(first, theirs, mine)])


def _alone(x: Any, weight: Any) -> Any:
    import jax

    return jax.lax.all_gather(x, "x", axis=0, tiled=True)[:, :1] + weight[:1]


WAYS = {"gathered, then multiplied": _gathered, "as a ring": _ring, "the gather alone": _alone}


def measure(folder: Path) -> dict[str, float]:
    """Compile what is not there yet, prove it by JAX's answers, and time it."""
    import jax
    from jax.sharding import AxisType
    from jax.sharding import PartitionSpec as P

    jax.config.update("jax_num_cpu_devices", 2)
    random = np.random.default_rng(0)
    x, weight = (
        random.standard_normal(shape).astype(np.float32) / 32
        for shape in ((ROWS, WIDTH), (WIDTH, COLUMNS))
    )
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    calls: dict[str, Callable[[], object]] = {}
    for number, (name, way) in enumerate(WAYS.items()):
        place = folder / f"{number}.mesh"
        if not is_mesh(place):
            cut = jax.shard_map(
                way, mesh=mesh, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x")
            )
            program = export(
                cut, (x, weight), mesh="x=2", external_weights=folder / "none.safetensors"
            )
            compile_mesh(program, "cpu", place, CompileOptions())
        loaded = load_mesh(place, ["cpu?threads=1", "cpu?threads=1"])
        function = next(iter(loaded.signatures))
        shards = loaded[function].put(x, weight)
        calls[name] = lambda f=loaded[function], s=shards: f.on_devices(s)
    return least(calls)


def main(folder: Path) -> None:
    """Print the table."""
    print("| | ms a call |\n|---|--:|")
    for name, taken in measure(folder).items():
        print(f"| {name} | {taken:.2f} |")


if __name__ == "__main__":
    in_folder(main)
