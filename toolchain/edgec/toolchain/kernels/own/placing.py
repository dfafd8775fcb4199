"""A program's composites of kernels to dispatches of their code, or calls of their references.

A module imported only by a pass that runs; it needs the compiler.
"""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from iree.compiler import ir

from edgec.runtime.errors import ProgramError
from edgec.targets import Backend, Target
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.places import place_of
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.gpu.dispatches import Binary, Dispatches
from edgec.toolchain.kernels.own.arrays import (
    definitions,
    from_memory,
    memory_type,
    to_memory,
    unfit,
)
from edgec.toolchain.kernels.own.c_compiler import compile_c, object_target
from edgec.toolchain.kernels.own.c_executable import c_executable
from edgec.toolchain.kernels.own.cuda_compiler import ptx_of
from edgec.toolchain.kernels.own.glsl_compiler import spirv_of
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel, Work
from edgec.toolchain.own_kernels import ATTRIBUTE, COMPOSITE, Code, OwnKernel

__all__ = ["described", "place_own_kernels"]

_SUFFIXES = {Backend.CUDA: ("ptx", '"cuda", "cuda-nvptx-fb"')}
_SPIRV = ("spv", '"vulkan-spirv", "vulkan-spirv-fb"')


def described(op: Any) -> OwnKernel | None:
    """The kernel that an operation is; None where it is none.

    Raises:
        ProgramError: its description is damaged, or does not fit its operands.
    """
    if op.name != "stablehlo.composite":
        return None
    if ir.StringAttr(op.attributes["name"]).value != COMPOSITE:
        return None
    try:
        held = ir.DictAttr(op.attributes["composite_attributes"])
        text = ir.StringAttr(held[ATTRIBUTE]).value
    except KeyError:
        raise ProgramError(
            f"a composite {COMPOSITE} has no attribute {ATTRIBUTE}",
            where=place_of(op),
            hint="docs/kernels.md says what it holds",
        ) from None
    kernel = OwnKernel.from_json(text)
    if kernel.inputs > len(op.operands):
        raise ProgramError(
            f"the kernel {kernel.name} reads {kernel.inputs} arrays and is given "
            f"{len(op.operands)}",
            where=place_of(op),
            hint="docs/kernels.md says what a composite of a kernel holds",
        )
    return kernel


def place_own_kernels(module: Any, target: Target, answers: Answers) -> int:
    """Put code in the place of every kernel that has some for the target; how many these are."""
    placing = _Placing(module, target)
    for op in list(inside(module.operation)):
        kernel = described(op)
        if kernel is None:
            continue
        outcome = placing.place(op, kernel)
        answers.record(op, f"kernel {kernel.name}", Work(), outcome)
        if isinstance(outcome, Declined):
            _compute_reference(op)
        op.erase()
    return placing.count


def _compute_reference(op: Any) -> None:
    """A call of the reference in the place of the kernel."""
    with ir.InsertionPoint(op), op.location:
        call = ir.Operation.create(
            "func.call",
            results=[value.type for value in op.results],
            operands=list(op.operands),
            attributes={"callee": op.attributes["decomposition"]},
        )
    for old, new in zip(op.results, call.results, strict=True):
        old.replace_all_uses_with(new)


class _Placing:
    """The kernels of one module for one target."""

    def __init__(self, module: Any, target: Target) -> None:
        self._target = target
        self._library = Library(module)
        suffix, executables = _SUFFIXES.get(target.backend, _SPIRV)
        self._dispatches = Dispatches(module, suffix, executables)
        self._names: dict[tuple[object, ...], str] = {}
        self._by = ""
        self.count = 0

    def place(self, op: Any, kernel: OwnKernel) -> Kernel | Declined:
        """Dispatch a kernel's code before `op`, and use its results; or say why not."""
        code = _code_for(kernel, self._target)
        if isinstance(code, Declined):
            return code
        reads = list(op.operands)[len(op.operands) - kernel.inputs :]
        writes = list(op.results)
        for value in (*reads, *writes):
            if reason := unfit(value):
                return Declined(reason=reason)
        defines = {**definitions(reads, writes), **code.defines}
        self._by = ""
        with ir.InsertionPoint(op), op.location:
            given = [to_memory(value) for value in reads]
            kinds = [memory_type(value.type) for value in writes]
            if self._target.backend is Backend.CPU:
                made = self._on_cpu(kernel.name, code, defines, given, kinds)
            else:
                made = self._on_gpu(kernel.name, code, defines, given, kinds)
            for old, new in zip(writes, made, strict=True):
                old.replace_all_uses_with(from_memory(new, old.type))
        self.count += 1
        return Kernel(name=kernel.name, by=self._by)

    def _on_cpu(
        self,
        name: str,
        code: Code,
        defines: Mapping[str, str],
        given: Sequence[Any],
        kinds: Sequence[Any],
    ) -> list[Any]:
        reads = [_memory(value.type) for value in given]
        writes = [_memory(kind) for kind in kinds]
        file = compile_c(name, code, defines, len(reads) + len(writes), self._target)
        fits = object_target(self._target) or ""  # `_code_for` has asked
        text = c_executable(f"edgec_own_{name}", file, fits, code.grid[0], reads, writes)
        return self._library.call_all(f"own_{name}", text, given, kinds)

    def _on_gpu(
        self,
        name: str,
        code: Code,
        defines: Mapping[str, str],
        given: Sequence[Any],
        kinds: Sequence[Any],
    ) -> list[Any]:
        arrays = tuple(str(kind) for kind in (*(value.type for value in given), *kinds))
        key = (name, repr(code), arrays)
        taken = sum(known[0] == name for known in self._names)
        symbol = self._names.setdefault(key, f"own_{name}_{taken}" if taken else f"own_{name}")
        entry = f"edgec_{symbol}"
        group = code.group
        if self._target.backend is Backend.CUDA:
            ptx = ptx_of(name, code, defines, entry, self._target)
            data, self._by = ptx.data, ptx.by
        else:
            data, group = spirv_of(name, code, defines, entry, self._target)
        binary = Binary(
            name=symbol, data=data, threads=group[0], more=group[1:], shared=code.shared
        )
        return self._dispatches.dispatch(binary, code.grid, code.numbers, given, kinds)


def _code_for(kernel: OwnKernel, target: Target) -> Code | Declined:
    """The code that the target runs best."""
    found = [code for code in kernel.codes if target.backend in code.language.backends]
    if not found:
        known = sorted({code.language.value for code in kernel.codes})
        return Declined(reason=f"code in {', '.join(known)} alone, so its reference is computed")
    if target.backend is Backend.CPU and object_target(target) is None:
        return Declined(
            reason=f"code in C has no form for {target.name} yet, so its reference is computed"
        )
    here = target.gpu.capability if target.gpu else 0
    fitting = [code for code in found if not here or _runs(code, here)]
    if not fitting:
        least = min(code.capability for code in found)
        return Declined(
            reason=f"code for compute capability {least} and above, so its reference is computed"
        )
    return max(fitting, key=lambda code: code.capability)


def _runs(code: Code, capability: int) -> bool:
    """Whether a GPU of a compute capability runs code; `sm_90a` is for that one alone."""
    if re.search(r"^\.target\s+sm_\d+a\b", code.text, re.MULTILINE):
        return code.capability == capability
    return code.capability <= capability


def _memory(kind: Any) -> tuple[int, str]:
    """How many elements there are, and their type."""
    return prod(kind.shape), str(kind.element_type)
