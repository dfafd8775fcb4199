"""Products whose algorithm a program names, where JAX's CPU does not know the name.

JAX refuses these on a CPU, since XLA's CPU would compute them in another way and say nothing:
`jax.nn.dot_product_attention` of f16 runs on GPUs alone. An exporter runs a program on the CPU for
other devices, and what it keeps is what the algorithm promises: types of operands and of sums.
"""

import contextlib
from collections.abc import Iterator

__all__ = ["any_algorithm"]


@contextlib.contextmanager
def any_algorithm() -> Iterator[None]:
    """Have JAX lower products for the CPU as it does for any other device, in this block."""
    from jax._src.interpreters import mlir
    from jax._src.lax import lax

    rules = mlir._platform_specific_lowerings["cpu"]
    usual = rules.pop(lax.dot_general_p, None)
    try:
        yield
    finally:
        if usual is not None:
            rules[lax.dot_general_p] = usual
