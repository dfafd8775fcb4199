"""What a compile may be told besides its program and target."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgec.runtime import Tolerance
from edgec.toolchain.check import Elsewhere
from edgec.toolchain.compiling.progress import Phase
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.outside import Outside
from edgec.toolchain.precision import F32, Precision
from edgec.toolchain.seeded import Seeded
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.profile import Profile

__all__ = ["VALIDATE_VARIABLE", "CompileOptions"]

VALIDATE_VARIABLE = "EDGEC_VALIDATE"
"""The environment variable that asks for `CompileOptions.validate` everywhere."""


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """How to compile.

    Attributes:
        output: where the module goes; without it, into edgec's cache folder.
        level: 0 to 3, as in `-O2`; None for the profile's, or 2.
        disabled: names of edgec's passes to leave out (`edgec.toolchain.passes.CATALOGUE`).
        iree_args: passed on to iree-compile after edgec's own flags and the profile's.
        cuts: how kernels of edgec's own are cut, by `KernelKey`; they win over the profile's.
        tiles: the same for kernels of GPUs.
        tuned: what `edgec tune` found for this program and target.
        check: run the golden answers where the device is present.
        cache: take and keep finished modules.
        keep_temps: a folder that keeps the compiler's input and intermediate files; the program
            is then compiled even if its module is in the cache.
        progress: called with each `Phase`, several times a second while the compiler works.
        timeout: seconds the compiler may take.
        memory: bytes of address space the compiler may take (Linux only).
        check_timeout: seconds the check may take.
        elsewhere: what makes the golden calls where the target's device is not here.
        tolerance: how far answers may be off in the check; None for each type's default.
        f32: how products of f32 are computed, where the device has a choice.
        precision: what f32 is computed in; arguments and results stay as they are declared.
        validate: compare each match of operations with what these compute, and refuse a wrong one;
            `EDGEC_VALIDATE=1` in the environment asks for it, too.
        outside: constants that the module reads from a weights file (`large_constants`).
        seeded: golden calls that the module brings (`answer_seeds`), so that it can prove itself
            where it lands.
        taps: whether each value that a dispatch writes becomes an output (`toolchain.tapping`).
        tap_loops: whether those inside of loops and branches do, too, as of their last turn.
        weighed: whether the report says what a call holds for a while; it takes another stop.
        donated: arguments that callers may give away, by number, each with the result that may then
            lie in its memory (`toolchain.in_place`).
    """

    output: Path | str | None = None
    level: int | None = None
    disabled: tuple[str, ...] = ()
    iree_args: tuple[str, ...] = ()
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    tuned: Profile | None = None
    check: bool = True
    cache: bool = True
    keep_temps: Path | str | None = None
    progress: Callable[[Phase], None] | None = None
    timeout: float | None = None
    memory: int | None = None
    check_timeout: float = 300.0
    elsewhere: Elsewhere | None = None
    tolerance: Tolerance | None = None
    f32: F32 = F32.FULL
    precision: Precision = Precision.DECLARED
    validate: bool = field(default_factory=lambda: os.environ.get(VALIDATE_VARIABLE) == "1")
    outside: Outside | None = None
    seeded: Seeded | None = None
    taps: bool = False
    tap_loops: bool = True
    weighed: bool = False
    donated: Mapping[int, int] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """What was asked for here over what the profile says, over the defaults."""
        found = self.tuned.winner if self.tuned is not None else Settings()
        return Settings(
            level=found.level if self.level is None else self.level,
            disabled=tuple(sorted({*found.disabled, *self.disabled})),
            iree_args=(*found.iree_args, *self.iree_args),
            cuts={**found.cuts, **self.cuts},
            tiles={**found.tiles, **self.tiles},
        )
