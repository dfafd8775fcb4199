"""edgec's own compiler passes, in the order they run; each is one file, one frozen dataclass."""

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from edgec.runtime.errors import UsageError
from edgec.toolchain.passes.annotate import Annotate
from edgec.toolchain.passes.bind_globals import BindGlobals
from edgec.toolchain.passes.legalise.both_branches import BothBranches
from edgec.toolchain.passes.legalise.bound_gathers import BoundGathers
from edgec.toolchain.passes.legalise.brain_conversions import BrainConversions
from edgec.toolchain.passes.legalise.brain_floats import BrainFloats
from edgec.toolchain.passes.legalise.chosen_once import ChosenOnce
from edgec.toolchain.passes.legalise.chosen_truths import ChosenTruths
from edgec.toolchain.passes.legalise.complex_apart import ComplexApart
from edgec.toolchain.passes.legalise.complex_products import ComplexProducts
from edgec.toolchain.passes.legalise.complex_ranges import ComplexRanges
from edgec.toolchain.passes.legalise.count_zeros import CountZeros
from edgec.toolchain.passes.legalise.double_functions import DoubleFunctions
from edgec.toolchain.passes.legalise.dynamic_shapes import DynamicShapes
from edgec.toolchain.passes.legalise.edge_values import EdgeValues
from edgec.toolchain.passes.legalise.exact_remainders import ExactRemainders
from edgec.toolchain.passes.legalise.far_angles import FarAngles
from edgec.toolchain.passes.legalise.feature_groups import FeatureGroups
from edgec.toolchain.passes.legalise.flatten_scatters import FlattenScatters
from edgec.toolchain.passes.legalise.fourier_products import FourierProducts
from edgec.toolchain.passes.legalise.free_bitcasts import FreeBitcasts
from edgec.toolchain.passes.legalise.guard_products import GuardProducts
from edgec.toolchain.passes.legalise.half_floats import HalfFloats
from edgec.toolchain.passes.legalise.loop_order import LoopOrder
from edgec.toolchain.passes.legalise.nan_extrema import NanExtrema
from edgec.toolchain.passes.legalise.narrow_integers import NarrowIntegers
from edgec.toolchain.passes.legalise.negated_sums import NegatedSums
from edgec.toolchain.passes.legalise.neutral_numbers import NeutralNumbers
from edgec.toolchain.passes.legalise.own_updates import OwnUpdates
from edgec.toolchain.passes.legalise.pair_integers import PairIntegers
from edgec.toolchain.passes.legalise.part_factors import PartFactors
from edgec.toolchain.passes.legalise.plain_depthwise import PlainDepthwise
from edgec.toolchain.passes.legalise.plain_products import PlainProducts
from edgec.toolchain.passes.legalise.read_carried import ReadCarried
from edgec.toolchain.passes.legalise.scale_floats import ScaleFloats
from edgec.toolchain.passes.legalise.separate_bytes import SeparateBytes
from edgec.toolchain.passes.legalise.separate_groups import SeparateGroups
from edgec.toolchain.passes.legalise.separate_pads import SeparatePads
from edgec.toolchain.passes.legalise.separate_reductions import SeparateReductions
from edgec.toolchain.passes.legalise.separate_slices import SeparateSlices
from edgec.toolchain.passes.legalise.separate_updates import SeparateUpdates
from edgec.toolchain.passes.legalise.short_tails import ShortTails
from edgec.toolchain.passes.legalise.signed_angles import SignedAngles
from edgec.toolchain.passes.legalise.signed_powers import SignedPowers
from edgec.toolchain.passes.legalise.signless_integers import SignlessIntegers
from edgec.toolchain.passes.legalise.sliced_joins import SlicedJoins
from edgec.toolchain.passes.legalise.sort_networks import SortNetworks
from edgec.toolchain.passes.legalise.spelled_functions import SpelledFunctions
from edgec.toolchain.passes.legalise.split_complex import SplitComplex
from edgec.toolchain.passes.legalise.split_conversions import SplitConversions
from edgec.toolchain.passes.legalise.split_products import SplitProducts
from edgec.toolchain.passes.legalise.split_reductions import SplitReductions
from edgec.toolchain.passes.legalise.split_scatters import SplitScatters
from edgec.toolchain.passes.legalise.split_windows import SplitWindows
from edgec.toolchain.passes.legalise.spread_selected import SpreadSelected
from edgec.toolchain.passes.legalise.spread_windows import SpreadWindows
from edgec.toolchain.passes.legalise.stable_sorts import StableSorts
from edgec.toolchain.passes.legalise.strided_slices import StridedSlices
from edgec.toolchain.passes.legalise.summed_products import SummedProducts
from edgec.toolchain.passes.legalise.trim_unread import TrimUnread
from edgec.toolchain.passes.legalise.whole_scatters import WholeScatters
from edgec.toolchain.passes.legalise.wide_reductions import WideReductions
from edgec.toolchain.passes.legalise.wide_sums import WideSums
from edgec.toolchain.passes.legalise.widened_rows import WidenedRows
from edgec.toolchain.passes.legalise.written_counts import WrittenCounts
from edgec.toolchain.passes.locate import Locate
from edgec.toolchain.passes.place.block_kernels import BlockKernels
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from edgec.toolchain.passes.place.cuda_kernels import CudaKernels
from edgec.toolchain.passes.place.integer_products import IntegerProducts
from edgec.toolchain.passes.place.made_once import MadeOnce
from edgec.toolchain.passes.place.norm_kernels import NormKernels
from edgec.toolchain.passes.place.order_kernels import OrderKernels
from edgec.toolchain.passes.place.own_kernels import OwnKernels
from edgec.toolchain.passes.place.pad_kernels import PadKernels
from edgec.toolchain.passes.place.pooling_kernels import PoolingKernels
from edgec.toolchain.passes.place.quantised_kernels import QuantisedKernels
from edgec.toolchain.passes.place.recurrent_loops import RecurrentLoops
from edgec.toolchain.passes.place.softmax_kernels import SoftmaxKernels
from edgec.toolchain.passes.place.sparse_products import SparseProducts
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.channels_last import ChannelsLast
from edgec.toolchain.passes.simplify.error_functions import ErrorFunctions
from edgec.toolchain.passes.simplify.few_products import FewProducts
from edgec.toolchain.passes.simplify.fold_constants import FoldConstants
from edgec.toolchain.passes.simplify.fold_scales import FoldScales
from edgec.toolchain.passes.simplify.grouped_rows import GroupedRows
from edgec.toolchain.passes.simplify.half_conversions import HalfConversions
from edgec.toolchain.passes.simplify.half_precision import HalfPrecision
from edgec.toolchain.passes.simplify.hold_blocks import HoldBlocks
from edgec.toolchain.passes.simplify.host_loops import HostLoops
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from edgec.toolchain.passes.simplify.late_joins import LateJoins
from edgec.toolchain.passes.simplify.look_up_blocks import LookUpBlocks
from edgec.toolchain.passes.simplify.nan_shares import NanShares
from edgec.toolchain.passes.simplify.plane_windows import PlaneWindows
from edgec.toolchain.passes.simplify.pointwise_products import PointwiseProducts
from edgec.toolchain.passes.simplify.resample_sums import ResampleSums
from edgec.toolchain.passes.simplify.roll_loops import RollLoops
from edgec.toolchain.passes.simplify.separable_gathers import SeparableGathers
from edgec.toolchain.passes.simplify.separable_windows import SeparableWindows
from edgec.toolchain.passes.simplify.shared_matrices import SharedMatrices
from edgec.toolchain.passes.simplify.sliding_gathers import SlidingGathers
from edgec.toolchain.passes.simplify.split_phases import SplitPhases
from edgec.toolchain.passes.simplify.spread_products import SpreadProducts
from edgec.toolchain.passes.simplify.turn_twice import TurnTwice
from edgec.toolchain.passes.simplify.two_step_searches import TwoStepSearches
from edgec.toolchain.passes.simplify.unroll_loops import UnrollLoops
from edgec.toolchain.passes.simplify.unroll_rotations import UnrollRotations
from edgec.toolchain.passes.simplify.weights_last import WeightsLast
from edgec.toolchain.passes.simplify.whole_images import WholeImages
from edgec.toolchain.passes.simplify.widen_halves import WidenHalves
from edgec.toolchain.passes.simplify.write_windows import WriteWindows
from edgec.toolchain.passes.situation import Situation

