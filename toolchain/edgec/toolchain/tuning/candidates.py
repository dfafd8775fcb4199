"""What tuning may change in how a program is compiled, as data: levels, passes, flags.

Only what keeps every answer: flags that give up precision, NaNs or bounds are not here, nor are
passes that make programs right, even where golden answers would not notice their absence. Each
flag is in `iree-compile --help` of 3.13.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from edgec.targets import Backend, Target
from edgec.toolchain.passes import CATALOGUE, Purpose
from edgec.toolchain.settings import Settings

__all__ = ["FLAGS", "LEVELS", "OPTIONAL_PASSES", "Move", "moves_for"]

LEVELS = (1, 3)
"""Levels besides the default; -O0 is for finding faults."""

OPTIONAL_PASSES = tuple(kind.name for kind in reversed(CATALOGUE) if kind.purpose is Purpose.SPEED)
"""Passes that are there for speed alone, those that place kernels first."""

_FUSION = (
    "--iree-dispatch-creation-enable-aggressive-fusion",
    "--iree-dispatch-creation-fuse-multi-use=false",
    "--iree-dispatch-creation-enable-aggressive-reshape-movement",
)
_TRANSPOSES = (
    "--iree-global-opt-propagate-transposes=false",
    "--iree-opt-aggressively-propagate-transposes",
    "--iree-opt-outer-dim-concat",
)
_FIRST_FLAGS = 4
_LEVELS = ("--iree-opt-level=O2", "--iree-opt-level=O3")

FLAGS: dict[Backend, tuple[str, ...]] = {
    Backend.CPU: (
        "--iree-opt-data-tiling=false",
        *_LEVELS,
        *_FUSION,
        "--iree-llvmcpu-distribution-size=32",
        "--iree-llvmcpu-distribution-size=128",
        "--iree-llvmcpu-enable-ukernels=all",
        "--iree-llvmcpu-vector-pproc-strategy=peel",
        "--iree-llvmcpu-vector-pproc-strategy=mask",
        "--iree-llvmcpu-loop-unrolling",
        "--iree-llvmcpu-slp-vectorization",
        "--iree-stream-partitioning-favor=min-peak-memory",
        *_TRANSPOSES,
        "--iree-global-opt-use-im2col-for-convs",
        "--iree-opt-generalize-matmul=false",
    ),
    Backend.CUDA: (
        *_LEVELS,
        *_FUSION,
        "--iree-codegen-llvmgpu-use-vector-distribution=false",
        "--iree-codegen-llvmgpu-use-tile-and-fuse-matmul",
        "--iree-codegen-llvmgpu-use-igemm=false",
        "--iree-llvmgpu-prefetch-num-stages=0",
        "--iree-llvmgpu-prefetch-num-stages=3",
        "--iree-codegen-reorder-workgroups-strategy=transpose",
        "--iree-dispatch-creation-enable-split-reduction",
        *_TRANSPOSES,
        "--iree-stream-partitioning-favor=min-peak-memory",
    ),
    # No flag here moves transposes: beside reductions the compiler's SPIR-V is then wrong now and
    # then (`edgec.toolchain.flags`), which one check need not see.
    Backend.VULKAN: (
        *_FUSION,
        "--iree-global-opt-use-im2col-for-convs",
        "--iree-codegen-llvmgpu-use-igemm=false",
        "--iree-dispatch-creation-enable-split-reduction",
        "--iree-codegen-reorder-workgroups-strategy=transpose",
        "--iree-stream-partitioning-favor=min-peak-memory",
    ),
    Backend.ROCM: (
        *_LEVELS,
        *_FUSION,
        "--iree-codegen-llvmgpu-use-igemm=false",
        "--iree-llvmgpu-prefetch-num-stages=0",
        "--iree-codegen-reorder-workgroups-strategy=transpose",
        "--iree-dispatch-creation-enable-split-reduction",
        *_TRANSPOSES,
    ),
    Backend.METAL: (
        *_FUSION,
        "--iree-dispatch-creation-enable-split-reduction",
    ),
    Backend.WEBGPU: (
        *_FUSION,
        "--iree-dispatch-creation-enable-split-reduction",
    ),
}
"""Flags worth a try, by code generator, the most promising first."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """One change to settings.

    Attributes:
        name: what it is, as one would type it.
        level: another level.
        disable: a pass to leave out.
        flag: a flag to add; it takes the place of one of the same name.
    """

    name: str
    level: int | None = None
    disable: str = ""
    flag: str = ""

    def apply(self, settings: Settings) -> Settings:
        """The settings with the change made."""
        if self.level is not None:
            settings = replace(settings, level=self.level)
        if self.disable:
            settings = replace(settings, disabled=tuple(sorted({*settings.disabled, self.disable})))
        if self.flag:
            option = self.flag.partition("=")[0]
            kept = [a for a in settings.iree_args if a.partition("=")[0] != option]
            settings = replace(settings, iree_args=(*kept, self.flag))
        return settings


def moves_for(target: Target, effective: Collection[str], *, first: bool) -> Iterator[Move]:
    """Every change to try, the most promising first.

    Args:
        target: what is compiled for.
        effective: names of the passes that changed the program; leaving out others does nothing.
        first: those of most promise (levels, passes and the first flags), or the rest.
    """
    flags = FLAGS[target.backend]
    if first:
        yield from _broad(effective)
    for flag in flags[:_FIRST_FLAGS] if first else flags[_FIRST_FLAGS:]:
        if target.data_tiling or flag != "--iree-opt-data-tiling=false":
            yield Move(name=flag, flag=flag)


def _broad(effective: Collection[str]) -> Iterator[Move]:
    for level in reversed(LEVELS):
        yield Move(name=f"-O{level}", level=level)
    for name in OPTIONAL_PASSES:
        if name in effective:
            yield Move(name=f"--disable-pass={name}", disable=name)
