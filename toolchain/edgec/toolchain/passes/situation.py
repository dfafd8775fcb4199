"""What a pass may look at to decide whether a program needs it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgec.runtime.kernel_share import KernelShare
from edgec.targets import Target
from edgec.toolchain.ir.functions import entry_block, functions, inside
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.precision import F32, Integers, Precision
from edgec.toolchain.program import Dialect, ProgramInfo
from edgec.toolchain.settings import Settings

__all__ = ["Situation"]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One program on its way to one target.

    Attributes:
        info: the program's description.
        facts: what the module will say of itself.
        module: the `ir.Module`, which the passes rewrite in place.
        target: the device it is compiled for.
        settings: its level, what is left out, and how kernels are cut.
        integers: how 64-bit integers are computed.
        spares: do without kernels that take more memory than plain ones.
        f32: how products of f32 are computed, where the device has a choice.
        precision: what the program computes in.
        golden: the golden calls that the module brings, by what its products are computed in; empty
            where it brings none.
        identity: which language model it is; empty of other programs.
        answers: what the device's kernels said to each description that was found so far.
        remarks: what passes have to say to whoever asked for the module.
    """

    info: ProgramInfo
    facts: Mapping[str, Any]
    module: Any
    target: Target
    settings: Settings = field(default_factory=Settings)
    integers: Integers = Integers.DECLARED
    spares: bool = False
    f32: F32 = F32.FULL
    precision: Precision = Precision.DECLARED
    golden: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    answers: Answers = field(default_factory=Answers)
    remarks: list[str] = field(default_factory=list)

    @property
    def level(self) -> int:
        """0 to 3, as in `-O2`."""
        return self.settings.level

    @property
    def is_stablehlo(self) -> bool:
        """Whether the program is in the StableHLO dialect."""
        return self.info.dialect is Dialect.STABLEHLO

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether an argument of the program has a dimension without a size."""
        return any(
            "?" in str(argument.type)
            for function in functions(self.module).values()
            if list(function.regions[0].blocks)
            for argument in entry_block(function).arguments
        )

    def changed(self) -> None:
        """Forget what was read of the program: a pass has rewritten it."""
        for name in ("is_dynamic", "kernels", "operations", "least_precise"):
            self.__dict__.pop(name, None)

    def count_work(self) -> None:
        """Remember how much the program computes, before the first kernel is placed."""
        from edgec.toolchain.placement import total_work

        if self.is_stablehlo and self.answers.before is None:
            self.answers.before = total_work(self.module)

    @cached_property
    def kernels(self) -> KernelShare | None:
        """What share of its work the kernels do that were placed so far; StableHLO's alone."""
        from edgec.toolchain.placement import share_of

        if not self.is_stablehlo:
            return None
        self.count_work()
        return share_of(self.module, self.answers)

    @cached_property
    def operations(self) -> frozenset[str]:
        """The names of all operations that occur in the program as it is now."""
        from iree.compiler import ir

        names = set()

        def look(op: Any) -> Any:
            names.add(op.name)
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(look)
        return frozenset(names)

    def has(self, names: Collection[str], is_meant: Callable[[Any], bool]) -> bool:
        """Whether an operation of one of these names is meant; the operation itself is asked."""
        if not self.operations & frozenset(names):
            return False
        with self.module.context:
            return any(op.name in names and is_meant(op) for op in inside(self.module.operation))

    @cached_property
    def declared_precision(self) -> str:
        """`least_precise` of the program as it came; to be asked before it is rewritten."""
        return self.least_precise if self.is_stablehlo else ""

    @cached_property
    def least_precise(self) -> str:
        """`bf16` or `f16` if the program multiplies matrices in it; else empty."""
        products = ("stablehlo.dot_general", "stablehlo.convolution")
        kinds = {
            str(op.operands[0].type.element_type)
            for op in inside(self.module.operation)
            if op.name in products
        }
        return next((kind for kind in ("bf16", "f16") if kind in kinds), "")
