"""Calls of kernels in a program: compiled or prebuilt, with counters for sums in parts.

To add a kernel: write `kernels/cuda/triton/NAME.py` with a `@triton.jit` function NAME, whose
signature is the only list of its parameters, and call it by its parameters' names:

    answer = library.call(Launch(
        name=f"NAME_{form}_{element}", source="NAME", grid=(tiles, heads, batch), warps=4, stages=2,
        reads={"q": q, "k": k}, writes={"o": ir.RankedTensorType.get([rows, width], element)},
        numbers={"rows": 197, "step": 768}, multiples={"step": 8},
        folded={"taps": 9}, constants={"BM": 64, "D": 64, "MASK": None, "PRECISION": "tf32x3"},
    ))
    if isinstance(answer, Declined): …  # nothing was changed in the program
    (o,) = answer

`constants` are compiled in (a pointer that is not there is None), `numbers` are given at each call,
`folded` are compiled in where Triton is here and given at each call where kernels are prebuilt: for
what makes a kernel quicker when it is known, but has many values. A kernel that was prebuilt must
have just these names, constants and multiples (`usual.py` lists those).

A kernel in which each wait must be known is written in C, as `kernels/cuda/c/NAME.c` with a
`KERNEL(NAME, parameters)` (`c/gpu.h`), and called alike; all that is `folded` is compiled in. A
constant CLUSTER is how many programs along x run together.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from iree.compiler import ir

from edgec.targets import Gpu
from edgec.toolchain.kernels.cuda.prebuilt import Prebuilt
from edgec.toolchain.kernels.cuda.triton_compiler import TritonCompiler, has_triton
from edgec.toolchain.kernels.cuda.variants import FAMILIES, Constant, Variant, is_c, parameters
from edgec.toolchain.kernels.gpu.dispatches import Binary, Dispatches
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.kernels.spec import Answers, Declined

__all__ = ["Binaries", "Launch", "Library"]

_EARLY = "EARLY"
"""The parameter of kernels that may begin before those before them have ended: 0 where no GPU of a
family lets them, 1 if they wait for these at once, 2 if they read weights before."""
_BEGINS_EARLY = 90
"""The least capability for that."""


class Binaries(Protocol):
    """Where kernels come from.

    Attributes:
        folds: whether integers may become constants at will.
    """

    folds: bool

    def find(self, variant: Variant) -> Binary | Declined:
        """The kernel, or why there is none."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One call of a kernel; each parameter of the source is named once in it.

    Attributes:
        name: how profiles call it (`product_nn_deep_f16`).
        source: the file in `kernels/cuda/triton` or `c`, and the function in it.
        grid: programs along x, y and z.
        warps: of 32 threads, in one program.
        stages: how many steps ahead a loop copies.
        reads: tensors that it reads, by parameter.
        writes: types of what it writes, by parameter, in the order of the results.
        numbers: integers given at each call.
        folded: integers that are compiled in where Triton is here.
        constants: what is compiled in always.
        multiples: what integers are known to be multiples of (8 or 16).
        counters: how many zeros the parameter `counters` points to; the kernel must leave them 0.
        into: tensors of which what it writes is the rest, by the first parameters of `writes`.
        ahead: whether what it reads before it waits for earlier kernels is written by none.
    """

    name: str
    source: str
    grid: tuple[int, int, int]
    warps: int
    stages: int
    reads: Mapping[str, Any]
    writes: Mapping[str, Any]
    numbers: Mapping[str, int] = field(default_factory=dict)
    folded: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    counters: int = 0
    into: Mapping[str, Any] = field(default_factory=dict)
    ahead: bool = False


class Library(Dispatches):
    """The kernels of a module for one GPU.

    Attributes:
        gpu: what is known of it.
        precision: how f32 is multiplied, in Triton's words.
        answers: what became of each description.
        launches: what was called, in order.
        tiles: those that were measured to be best, by key.
    """

    def __init__(
        self,
        module: Any,
        gpu: Gpu,
        binaries: Binaries | None = None,
        answers: Answers | None = None,
        precision: str = "tf32x3",
        tiles: Mapping[str, Tile] | None = None,
    ) -> None:
        super().__init__(module, "ptx", '"cuda", "cuda-nvptx-fb"')
        self.gpu = gpu
        self.precision = precision
        self.answers = answers or Answers()
        self.launches: list[Launch] = []
        self.tiles = tiles or {}
        self._binaries = binaries or (TritonCompiler() if has_triton() else Prebuilt())
        self._zeros: dict[Any, tuple[Any, int]] = {}

    @property
    def has_descriptors(self) -> bool:
        """Whether kernels may copy whole tiles by descriptor (Hopper and later)."""
        return FAMILIES[self.gpu.kernels].descriptors > 0

    @property
    def sums_along_memory(self) -> bool:
        """Whether matrix units take f32 only where what is summed lies together (Hopper's)."""
        return FAMILIES[self.gpu.kernels].sums_along_memory

    def call(self, launch: Launch) -> list[Any] | Declined:
        """Dispatch a kernel at the current insertion point; nothing happens if it is declined."""
        refusal = self.refusal(list(launch.reads.values()))
        if refusal is not None:
            return refusal
        variant = variant_of(launch, self.gpu.kernels, folds=self._binaries.folds)
        binary = self._binaries.find(variant)
        if isinstance(binary, Declined):
            return binary
        if self.gpu.shared_memory and binary.shared > self.gpu.shared_memory:
            return Declined(reason=f"{binary.shared} bytes of shared memory in one program")
        reads = dict(launch.reads)
        writes = list(launch.writes.values())
        values = {**launch.numbers, **launch.folded}
        if launch.counters:
            reads["counters"], values["slot"] = self._counters(launch.counters)
        if binary.scratch:
            programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
            bytes_ = ir.IntegerType.get_signless(8)
            writes.append(ir.RankedTensorType.get([programs * binary.scratch], bytes_))
        given = dict(variant.types)
        results = self.dispatch(
            binary,
            launch.grid,
            [value for name, value in values.items() if name in given],
            list(reads.values()),
            writes,
            list(launch.into.values()),
        )
        self.launches.append(launch)
        return results[: len(launch.writes)]

    def _counters(self, count: int) -> tuple[Any, int]:
        """Zeros of this run of the function, and where among them the next call has its own.

        They are made once a run, so that two runs of a function never share any. A kernel leaves
        zeros behind, which is why it may say that it only reads them.
        """
        block = ir.InsertionPoint.current.block
        while block.owner.operation.name != "func.func":
            block = block.owner.operation.block
        function = block.owner.operation
        i32 = ir.IntegerType.get_signless(32)
        kind = ir.RankedTensorType.get
        if function not in self._zeros:
            entry = function.regions[0].blocks[0]
            with ir.InsertionPoint.at_block_begin(entry):
                zero = ir.Operation.create(
                    "arith.constant",
                    results=[i32],
                    attributes={"value": ir.IntegerAttr.get(i32, 0)},
                )
                made = ir.Operation.create(
                    "flow.tensor.splat", results=[kind([count], i32)], operands=[zero.result]
                )
            self._zeros[function] = (made.result, 0)
        zeros, used = self._zeros[function]
        zeros.set_type(kind([used + count], i32))
        self._zeros[function] = (zeros, used + count)
        return zeros, used


def variant_of(launch: Launch, family: str, *, folds: bool) -> Variant:
    """The kernel that a call needs."""
    constants: dict[str, Constant] = dict(launch.constants)
    numbers = list(launch.numbers)
    if folds or is_c(launch.source):
        constants |= launch.folded
    else:
        numbers += launch.folded
    if _EARLY in parameters(launch.source):
        begins = FAMILIES[family].capability >= _BEGINS_EARLY
        constants[_EARLY] = (2 if launch.ahead else 1) if begins else 0
    types = {name: f"*{value.type.element_type}" for name, value in launch.reads.items()}
    if launch.counters:
        types["counters"] = "*i32"
        numbers.append("slot")
    types |= {name: f"*{kind.element_type}" for name, kind in launch.writes.items()}
    types |= dict.fromkeys(numbers, "i32")
    return Variant(
        name=launch.name,
        source=launch.source,
        family=family,
        types=tuple(types.items()),
        multiples=tuple((name, n) for name, n in launch.multiples.items() if name in numbers),
        constants=tuple(constants.items()),
        warps=launch.warps,
        stages=launch.stages,
    )
