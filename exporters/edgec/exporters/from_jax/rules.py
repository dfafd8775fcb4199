"""What edgec writes in place of JAX's own lowering: operations that only XLA or LAPACK have."""

import sys
from collections.abc import Callable
from typing import Any

from edgec.exporters.from_jax import eigen as our_eigen
from edgec.exporters.from_jax import general_eigen as our_general_eigen
from edgec.exporters.from_jax import hessenberg as our_hessenberg
from edgec.exporters.from_jax import linalg as our_linalg

__all__ = ["lowering_rules"]


def lowering_rules() -> tuple[tuple[Any, Any], ...]:
    """The replacements, as `jax.export` takes them."""
    from jax._src.interpreters import mlir
    from jax._src.lax import ann, linalg

    from edgec.exporters.from_jax.pallas import pallas_rules
    from edgec.exporters.from_jax.shards import shard_rules

    def rule(function: Callable[..., Any], several: bool) -> Any:
        def lower(ctx: Any, *arrays: Any, **params: Any) -> Any:
            is_empty = all(map(_is_empty, ctx.avals_out))
            computed = _nothing(ctx.avals_out) if is_empty else _as_usual(function)
            lowered = mlir.lower_fun(computed, multiple_results=several or is_empty)
            return lowered(ctx, *arrays, **params)

        return lower

    return (
        (linalg.cholesky_p, rule(our_linalg.cholesky, False)),
        (linalg.geqrf_p, rule(our_linalg.geqrf, True)),
        (linalg.householder_product_p, rule(our_linalg.householder_product, False)),
        (linalg.hessenberg_p, rule(our_hessenberg.hessenberg, True)),
        (linalg.lu_p, rule(our_linalg.lu, True)),
        (linalg.triangular_solve_p, rule(our_linalg.triangular_solve, False)),
        (linalg.tridiagonal_p, rule(our_hessenberg.tridiagonal, True)),
        (linalg.tridiagonal_solve_p, rule(our_linalg.tridiagonal_solve, False)),
        (linalg.eig_p, rule(our_general_eigen.eig, True)),
        (linalg.eigh_p, rule(our_eigen.eigh, True)),
        (linalg.schur_p, rule(our_general_eigen.schur, True)),
        (linalg.svd_p, rule(our_eigen.svd, True)),
        (ann.approx_top_k_p, rule(_exact_top_k, True)),
        *pallas_rules(),
        *shard_rules(),
        *_sparse_rules(),
    )


def _is_empty(aval: Any) -> bool:
    """Whether an array has no elements; one of an open size may have some."""
    return any(isinstance(size, int) and size == 0 for size in aval.shape)


def _nothing(avals: Any) -> Callable[..., Any]:
    """Arrays without elements, whatever is given: there is no largest element to begin with."""
    import jax.numpy as jnp

    return lambda *_, **__: [jnp.zeros(aval.shape, aval.dtype) for aval in avals]


def _as_usual(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, whatever the user has JAX refuse in functions of their own."""
    import jax

    def called(*arrays: Any, **params: Any) -> Any:
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            return function(*arrays, **params)

    return called


def _sparse_rules() -> tuple[tuple[Any, Any], ...]:
    """Products by rows of numbers (BCSR), which JAX leaves to a library on CPUs; where imported."""
    bcsr = sys.modules.get("jax.experimental.sparse.bcsr")
    if bcsr is None:
        return ()
    return ((bcsr.bcsr_dot_general_p, bcsr._bcsr_dot_general_default_lowering),)


def _exact_top_k(
    values: Any, *, k: int, reduction_dimension: int, is_max_k: bool, **params: Any
) -> tuple[Any, Any]:
    """The greatest or least, all of them: what an approximate search may always answer."""
    import jax
    import jax.numpy as jnp

    rows = jnp.moveaxis(values, reduction_dimension, -1)
    found, places = jax.lax.top_k(rows if is_max_k else -rows, k)
    found = found if is_max_k else -found
    return tuple(jnp.moveaxis(x, -1, reduction_dimension) for x in (found, places))