__all__ = [
    "CATALOGUE",
    "ESSENTIAL",
    "Pass",
    "Purpose",
    "Situation",
    "passes_for",
    "refuse_unknown",
]


class Pass(Protocol):
    """One rewrite of an `ir.Module`, in place. Its class's docstring says why it exists.

    Attributes:
        name: what `--disable-pass` calls it.
        purpose: why it exists.
    """

    name: str
    purpose: Purpose

    @classmethod
    def plan(cls, situation: Situation) -> "Pass | None":
        """The pass with its options, or None where it has nothing to do."""

    def run(self, module: Any) -> int:
        """Rewrite the module; in how many places."""


CATALOGUE: tuple[type[Pass], ...] = (
    OwnKernels,
    InlineCalls,
    HoldBlocks,
    LookUpBlocks,
    Canonicalise,
    GroupedRows,
    FoldConstants,
    HalfPrecision,
    DynamicShapes,
    BothBranches,
    SlidingGathers,
    SeparableGathers,
    UnrollRotations,
    FourierProducts,
    ComplexProducts,
    FeatureGroups,
    SpreadSelected,
    SpreadWindows,
    TwoStepSearches,
    BrainConversions,
    ScaleFloats,
    SplitConversions,
    SignlessIntegers,
    FreeBitcasts,
    PairIntegers,
    GuardProducts,
    PlainProducts,
    WriteWindows,
    FlattenScatters,
    WholeScatters,
    SeparateUpdates,
    OrderKernels,
    SortNetworks,
    StableSorts,
    BoundGathers,
    SpelledFunctions,
    SignedPowers,
    SplitComplex,
    ComplexRanges,
    SignedAngles,
    FarAngles,
    ExactRemainders,
    EdgeValues,
    DoubleFunctions,
    CountZeros,
    NarrowIntegers,
    ComplexApart,
    ChosenOnce,
    BindGlobals,
    WeightsLast,
    SharedMatrices,
    BrainFloats,
    HalfFloats,
    WidenHalves,
    PartFactors,
    ErrorFunctions,
    NanShares,
    FoldScales,
    RollLoops,
    RecurrentLoops,
    IntegerProducts,
    UnrollLoops,
    WholeImages,
    ChannelsLast,
    ResampleSums,
    SpreadProducts,
    FewProducts,
    SplitPhases,
    PlaneWindows,
    SparseProducts,
    QuantisedKernels,
    BlockKernels,
    NormKernels,
    CpuKernels,
    PoolingKernels,
    SoftmaxKernels,
    PadKernels,
    CudaKernels,
    VulkanKernels,
    SeparateBytes,
    TrimUnread,
    OwnUpdates,
    ChosenTruths,
    SeparableWindows,
    WideSums,
    SeparatePads,
    SeparateGroups,
    SplitWindows,
    SplitProducts,
    PlainDepthwise,
    PointwiseProducts,
    NanExtrema,
    NegatedSums,
    NeutralNumbers,
    SplitReductions,
    ShortTails,
    WideReductions,
    WrittenCounts,
    SplitScatters,
    WidenedRows,
    SeparateReductions,
    SlicedJoins,
    StridedSlices,
    SeparateSlices,
    SummedProducts,
    LateJoins,
    HalfConversions,
    TurnTwice,
    HostLoops,
    LoopOrder,
    ReadCarried,
    MadeOnce,
    Annotate,
    Locate,
)
"""Every pass, in the order they run."""

PLACING: tuple[type[Pass], ...] = (
    RecurrentLoops,
    IntegerProducts,
    SparseProducts,
    QuantisedKernels,
    BlockKernels,
    NormKernels,
    CpuKernels,
    PoolingKernels,
    SoftmaxKernels,
    PadKernels,
    CudaKernels,
    VulkanKernels,
)
"""Those that put kernels of edgec's own into a program."""

ESSENTIAL = frozenset(kind.name for kind in CATALOGUE if kind.purpose is Purpose.MODULE)
"""Without these there is no module; they cannot be left out."""


def passes_for(situation: Situation, disabled: Collection[str] = ()) -> Iterator[Pass]:
    """The passes that a program needs, in order, each planned on what is there when it is its turn.

    Args:
        situation: the program and where it goes; a pass that was run is told to it
            (`Situation.changed`) before the next one is asked for.
        disabled: names of passes to leave out.

    Raises:
        UsageError: there is no such pass, or it cannot be left out.
    """
    refuse_unknown(disabled)
    for kind in CATALOGUE:
        if kind.name not in disabled:
            if kind in PLACING:
                situation.count_work()
            step = kind.plan(situation)
            if step is not None:
                yield step


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
