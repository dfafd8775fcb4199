"""edgec's own compiler passes, in the order they run; each is one file, one frozen dataclass."""

from collections.abc import Collection
from typing import Any, Protocol

from edgec.runtime.errors import UsageError
from edgec.toolchain.passes.annotate import Annotate
from edgec.toolchain.passes.bind_globals import BindGlobals
from edgec.toolchain.passes.bound_gathers import BoundGathers
from edgec.toolchain.passes.brain_conversions import BrainConversions
from edgec.toolchain.passes.channels_last import ChannelsLast
from edgec.toolchain.passes.complex_products import ComplexProducts
from edgec.toolchain.passes.count_zeros import CountZeros
from edgec.toolchain.passes.cpu_kernels import CpuKernels
from edgec.toolchain.passes.cuda_kernels import CudaKernels
from edgec.toolchain.passes.double_functions import DoubleFunctions
from edgec.toolchain.passes.dynamic_shapes import DynamicShapes
from edgec.toolchain.passes.error_functions import ErrorFunctions
from edgec.toolchain.passes.flatten_scatters import FlattenScatters
from edgec.toolchain.passes.fourier_products import FourierProducts
from edgec.toolchain.passes.free_bitcasts import FreeBitcasts
from edgec.toolchain.passes.guard_products import GuardProducts
from edgec.toolchain.passes.inline_calls import InlineCalls
from edgec.toolchain.passes.narrow_integers import NarrowIntegers
from edgec.toolchain.passes.norm_kernels import NormKernels
from edgec.toolchain.passes.philox_bits import PhiloxBits
from edgec.toolchain.passes.plain_products import PlainProducts
from edgec.toolchain.passes.pointwise_products import PointwiseProducts
from edgec.toolchain.passes.quantised_kernels import QuantisedKernels
from edgec.toolchain.passes.recurrent_loops import RecurrentLoops
from edgec.toolchain.passes.reverse_first import ReverseFirst
from edgec.toolchain.passes.roll_loops import RollLoops
from edgec.toolchain.passes.separate_bytes import SeparateBytes
from edgec.toolchain.passes.separate_groups import SeparateGroups
from edgec.toolchain.passes.separate_reductions import SeparateReductions
from edgec.toolchain.passes.shared_matrices import SharedMatrices
from edgec.toolchain.passes.signed_powers import SignedPowers
from edgec.toolchain.passes.signless_integers import SignlessIntegers
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.passes.split_complex import SplitComplex
from edgec.toolchain.passes.split_conversions import SplitConversions
from edgec.toolchain.passes.spread_products import SpreadProducts
from edgec.toolchain.passes.spread_selected import SpreadSelected
from edgec.toolchain.passes.stable_sorts import StableSorts
from edgec.toolchain.passes.unroll_loops import UnrollLoops
from edgec.toolchain.passes.unroll_rotations import UnrollRotations
from edgec.toolchain.passes.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.widen_halves import WidenHalves

__all__ = [
    "CATALOGUE",
    "ESSENTIAL",
    "PASSES_VERSION",
    "Pass",
    "Situation",
    "passes_for",
    "refuse_unknown",
]

PASSES_VERSION = 29
"""Raised with any change of what a pass makes, so that the cache forgets older results."""


class Pass(Protocol):
    """One rewrite of an `ir.Module`, in place. Its class's docstring says why it exists."""

    name: str

    @classmethod
    def plan(cls, situation: Situation) -> "Pass | None":
        """The pass with its options, or None where it has nothing to do."""

    def run(self, module: Any) -> int:
        """Rewrite the module; in how many places."""


CATALOGUE: tuple[type[Pass], ...] = (
    DynamicShapes,
    UnrollRotations,
    FourierProducts,
    ComplexProducts,
    SpreadSelected,
    PhiloxBits,
    BrainConversions,
    SplitConversions,
    SignlessIntegers,
    FreeBitcasts,
    GuardProducts,
    PlainProducts,
    ReverseFirst,
    FlattenScatters,
    StableSorts,
    BoundGathers,
    SignedPowers,
    SplitComplex,
    DoubleFunctions,
    SeparateGroups,
    CountZeros,
    NarrowIntegers,
    SeparateBytes,
    BindGlobals,
    InlineCalls,
    SharedMatrices,
    WidenHalves,
    ErrorFunctions,
    RollLoops,
    RecurrentLoops,
    UnrollLoops,
    ChannelsLast,
    SpreadProducts,
    QuantisedKernels,
    NormKernels,
    CpuKernels,
    CudaKernels,
    VulkanKernels,
    PointwiseProducts,
    SeparateReductions,
    Annotate,
)
"""Every pass, in the order they run."""

ESSENTIAL = frozenset({BindGlobals.name, Annotate.name})
"""Without these there is no module; they cannot be left out."""


def passes_for(situation: Situation, disabled: Collection[str] = ()) -> tuple[Pass, ...]:
    """The passes that a program needs, in order.

    Args:
        situation: the program and where it goes.
        disabled: names of passes to leave out.

    Raises:
        UsageError: there is no such pass, or it cannot be left out.
    """
    refuse_unknown(disabled)
    planned = [kind.plan(situation) for kind in CATALOGUE if kind.name not in disabled]
    return tuple(step for step in planned if step is not None)


def refuse_unknown(disabled: Collection[str]) -> None:
    """Check names of passes to leave out.

    Raises:
        UsageError: there is no such pass, or it cannot be left out.
    """
    optional = [kind.name for kind in CATALOGUE if kind.name not in ESSENTIAL]
    for name in disabled:
        if name not in optional:
            known = name in ESSENTIAL
            raise UsageError(
                f"the pass {name} cannot be left out" if known else f"there is no pass {name}",
                hint=f"one of {', '.join(optional)}",
            )
