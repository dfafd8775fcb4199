"""SPIR-V kernels as executables of a module, and sums in parts with them.

A module imported only by a pass that runs; it needs the compiler.
"""

import json
import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.gpu.dispatches import Binary, Dispatches
from edgec.toolchain.kernels.gpu.tails import Finish
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.kernels.vulkan.choice import Choice

__all__ = ["Library"]

_WIDE = 4
"""The bit of `what` that stores f32."""


class Library(Dispatches):
    """The kernels for one family of GPUs.

    Attributes:
        index: by kernel name (`product_nn_deep_f16`): threads, shared memory, sizes of its tile.
        answers: what became of each description.
    """

    def __init__(self, module: Any, family: str, answers: Answers | None = None) -> None:
        super().__init__(module, "spv", '"vulkan-spirv", "vulkan-spirv-fb"')
        self._files = resources.files("edgec.toolchain") / "kernels" / "vulkan"
        text = (self._files / "index.json").read_text(encoding="utf-8")
        self.index: dict[str, dict[str, int]] = json.loads(text)
        self._matrix_units = family == "nvidia"
        self.answers = answers or Answers()

    def multiple(self, element: Any) -> int:
        """What sizes along rows must be a multiple of for kernels of a type; 0 if there are none.

        f16 needs matrix units: without them the compiler's code was not measured against a kernel.
        """
        if str(element) == "f32":
            return 4
        return 8 if str(element) == "f16" and self._matrix_units else 0

    def sum(
        self,
        kind: str,
        element: Any,
        choice: Choice,
        sizes: tuple[int, int, int, int],
        numbers: Sequence[int],
        operands: Sequence[Any],
        tail: Finish,
    ) -> Any:
        """Dispatch a product or convolution and what follows it; [batch, m, n].

        Args:
            kind: `product_nn`, `product_nt` or `convolution`.
            element: the type of the operands.
            choice: tiles and parts.
            sizes: batch, m, n, k.
            numbers: what the kernel takes beside these.
            operands: left and right, or image and weight.
            tail: what follows.
        """
        batch, m, n, k = sizes
        split = choice.parts > 1
        f32 = ir.F32Type.get()
        left, right = operands
        bias, other = tail.bias or left, tail.other or left
        last = ir.RankedTensorType.get([batch, m, n], tail.last.type.element_type)
        parts = ir.RankedTensorType.get([choice.parts, m, n], f32)
        (total,) = self.dispatch(
            self.binary(f"{kind}_{choice.form}_{element}"),
            (choice.tiles, choice.parts, batch),
            [m, n, k, choice.inside, _WIDE if split else tail.what, *tail.numbers, *numbers],
            # A tail in the kernel that joins is not read by those that make the parts.
            [left, right, *((left, left) if split else (bias, other))],
            [parts if split else last],
        )
        if not split:
            return total
        join = f"join_{element}"
        groups = math.ceil(m * n / 4 / self.index[join]["threads"])
        numbers = [m, n, choice.parts, tail.what, *tail.numbers]
        (joined,) = self.dispatch(
            self.binary(join), (groups, 1, 1), numbers, [total, bias, other], [last]
        )
        return joined

    def binary(self, name: str) -> Binary:
        """A kernel by its name in the index."""
        facts = self.index[name]
        data = (self._files / f"{name}.spv").read_bytes()
        return Binary(name=name, data=data, threads=facts["threads"], shared=facts["shared"])
