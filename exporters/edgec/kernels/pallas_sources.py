"""A Pallas kernel, as JAX traced it, to PTX: Pallas lowers it to Triton, and that compiles it."""

import importlib.util
from collections.abc import Mapping
from math import prod
from typing import Any

from edgec.kernels.triton_sources import PTX_VERSIONS
from edgec.toolchain.kernels.cuda.triton_compiler import compile_ir
from edgec.toolchain.own_kernels import Code, Language

__all__ = ["NoCode", "pallas_codes"]

_ENTRY = "kernel"
_CAPABILITIES = (80, 90)
_WARPS = 4
_STAGES = 3
_MOST_SHARED = 99 * 1024
"""Bytes that a block may share on every GPU since capability 8.0; 8.6 has no more."""


class NoCode(Exception):
    """There is no code of a kernel for GPUs; says why."""


def pallas_codes(name: str, params: Mapping[str, Any], context: Any) -> tuple[Code, ...]:
    """PTX for each of the usual compute capabilities.

    Args:
        name: the kernel's, for messages.
        params: of the `pallas_call`, as JAX has them.
        context: JAX's module that it is lowered into.

    Raises:
        NoCode: Pallas or Triton does not take the kernel, or they are not here.
    """
    if importlib.util.find_spec("triton") is None:
        raise NoCode("Triton is not here (pip install 'edgec[cuda]')")
    if params["input_output_aliases"]:
        raise NoCode("it writes its results over what it reads")
    kind = type(params["compiler_params"])
    if params["compiler_params"] is not None and "triton" not in kind.__module__:
        raise NoCode(f"its parameters are for another accelerator ({kind.__module__})")
    return tuple(_compiled(params, context, capability) for capability in _CAPABILITIES)


def _compiled(params: Mapping[str, Any], context: Any, capability: int) -> Code:
    try:
        from jax._src.pallas.triton import lowering

        lowered = lowering.lower_jaxpr_to_triton_module(
            params["jaxpr"], params["grid_mapping"], "cuda", capability, mlir_ctx=context
        )
    except Exception as error:  # Pallas raises errors of every kind here
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise NoCode(f"Pallas does not lower it to Triton: {lines[0]}") from error
    chosen = params["compiler_params"]
    text = str(lowered.module.operation.get_asm())
    # Pallas rounds what f32 products multiply to TF32 where nobody asks for more; edgec does not.
    text = text.replace("inputPrecision = tf32 ", "inputPrecision = tf32x3 ")
    try:
        ptx, facts = compile_ir(
            text,
            function=_function(lowered.module),
            arrays=len(params["jaxpr"].invars),
            capability=capability,
            ptx_version=PTX_VERSIONS[capability],
            warps=getattr(chosen, "num_warps", None) or _WARPS,
            stages=getattr(chosen, "num_stages", None) or _STAGES,
            entry=_ENTRY,
        )
    except Exception as error:  # Triton's passes raise RuntimeError, its own errors ValueError
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise NoCode(f"Triton refuses it: {lines[-1]}") from error
    if facts["scratch"] or facts["shared"] > _MOST_SHARED:
        raise NoCode(f"it needs {facts['shared']} bytes of shared memory; use smaller blocks")
    x, y, z = (*lowered.grid, 1, 1, 1)[:3]
    if len(lowered.grid) > 3:
        raise NoCode(f"its grid has {len(lowered.grid)} dimensions, {prod(lowered.grid)} blocks")
    return Code(
        language=Language.PTX,
        text=ptx.decode(),
        entry=_ENTRY,
        grid=(int(x), int(y), int(z)),
        group=(facts["threads"], 1, 1),
        shared=facts["shared"],
        capability=capability,
    )


def _function(module: Any) -> str:
    """The name of the one function of a module."""
    from jax._src.lib.mlir import ir

    names = [ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations]
    public = [name for name in names if name]
    return str(public[0])
