"""Pallas kernels as kernels of the user's own: what they compute, and PTX for NVIDIA's GPUs.

`jax.experimental.pallas` has an interpreter, which says in plain JAX what a kernel computes, block
by block: that is the kernel's reference, and runs on every device. Where Triton is here
(`edgec[cuda]`), Pallas's own lowering to it and Triton's compiler make the kernel's code for CUDA,
without a GPU.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from edgec.kernels.pallas_sources import NoCode, pallas_codes
from edgec.toolchain.own_kernels import ATTRIBUTE, COMPOSITE, OwnKernel

__all__ = ["interpreted", "pallas_rules"]

_LOG = logging.getLogger("edgec.exporters")
_PALLAS = "jax._src.pallas.pallas_call"


def pallas_rules() -> tuple[tuple[Any, Any], ...]:
    """The rule that lowers `pallas_call`; none where nobody has imported Pallas."""
    if _PALLAS not in sys.modules:
        return ()
    return ((sys.modules[_PALLAS].pallas_call_p, _lowered),)


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Let JAX run kernels on a CPU by Pallas's interpreter, which it refuses to otherwise."""
    from jax._src.interpreters import mlir

    rules = mlir._platform_specific_lowerings["cpu"]
    pallas = sys.modules.get(_PALLAS)
    if pallas is None or pallas.pallas_call_p in rules:
        yield
        return
    mlir.register_lowering(pallas.pallas_call_p, _interpreted, platform="cpu")
    try:
        yield
    finally:
        del rules[pallas.pallas_call_p]


def _interpreted(ctx: Any, *nodes: Any, interpret: Any, **params: Any) -> Any:
    from jax._src.pallas import pallas_call

    return pallas_call._pallas_call_lowering(ctx, *nodes, interpret=interpret or True, **params)


def _lowered(ctx: Any, *nodes: Any, interpret: Any, **params: Any) -> Any:
    """What a kernel computes; where it has code for a GPU, as a composite with that."""
    if interpret:  # so the user wants no kernel
        return _interpreted(ctx, *nodes, interpret=interpret, **params)
    name = _name(params)
    try:
        codes = pallas_codes(name, params, ctx.module_context)
    except NoCode as reason:
        _LOG.warning("the Pallas kernel %s has no code for GPUs: %s", name, reason)
        return _interpreted(ctx, *nodes, interpret=True, **params)
    return _composite(ctx, nodes, params, OwnKernel(name=name, inputs=len(nodes), codes=codes))


def _composite(ctx: Any, nodes: Any, params: Mapping[str, Any], kernel: OwnKernel) -> Any:
    import jax
    from jax._src.interpreters import mlir
    from jax._src.pallas import hlo_interpreter

    def reference(*arrays: Any, **_: Any) -> Any:
        return hlo_interpreter.pallas_call_hlo_interpret(*arrays, **params)

    def called(*arrays: Any) -> Any:
        composite = jax.lax.composite(reference, name=COMPOSITE, version=1)
        return composite(*arrays, **{ATTRIBUTE: kernel.to_json()})

    return mlir.lower_fun(called, multiple_results=True)(ctx, *nodes)


def _name(params: Mapping[str, Any]) -> str:
    """What messages call a kernel: its function's name."""
    found = str(params["name"] or params["jaxpr"].debug_info.func_name)
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in found)
    return plain if plain.isidentifier() else f"kernel_{plain}"
