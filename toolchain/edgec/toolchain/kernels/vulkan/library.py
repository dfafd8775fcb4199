"""SPIR-V kernels as executables of a module, and sums in parts with them.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from iree.compiler import ir

from edgec.targets import Gpu, Limits
from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.dispatches import Binary, Dispatches
from edgec.toolchain.kernels.gpu.tails import Finish
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.kernels.spec import Answers, Declined
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.choice import Choice, multiplies
from edgec.toolchain.kernels.vulkan.forms import FEWEST_REGISTERS, SUBGROUP
from edgec.toolchain.kernels.vulkan.glsl_compiler import GlslCompiler, tools
from edgec.toolchain.kernels.vulkan.prebuilt import Prebuilt
from edgec.toolchain.kernels.vulkan.shaders import Shader
from edgec.toolchain.kernels.vulkan.variants import Variant
from edgec.toolchain.nan_kept import keeping_nan

__all__ = ["Binaries", "Library"]

_WIDE = 4
"""The bit of `what` that stores f32."""
_FOURS = 4
_EVEN = 32
_FEW_BINDINGS = 8
_MANY_BINDINGS = 32


class Binaries(Protocol):
    """Where kernels come from.

    Attributes:
        folds: whether integers may become constants at will.
    """

    folds: bool

    def find(self, variant: Variant) -> Binary | Declined:
        """The kernel, or why there is none."""


class Library(Dispatches):
    """The kernels of a module for one GPU.

    Attributes:
        gpu: what is known of it.
        limits: what a workgroup may be there.
        answers: what became of each description.
        tiles: those that were measured to be best, by key.
        spares: whether to do without kernels that take more memory than plain ones.
        turned: bytes of weights that were turned for Winograd's convolution.
        missed: convolutions that would be Winograd's, if kernels could be compiled.
        unmatched: attentions that matrix units would do, likewise.
        unread: products by weights in blocks that would be read as they lie, likewise.
    """

    def __init__(
        self,
        module: Any,
        gpu: Gpu,
        binaries: Binaries | None = None,
        answers: Answers | None = None,
        tiles: Mapping[str, Tile] | None = None,
        limits: Limits | None = None,
        spares: bool = False,
    ) -> None:
        super().__init__(module, "spv", '"vulkan-spirv", "vulkan-spirv-fb"')
        self._binaries = binaries or _binaries()
        few = replace(gpu, registers=gpu.registers or FEWEST_REGISTERS)
        self.gpu = gpu if self._binaries.folds else few
        self.limits = limits or Limits()
        self.answers = answers or Answers()
        self.tiles = tiles or {}
        self.spares = spares
        self.turned = 0
        self.missed = 0
        self.unmatched = 0
        self.unread = 0

    def multiplies(self, element: Any) -> bool:
        """Whether matrix units multiply elements of a type."""
        return multiplies(self.gpu, str(element))

    def multiple(self, element: Any) -> int:
        """What sizes along rows must be a multiple of for kernels of a type; 0 if there are none.

        On GPUs whose memory is shared, f16 needs matrix units: without them the compiler's code was
        not measured against a kernel.
        """
        if self.multiplies(element):
            return 8
        halves = str(element) == "f16" and self.gpu.kernels == "direct"
        return _FOURS if str(element) == "f32" or halves else 0

    @property
    def remarks(self) -> list[str]:
        """What whoever asked for the module should know of its kernels."""
        found = []
        if self.turned:
            size = self.turned / 1e6
            found.append(
                f"convolutions of 3 x 3 by Winograd: their weights take {size:.1f} MB, turned"
            )
        if self.missed:
            few = "convolution" if self.missed == 1 else "convolutions"
            found.append(
                f"{self.missed} {few} of 3 x 3 would be quicker by Winograd, whose kernels "
                "edgec[vulkan] compiles"
            )
        if self.unmatched:
            found.append(
                f"attention in f16 ({self.unmatched} times) would be quicker on matrix units, by a "
                "kernel that edgec[vulkan] compiles"
            )
        if self.unread:
            found.append(
                f"products by weights in blocks ({self.unread}) would read these as they lie, by a "
                "kernel that edgec[vulkan] compiles; they are made f32 at each call"
            )
        return found

    @property
    def compiles(self) -> bool:
        """Whether any kernel can be made, not those alone that were beforehand."""
        return self._binaries.folds

    @property
    def most_bindings(self) -> int:
        """Pieces of memory that a kernel may be given; eight on any phone (Android's baseline)."""
        if self.limits.buffers:
            return self.limits.buffers
        return _FEW_BINDINGS if self.gpu.kernels == "direct" else _MANY_BINDINGS

    @property
    def shares(self) -> bool:
        """Whether workgroups of this GPU gain by memory that they share."""
        return self.gpu.kernels != "direct"

    def together(self, threads: int) -> bool:
        """Whether so many threads side by side are a subgroup, and a kernel may be made for it."""
        return self.gpu.kernels == "nvidia" and threads == SUBGROUP and self.compiles

    def leaves_even(self, *sizes: int) -> bool:
        """Whether a product of such sizes is left to the compiler, which cuts it evenly.

        Its code for even tiles knows all sizes; on Mesa's llvmpipe and Chromium's SwiftShader it
        was 1.6 and 2 times as fast on MiniLM as kernels that share nothing.
        """
        return not self.shares and all(size % _EVEN == 0 for size in sizes)

    def fits(self, *, threads: int, shared: int) -> bool:
        """Whether the device runs workgroups of so many threads that share so many bytes."""
        most = self.limits.invocations
        return shared <= self.gpu.shared_memory and not (most and threads > most)

    def call(
        self,
        shader: Shader,
        grid: tuple[int, int, int],
        values: Mapping[str, int],
        reads: Sequence[Any],
        result: Any,
        table: tuple[int, ...] = (),
        into: Any = None,
    ) -> Any | Declined:
        """Dispatch a kernel that writes one tensor.

        Args:
            result: the type of what it writes.
            into: the tensor of which it is the rest, if it is one's.
            shader, grid, values, reads, table: see `call_all`.
        """
        tied = () if into is None else (into,)
        made = self.call_all(shader, grid, values, reads, [result], table, tied)
        return made if isinstance(made, Declined) else made[0]

    def call_all(
        self,
        shader: Shader,
        grid: tuple[int, int, int],
        values: Mapping[str, int],
        reads: Sequence[Any],
        results: Sequence[Any],
        table: tuple[int, ...] = (),
        into: Sequence[Any] = (),
    ) -> list[Any] | Declined:
        """Dispatch a kernel at the current insertion point; nothing happens if it is declined.

        Args:
            shader: the kernel.
            grid: workgroups along x, y and z.
            values: its integers by name.
            reads: what it reads, in the order of its bindings.
            results: the types of what it writes, in the order of its further bindings.
            table: the array of integers that it takes, if it does.
            into: see `Dispatches.dispatch`.
        """
        refusal = self.refusal(reads)
        if refusal is not None:
            return refusal
        folds = self._binaries.folds
        variant = shader.variant(values, table, folds=folds)
        binary = self._binaries.find(variant)
        if isinstance(binary, Declined):
            return binary
        binary = replace(binary, data=keeping_nan(binary.data))
        if not self.fits(threads=binary.threads, shared=binary.shared):
            many = f"{binary.threads} threads that share {binary.shared} bytes"
            return Declined(reason=f"workgroups of {many}")
        if shader.table:
            # Its place is kept where the array is compiled in, whatever stands there.
            i32 = ir.IntegerType.get_signless(32)
            first = reads[0] if folds else write.constant(np.array(table, np.int32), i32)
            reads = [first, *reads]
        numbers = [values[name] for name in variant.numbers]
        return self.dispatch(binary, grid, numbers, reads, results, into)

    def sum(
        self,
        kind: str,
        element: Any,
        choice: Choice,
        sizes: tuple[int, int, int, int],
        steps: Mapping[str, int],
        operands: Sequence[Any],
        tail: Finish,
    ) -> Any | Declined:
        """Dispatch a product or convolution and what follows it; [batch, m, n].

        Args:
            kind: `product_nn`, `product_nt` or `convolution`.
            element: the type of the operands.
            choice: tiles and parts.
            sizes: batch, m, n, k.
            steps: what the kernel takes beside these and the tail.
            operands: left and right, or image and weight.
            tail: what follows.
        """
        batch, m, n, k = sizes
        split = choice.parts > 1
        f32 = ir.F32Type.get()
        left, right = operands
        after = list(tail.reads(left).values())
        last = ir.RankedTensorType.get([batch, m, n], tail.last.type.element_type)
        parts = ir.RankedTensorType.get([choice.parts, m, n], f32)
        values = {"m": m, "n": n, "k": k, "k_part": choice.inside, **tail.folded, **steps}
        if split:
            values["what"] = _WIDE
        total = self.call(
            shaders.summing(kind, choice.word, choice.form, str(element)),
            (choice.tiles, choice.parts, batch),
            values,
            # A tail in the kernel that joins is not read by those that make the parts.
            [left, right, *([left] * len(after) if split else after)],
            parts if split else last,
        )
        if not split or isinstance(total, Declined):
            return total
        return self.join(total, element, (choice.parts, m, n), after, last, tail)

    def join(
        self,
        total: Any,
        element: Any,
        sizes: tuple[int, int, int],
        after: Sequence[Any],
        last: Any,
        tail: Finish,
    ) -> Any | Declined:
        """Dispatch what adds up the parts of a sum, and what follows it.

        Args:
            total: the parts, in f32.
            element: the type of what is read by what follows.
            sizes: parts, m, n; n is a multiple of 4.
            after: what is read by what follows.
            last: the type of the result.
            tail: what follows.
        """
        parts, m, n = sizes
        shader = shaders.join(str(element))
        groups = math.ceil(m * n / _FOURS / shader.threads)
        values = {"m": m, "n": n, "parts": parts, **tail.folded}
        return self.call(shader, (groups, 1, 1), values, [total, *after], last)


def _binaries() -> Binaries:
    """Compiled when they are needed where glslang is here, compiled beforehand elsewhere."""
    found = tools()
    return Prebuilt() if found is None else GlslCompiler(found)
