"""Plans in bytes to dispatches, and bytes to f32 for whoever else reads what they write.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.erase import erase_unused
from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.plans import Pad
from edgec.toolchain.kernels.cpu.quantised_dequantised import Bytes, Weights
from edgec.toolchain.kernels.cpu.quantised_lines import Line, simplify
from edgec.toolchain.kernels.cpu.quantised_plans import BytePlan
from edgec.toolchain.kernels.cpu.source.byte_convolution import (
    DEPTH,
    ByteConvolution,
    byte_convolution_kernel,
)
from edgec.toolchain.kernels.cpu.source.byte_depthwise import byte_depthwise_kernel
from edgec.toolchain.kernels.cpu.source.byte_result import ByteResult
from edgec.toolchain.kernels.cpu.source.convolution import Convolution, Tiling, tiling
from edgec.toolchain.kernels.cpu.source.cut import KernelKey
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.epilogue import Epilogue
from edgec.toolchain.kernels.cpu.source.grouped import grouped_tiling
from edgec.toolchain.match.expression import Source

__all__ = ["emit_bytes"]

_NONE: Pad = ((0, 0), (0, 0))
_STEPS_OF_DEQUANTISING = (
    "stablehlo.subtract",
    "stablehlo.add",
    "stablehlo.multiply",
    "stablehlo.divide",
    "stablehlo.pad",
    "stablehlo.slice",
)


def emit_bytes(
    plans: Sequence[BytePlan],
    module: Any,
    library: Library,
    unit: DotUnit,
    known: Constants,
) -> None:
    """Replace every plan's operations by a dispatch, in place."""
    work = _Emission(plans, library, unit, known)
    for plan in plans:
        work.replace(plan)
    for plan in reversed(plans):
        for op in reversed(plan.tail.operations):
            op.erase()
    for plan in reversed(plans):
        plan.plan.op.erase()
    erase_unused(module)


