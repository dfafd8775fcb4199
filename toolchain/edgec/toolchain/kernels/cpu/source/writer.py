"""The frame of a kernel: a `stream.executable`, its bindings, its constants and its ranges."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["KEPT", "Writer", "on_stack"]

KEPT = 64
"""Texts of kernels that are kept: a network has the same layer many times."""


def on_stack(name: str, kind: str) -> str:
    """The line that makes `name`, memory of a type on the stack, at the beginning of a cache line.

    A vector of 64 bytes that lies across two lines takes two reads.
    """
    begins = "alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>"
    return f'{name} = "memref.alloca"() <{{{begins}}}> : () -> {kind}'


@dataclass(kw_only=True)
class Writer:
    """Writes one kernel as MLIR text.

    Attributes:
        name: the executable's symbol; its entry point has the same name.
        workgroups: how many there are in each of three dimensions.
        sizes: elements of each binding; the last is the result.
        kinds: the type of each binding's elements; f32 where it is not said.
        shapes: in place of `sizes`, the axes of each binding's memory.
    """

    name: str
    workgroups: tuple[int, int, int]
    sizes: list[int]
    kinds: tuple[str, ...] = ()
    shapes: tuple[Sequence[int], ...] = ()
    _count: int = 0
    _constants: dict[int, str] = field(default_factory=dict)

    def fresh(self) -> str:
        """A new SSA name."""
        self._count += 1
        return f"%v{self._count}"

    def index(self, value: int) -> str:
        """The SSA name of a constant index."""
        sign = "n" if value < 0 else ""
        return self._constants.setdefault(value, f"%c{sign}{abs(value)}")

    def memory(self, binding: int) -> str:
        """The type of a binding's memory."""
        kind = self.kinds[binding] if self.kinds else "f32"
        axes = self.shapes[binding] if self.shapes else [self.sizes[binding]]
        return f"memref<{''.join(f'{size}x' for size in axes)}{kind}>"

    def text(self, body: Iterable[str]) -> str:
        """The whole executable. The body may use `%m0`… (the bindings) and `%wx`, `%wy`, `%wz`."""
        inner = [*self._opening(), *body]
        bindings = ", ".join(
            f"%b{i}: !stream.binding" for i in range(len(self.shapes or self.sizes))
        )
        counts = [
            f"    %{letter} = arith.constant {size} : index"
            for letter, size in zip("xyz", self.workgroups, strict=True)
        ]
        constants = [f"%{c[1:]} = arith.constant {v} : index" for v, c in self._constants.items()]
        return "\n".join(
            (
                f"stream.executable private @{self.name} {{",
                f"  stream.executable.export public @{self.name} workgroups()",
                "      -> (index, index, index) {",
                *counts,
                "    stream.return %x, %y, %z : index, index, index",
                "  }",
                "  builtin.module {",
                f"    func.func @{self.name}({bindings}) {{",
                *(f"      {line}" for line in (*constants, *inner)),
                "      return",
                "    }",
                "  }",
                "}",
            )
        )

    def _opening(self) -> Iterator[str]:
        zero = self.index(0)
        for i in range(len(self.shapes or self.sizes)):
            yield (
                f"%m{i} = stream.binding.subspan %b{i}[{zero}] : !stream.binding "
                f"-> {self.memory(i)}"
            )
        for dim, letter in enumerate("xyz"):
            yield f"%w{letter} = stream.dispatch.workgroup.id[{dim}] : index"

    def share(self, what: str, group: str, total: int, parts: int) -> Iterator[str]:
        """`%what_from` and `%what_to`: the group's share of `total` things, split evenly."""
        yield f"%{what}_a = arith.muli {group}, {self.index(total)} : index"
        yield f"%{what}_from = arith.divui %{what}_a, {self.index(parts)} : index"
        yield f"%{what}_b = arith.addi %{what}_a, {self.index(total)} : index"
        yield f"%{what}_to = arith.divui %{what}_b, {self.index(parts)} : index"

    def start(self, name: str, number: str, step: int, last: int) -> Iterator[str]:
        """`name`: `number` times `step`, but at most `last`, so that the end overlaps."""
        yield f"{name}_0 = arith.muli {number}, {self.index(step)} : index"
        yield f"{name} = arith.minui {name}_0, {self.index(last)} : index"

    def multiply_add(
        self, result: str, a: str, b: str, total: str, kind: str, fused: bool
    ) -> Iterator[str]:
        """`result = a * b + total`; in two roundings where the processor has no fused form."""
        if fused:
            yield f"{result} = vector.fma {a}, {b}, {total} : {kind}"
            return
        product = self.fresh()
        yield f"{product} = arith.mulf {a}, {b} : {kind}"
        yield f"{result} = arith.addf {total}, {product} : {kind}"
