"""What a call costs that is spread over two devices, on edgec's platform and on XLA's CPUs.

JAX_PLATFORMS=edgec,cpu EDGEC_JAX_DEVICES=cpu,cpu python -m benchmarks.jax_tests.mesh_costs

Prints a table in Markdown: the least of many calls, in turns, from arrays on the devices to arrays
on the devices. Each program is right beside XLA's on one device.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.mesh import least

AXIS = "d"
TEXTS, TOKENS, WIDTH, HEADS, INNER = 4, 128, 256, 8, 1024
ROWS = 512
Program = Callable[..., Any]


def _draw(*shape: int) -> np.ndarray:
    values = np.random.default_rng(len(shape)).standard_normal(shape)
    return (values / np.sqrt(shape[-1])).astype(np.float32)


def _sum() -> tuple[Program, list[np.ndarray], list[Any]]:
    """Four numbers, to their sum, which all devices get."""
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    return (lambda x: jnp.sum(x * 2)), [_draw(4)], [P(AXIS)]


def _step() -> tuple[Program, list[np.ndarray], list[Any]]:
    """A step of training a perceptron, its rows cut along the devices."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    def loss(up: Any, down: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jax.nn.gelu(x @ up) @ down - y) ** 2)

    def step(up: Any, down: Any, x: Any, y: Any) -> Any:
        slopes = jax.grad(loss, (0, 1))(up, down, x, y)
        return up - 0.1 * slopes[0], down - 0.1 * slopes[1]

    rows = [_draw(ROWS, WIDTH), _draw(ROWS, WIDTH)]
    return step, [_draw(WIDTH, INNER), _draw(INNER, WIDTH), *rows], [P(), P(), P(AXIS), P(AXIS)]


def _block() -> tuple[Program, list[np.ndarray], list[Any]]:
    """A block of a transformer, heads and the inner layer cut along the devices."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    each = WIDTH // HEADS

    def norm(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)

    def block(x: Any, heads: Any, out: Any, up: Any, down: Any) -> Any:
        q, k, v = jnp.einsum("btd,ndhe->nbhte", norm(x), heads)
        scores = jax.nn.softmax(jnp.einsum("bhte,bhse->bhts", q, k) / np.sqrt(each))
        x = x + jnp.einsum("bhte,hed->btd", jnp.einsum("bhts,bhse->bhte", scores, v), out)
        return x + jax.nn.gelu(norm(x) @ up) @ down

    arrays = [_draw(TEXTS, TOKENS, WIDTH), _draw(3, WIDTH, HEADS, each), _draw(HEADS, each, WIDTH)]
    cuts = [P(), P(None, None, AXIS), P(AXIS), P(None, AXIS), P(AXIS)]
    return block, [*arrays, _draw(WIDTH, INNER), _draw(INNER, WIDTH)], cuts


PROGRAMS = {
    "a sum of four numbers": _sum,
    "a step of training, rows cut": _step,
    "a block of a transformer, heads and inner layer cut": _block,
}


def _calls(
    program: Program, arrays: list[np.ndarray], cuts: list[Any]
) -> dict[str, Callable[[], Any]]:
    """The call on each kind of device, one and two of them."""
    import jax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    found: dict[str, Callable[[], Any]] = {}
    for platform in ("edgec", "cpu"):
        for count in (1, 2):
            mesh = Mesh(np.array(jax.devices(platform)[:count]), (AXIS,))
            given = [
                jax.device_put(array, NamedSharding(mesh, cut))
                for array, cut in zip(arrays, cuts, strict=True)
            ]
            work = jax.jit(program, out_shardings=NamedSharding(mesh, P()))
            found[f"{platform} {count}"] = lambda work=work, given=given: jax.block_until_ready(
                work(*given)
            )
    return found


def main() -> None:
    """Measure and print."""
    from edgec.runtime.pjrt_library import PJRT_VARIABLE, find_plugin

    os.environ[PJRT_VARIABLE] = str(find_plugin())
    import jax

    import edgec.plugins.jax

    jax.config.update("jax_num_cpu_devices", 2)
    edgec.plugins.jax.initialize()
    print("| ms a call | edgec, one | edgec, two | XLA, one | XLA, two |\n|---|---|---|---|---|")
    for name, make in PROGRAMS.items():
        calls = _calls(*make())
        wanted = jax.tree.leaves(calls["cpu 1"]())
        for place, call in calls.items():
            for made, want in zip(jax.tree.leaves(call()), wanted, strict=True):
                np.testing.assert_allclose(made, want, rtol=1e-3, atol=1e-3, err_msg=place)
        taken = least(calls)
        print(f"| {name} | {' | '.join(f'{taken[place]:.3f}' for place in calls)} |")


if __name__ == "__main__":
    main()
