"""A kernel in a JAX function: a composite, whose decomposition is the reference.

Gradients are those of the reference. What is mapped (`jax.vmap`) calls the kernel for each of the
arrays, in a loop: the code is written for arrays of the shapes that it was called with.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgec.exporters.extras import need
from edgec.toolchain.own_kernels import ATTRIBUTE, COMPOSITE

if TYPE_CHECKING:
    from edgec.kernels.kernel import Kernel

__all__ = ["call"]


def call(kernel: "Kernel", reference: Callable[..., Any], arrays: tuple[Any, ...]) -> Any:
    """The reference's answer, traced as a composite that holds the code."""
    need("jax", extra="jax", why="calling a kernel on arrays that are no PyTorch tensors")
    import jax
    import jax.numpy as jnp

    given = tuple(jnp.asarray(each) for each in arrays)

    def one(*inputs: Any) -> Any:
        results = tuple(jax.tree.leaves(jax.eval_shape(reference, *inputs)))
        text = kernel.described(inputs, results).to_json()
        composite = jax.lax.composite(lambda *xs, **_: reference(*xs), name=COMPOSITE, version=1)
        return composite(*inputs, **{ATTRIBUTE: text})

    mapped: Any = jax.custom_batching.custom_vmap(one)

    def each_in_turn(size: int, batched: Any, *inputs: Any) -> Any:
        moving = [x for x, moves in zip(inputs, batched, strict=True) if moves]

        def step(parts: Any) -> Any:
            rest = iter(parts)
            return mapped(
                *(next(rest) if moves else x for x, moves in zip(inputs, batched, strict=True))
            )

        answer = jax.lax.map(step, moving)
        return answer, jax.tree.map(lambda _: True, answer)

    mapped.def_vmap(each_in_turn)
    differentiable: Any = jax.custom_jvp(mapped)

    def slope(inputs: Any, tangents: Any) -> Any:
        _, moved = jax.jvp(reference, inputs, tangents)
        return differentiable(*inputs), moved

    differentiable.defjvp(slope)
    return differentiable(*given)
