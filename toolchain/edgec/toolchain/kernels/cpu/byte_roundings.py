"""Roundings to bytes whose scale only a call knows, to dispatches.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.byte_rounding import Rounding
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.spec import Answers, Kernel
from edgec.toolchain.match.byte_rounding import read_byte_rounding
from edgec.toolchain.match.description import validate

__all__ = ["place_byte_rounding"]

_HALF = 128


def place_byte_rounding(op: Any, library: Library, unit: DotUnit, answers: Answers) -> bool:
    """Put kernels in place of the rounding that a `stablehlo.convert` to ui8 ends.

    Args:
        op: the operation.
        library: where the kernels go.
        unit: how the target multiplies bytes: they are written as it takes them.
        answers: where the answer is kept.
    """
    found = read_byte_rounding(op)
    if found is None:
        return False
    answers.record(op, str(found), found.work, Kernel(name="rounding to bytes"))
    validate(found, "rounding to bytes")
    rounding = Rounding(size=found.size, unit=unit)
    byte, words = (ir.IntegerType.get_signless(bits) for bits in (8, 32))
    f32, sizes = ir.F32Type.get(), graph.shape(found.bytes)
    unsigned = graph.element(found.bytes)
    # The scale is made before everything else that is made of it.
    with ir.InsertionPoint(found.scale.owner.operation), op.location:
        inputs = [found.value]
        if rounding.parts:
            ends = [graph.tensor([rounding.parts], f32)] * 2
            name = f"edgec_ends_{found.size}"
            inputs += library.call_all(name, rounding.ends("NAME"), inputs, ends)
        kinds = [graph.tensor(sizes, byte), graph.tensor([1], f32), graph.tensor([1], words)]
        name = f"edgec_bytes_of_{found.size}"
        bytes_, scale, zero = library.call_all(name, rounding.text("NAME"), inputs, kinds)
        come_from(bytes_, found.bytes)
        scale, zero = graph.reshape(scale, ()), graph.reshape(zero, ())
        if unit.low:
            bytes_ = graph.binary("xor", bytes_, graph.fill(-_HALF, sizes, byte))
            zero = graph.binary("add", zero, graph.fill(-unit.low, (), words))
        narrow = graph.bitcast(graph.convert(zero, byte), unsigned)
        whole = graph.bitcast(bytes_, unsigned)
    found.bytes.replace_all_uses_with(whole)
    found.scale.replace_all_uses_with(scale)
    _widened_as(found.zero, zero)
    found.zero.replace_all_uses_with(narrow)
    return True


def _widened_as(value: Any, wide: Any) -> None:
    """Use a byte in i32 wherever it is widened to that, however often it was called otherwise."""
    for use in list(value.uses):
        user = use.owner.operation
        if user.name == "stablehlo.bitcast_convert":
            _widened_as(user.results[0], wide)
        elif user.name == "stablehlo.convert" and user.results[0].type == wide.type:
            user.results[0].replace_all_uses_with(wide)
