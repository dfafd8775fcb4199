"""A SPIR-V module with bytes in its buffers to one that knows words of 32 bits alone."""

from edgec.toolchain.webgpu.opcodes import Decoration, Op
from edgec.toolchain.webgpu.spirv import refusing
from edgec.toolchain.wordwise.bodies import Bodies
from edgec.toolchain.wordwise.code import read, written
from edgec.toolchain.wordwise.types import BYTES, Types

__all__ = ["has_bytes", "in_words"]


def has_bytes(data: bytes) -> bool:
    """Whether a module asks its device for bytes, in buffers or in registers.

    Raises:
        CompileError: these are no SPIR-V words.
    """
    _, operations = read(data)
    return any(each.op == Op.CAPABILITY and each.words[0] in BYTES for each in operations)


def in_words(data: bytes) -> bytes:
    """The same kernels on the same buffers, each of whose ranges ends with a whole word.

    Raises:
        CompileError: these are no SPIR-V words, or they lead nowhere.
        Unwritable: a kernel does to bytes what has no form with words.
    """
    bound, operations = read(data)
    with refusing():
        start = next(i for i, each in enumerate(operations) if each.op == Op.FUNCTION)
        bindings = {
            each.words[0]: each.words[2]
            for each in operations[:start]
            if each.op == Op.DECORATE and each.words[1] == Decoration.BINDING
        }
        types = Types.of_module(bound, operations[:start])
        bodies = Bodies(types=types)
        bodies.change(operations[start:], bindings)
    return written(data, types.bound, (*types.operations, *bodies.operations))