class _Emission:
    """What is in bytes so far."""

    def __init__(
        self,
        plans: Sequence[BytePlan],
        library: Library,
        unit: DotUnit,
        known: Constants,
    ) -> None:
        self.library = library
        self.unit = unit
        self.known = known
        self.of_op = {plan.plan.op: plan for plan in plans}
        self.wanted = {
            plan.result.value: self._wanted(plan.result) for plan in plans if plan.result
        }
        self.made: dict[Any, Any] = {}  # values to their bytes
        self.padded: dict[Any, Any] = {}  # values to their bytes with a border

    def shift(self, value: Bytes) -> int:
        """What is added to a value's numbers to store them in bytes."""
        low = self.unit.low
        fits = value.low >= low and value.high <= low + 255
        return 0 if fits else low - value.low

    def _wanted(self, value: Bytes) -> Pad:
        """The border that everyone who reads a value wants, with their zero; none if they differ.

        Only kernels look past a border, and only those that read the value as their input.
        """
        found: set[tuple[Pad, int]] = set()

        def look(at: Any) -> bool:
            for use in at.uses:
                user = use.owner.operation
                plan = self.of_op.get(user)
                if plan is not None and use.operand_number == 0:
                    if plan.moves or len(at.type.shape) != 4:
                        return False
                    found.add((plan.pad, plan.source.zero))
                elif user.name not in _STEPS_OF_DEQUANTISING or not look(user.results[0]):
                    return False
            return True

        if not look(value.value) or len(found) != 1:
            return _NONE
        return found.pop()[0]

    def replace(self, plan: BytePlan) -> None:
        """Put a dispatch where the plan's last operation stands."""
        last = plan.last
        value = plan.tail.value
        with ir.InsertionPoint(last), plan.plan.op.location:
            source = self.input(plan)
            begin, slopes = _folded(plan, self.shift(plan.source.bytes))
            made, read, kinds, shift = self.epilogue(plan, slopes)
            pad = self.wanted.get(value, _NONE) if plan.result else _NONE
            result = ByteResult(
                batch=plan.plan.batch,
                height=plan.plan.out_height,
                width=plan.plan.out_width,
                channels=plan.plan.out_channels,
                pad=pad,
                epilogue=made[0],
                read=kinds,
                bytes=plan.result is not None,
                signed=self.unit.signed,
                surround=self._surround(plan),
                shift=shift,
            )
            operands = [_channel(each) for each in made[1]] + read
            name, text, packed, first = self.kernel(plan, result, source, begin)
            kind = value.type
            if plan.result is not None:
                sizes = result.shape if pad != _NONE else graph.shape(value)
                kind = graph.tensor(sizes, _i8())
            output = self.library.call(name, text, [source, packed, first, *operands], kind)
            come_from(output, value)
            if plan.result is None:
                final = output
            elif pad != _NONE:
                # What still stands between here and the kernels that read this is unused soon.
                self.padded[value] = output
                final = graph.fill(0.0, graph.shape(value), _f32())
            else:
                self.made[value] = output
                final = self.widened(output, plan.result)
        value.replace_all_uses_with(final)

    def _surround(self, plan: BytePlan) -> int:
        """The byte that stands for zero to whoever reads the plan's result."""
        if plan.result is None:
            return 0
        for reader in self.of_op.values():
            if reader.source.bytes.value == plan.tail.value:
                return reader.source.zero + self.shift(plan.result)
        return 0

    def input(self, plan: BytePlan) -> Any:
        """The plan's input in bytes, with its border and with channels for whole steps."""
        value = plan.source.bytes
        zero = plan.source.zero + self.shift(value)
        filler = graph.fill(zero - 256 if zero > 127 else zero, (), _i8())
        bordered = self.padded.get(value.value)
        source = self.bytes_of(value) if bordered is None else bordered
        for op in reversed(plan.moves):
            if op.name == "stablehlo.pad":
                low, high = (graph.integers(op, f"edge_padding_{end}") for end in ("low", "high"))
                source = graph.pad(source, filler, low, high)
            elif op.name == "stablehlo.slice":
                starts, limits, strides = (
                    graph.integers(op, name)
                    for name in ("start_indices", "limit_indices", "strides")
                )
                source = graph.slice_(source, starts, limits, strides)
            elif op.name == "stablehlo.transpose":
                source = graph.transpose(source, graph.integers(op, "permutation"))
            else:
                source = graph.reshape(source, graph.shape(op.results[0]))
        rank = len(graph.shape(source))
        pairs = [(0, 0)] * rank
        if plan.plan.op.name == "stablehlo.convolution" and bordered is None:
            pairs[1:-1] = plan.pad[4 - rank :]
        if not plan.plan.depthwise:
            pairs[-1] = (0, -plan.plan.channels % 4)
        return graph.pad(source, filler, [low for low, _ in pairs], [high for _, high in pairs])

    def bytes_of(self, value: Bytes) -> Any:
        """A value's bytes, made where nothing wrote them."""
        if value.value not in self.made:
            owner = value.value.owner.operation
            with ir.InsertionPoint.after(owner), owner.location:
                shift = self.shift(value)
                floats = value.value
                if shift:
                    floats = graph.binary(
                        "add", floats, graph.fill(float(shift), graph.shape(floats), _f32())
                    )
                self.made[value.value] = graph.convert(graph.convert(floats, _i32()), _i8())
        return self.made[value.value]

    def widened(self, stored: Any, value: Bytes) -> Any:
        """Bytes as the f32 that they stand for."""
        sizes = graph.shape(stored)
        words = graph.convert(stored, _i32())
        if not self.unit.signed:
            words = graph.binary("and", words, graph.fill(255, sizes, _i32()))
        floats = graph.convert(words, _f32())
        shift = self.shift(value)
        if shift:
            floats = graph.binary("subtract", floats, graph.fill(float(shift), sizes, _f32()))
        return floats

    def epilogue(
        self, plan: BytePlan, slopes: Any
    ) -> tuple[tuple[Epilogue, list[Any]], list[Any], tuple[str, ...], int]:
        """The steps after the sums with their channel tensors; what else they read, and its types;
        what is added after rounding."""
        read: list[Any] = []
        kinds: list[str] = []
        lines = []
        for number, (value, found) in enumerate(zip(plan.tail.tensors, plan.reads, strict=True)):
            base = (Source.TENSOR, float(number))
            if found is None:
                read.append(value)
                kinds.append("f32")
                lines.append(Line(base=base))
                continue
            read.append(self.bytes_of(found.bytes))
            kinds.append("i8")
            offset = -(found.zero + self.shift(found.bytes)) * found.scale
            lines.append(Line(base=base, slope=found.scale, offset=offset))
        channels = [_known_channel(v, self.known) for v in plan.tail.channels]
        total = Line(base=(Source.SUM, 0), slope=slopes)
        made, line = simplify(plan.tail.epilogue.steps, total, channels, lines)
        shift = 0
        if plan.result is not None:
            line, shift = _stored(line, plan.result, self.shift(plan.result))
        value = made.make(line)
        if value != (Source.STEP, len(made.steps) - 1):
            made.add("arith.addf", value, (Source.SCALAR, 0.0))
        return (made.epilogue, made.channels), read, tuple(kinds), shift

    def kernel(
        self, plan: BytePlan, result: ByteResult, source: Any, begin: Any
    ) -> tuple[str, str, Any, Any]:
        """The kernel's name and text, its weights, and what its sums begin with."""
        sizes = plan.plan
        height, width = plan.sizes
        product = sizes.op.name == "stablehlo.dot_general"
        key = KernelKey(
            kind="depthwise" if sizes.depthwise else "product" if product else "convolution",
            window=sizes.window,
            height=result.height,
            width=result.width,
            channels=sizes.channels,
            out_channels=result.channels,
            stride=sizes.stride,
            dilation=sizes.dilation,
            bytes=True,
        )
        name = str(key)
        light = Convolution(
            height=height,
            width=width,
            channels=sizes.channels,
            groups=sizes.groups,
            result=result,
            window=sizes.window,
            stride=sizes.stride,
            dilation=sizes.dilation,
        )
        cut = grouped_tiling(light, self.unit.vectors, self.library.cuts.get(name))
        if cut is not None:
            text = byte_depthwise_kernel("NAME", light, result, cut, self.unit)
            whole = plan.weights.bytes.reshape(-1, result.channels).astype(np.float32)
            return name, text, _constant(whole), _constant(begin.astype(np.float32))
        conv = ByteConvolution(
            height=height,
            width=width,
            channels=-(-sizes.channels // DEPTH) * DEPTH,
            result=result,
            window=sizes.window,
            stride=sizes.stride,
            dilation=sizes.dilation,
        )
        tiles = tiling(conv.steps, self.unit.vectors, self.library.cuts.get(name))
        text = byte_convolution_kernel("NAME", conv, tiles, self.unit)
        packed = _packed(plan.weights, sizes.window, tiles, result.channels)
        return name, text, _constant(packed), _constant(begin.astype(np.int32))


def _folded(plan: BytePlan, shift: int) -> tuple[Any, Any]:
    """What each channel's sum begins with, so that it is a sum over bytes less their zero; and
    what the sum is multiplied with to be the operation's own result."""
    whole = plan.weights.bytes.astype(np.int64)
    totals = whole.reshape(-1, whole.shape[-1]).sum(0)
    scale = plan.weights.scale.astype(np.float64) * plan.source.scale
    return -(plan.source.zero + shift) * totals, scale


def _stored(line: Line, value: Bytes, shift: int) -> tuple[Line, int]:
    """The line in the numbers that are stored, without its rounding, which storing does; and what
    is added after that. An even number may as well be added before."""
    after = int(line.after) + shift
    before = after if after % 2 == 0 else 0
    line = replace(
        line,
        offset=np.asarray(line.offset) + before,
        low=max(line.low, value.low - line.after) + before,
        high=min(line.high, value.high - line.after) + before,
        rounded=False,
        after=0.0,
    )
    return line, after - before


def _packed(found: Weights, window: tuple[int, int], cut: Tiling, channels: int) -> Any:
    """Weights as the kernel reads them: panels x window x fourths x panel x 4."""
    flat = found.bytes.reshape(math.prod(window), -1, channels)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 4), (0, 0)))
    fours = flat.reshape(flat.shape[0], -1, 4, channels).transpose(0, 1, 3, 2)
    return np.stack([fours[:, :, start : start + cut.panel] for start in cut.starts])


def _known_channel(value: Any, known: Constants) -> Any:
    array = known.of(value)
    return value if array is None else array.reshape(-1)


def _channel(value: Any) -> Any:
    return _constant(value.astype(np.float32)) if isinstance(value, np.ndarray) else value


def _constant(array: Any) -> Any:
    kinds = {"float32": _f32, "int32": _i32, "int8": _i8}
    return graph.constant(array, kinds[array.dtype.name]())


def _i8() -> Any:
    return ir.IntegerType.get_signless(8)


def _i32() -> Any:
    return ir.IntegerType.get_signless(32)


def _f32() -> Any:
    return ir.F32Type.get()
