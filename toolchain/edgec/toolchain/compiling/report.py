"""What a compile did: the passes' report, and that of the whole with its module."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgec.runtime import Module, Tolerance
from edgec.runtime.kernel_share import KernelShare
from edgec.toolchain.compiling.progress import Step

__all__ = ["CompileReport", "Compiled", "PassReport"]


@dataclass(frozen=True, kw_only=True)
class PassReport:
    """What edgec's passes did to a program.

    Attributes:
        changes: in how many places each pass changed it, by name; only those that ran, in order.
        seconds: how long each took, by name, and `parse` and `write`.
        least_precise: `bf16` or `f16` if the program multiplies matrices in it; else empty.
        validated: how many matches of each kind agree with their operations, if that was asked for.
        unvalidated: why other matches were not compared.
        kernels: what share of the work edgec's own kernels do; None for another dialect.
        tiled: how many kernels of a GPU there are of each key that a tile is chosen by.
        notes: what became of kernels of the user's own, and what passes remarked.
        roomy: whether a kernel takes more memory during a call than a plainer one.
        bytes: whether kernels may hold elements of a byte or less, on devices where that matters.
    """

    changes: Mapping[str, int]
    seconds: Mapping[str, float]
    least_precise: str = ""
    validated: Mapping[str, int] = field(default_factory=dict)
    unvalidated: Sequence[str] = ()
    kernels: KernelShare | None = None
    tiled: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    roomy: bool = False
    bytes: bool = False

    def may_hold(self, most: int) -> bool:
        """Whether a call may hold more bytes at once; no more than its operations read and write.

        What a kernel takes beside that is not counted, nor are sizes chosen at each call.
        """
        share = self.kernels
        return self.roomy or share is None or bool(share.uncounted) or share.bytes > most

    @property
    def comparisons(self) -> tuple[str, ...]:
        """What a person should know of `validated` and `unvalidated`."""
        agree = ", ".join(f"{count} {what}" for what, count in self.validated.items())
        return (
            *((f"matches that agree with their operations: {agree}",) if agree else ()),
            *(f"not compared: {why}" for why in self.unvalidated),
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PassReport":
        """From the reply of the process that ran them."""
        share = value["kernels"]
        return cls(
            changes=value["changes"],
            seconds=value["seconds"],
            least_precise=value["least_precise"],
            validated=value["validated"],
            unvalidated=value["unvalidated"],
            kernels=None if share is None else KernelShare.from_json(share),
            tiled=value["tiled"],
            notes=value["notes"],
            roomy=value["roomy"],
            bytes=value["bytes"],
        )


@dataclass(frozen=True, kw_only=True)
class CompileReport:
    """What a compile did.

    Attributes:
        target: the target's name.
        command: the compiler's command line.
        seconds: wall time of each step that ran.
        cached: whether the module came from the cache.
        making: seconds that the passes and the compiler took when it was made, now or then.
        check: `checked on …` or `unchecked: …`, as the module says.
        notes: what the user should know of how the module was made.
        kernels: what share of the work edgec's own kernels do, and all that was left to the
            compiler, with the reason; None for a program that is not StableHLO.
        tolerance: how far answers may be off; None for each type's default.
        held: the most bytes that a call holds for a while, beside arguments and results; None where
            that was not asked for.
    """

    target: str
    command: tuple[str, ...]
    seconds: dict[Step, float]
    cached: bool
    making: float
    check: str
    notes: tuple[str, ...] = ()
    kernels: KernelShare | None = None
    tolerance: Tolerance | None = None
    held: int | None = None

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A module with the report of its making."""

    module: Module
    report: CompileReport
