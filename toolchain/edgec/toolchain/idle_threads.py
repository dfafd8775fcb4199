"""Kernels of the compiler's for Vulkan without threads that do what others do.

iree-compile gives a kernel's workgroups threads along an axis that it then does not use (sums of
odd sizes): all of them add up the same sum in the same place, and by Vulkan's rules one may read
what another has written by then. A workgroup of one thread along such an axis does the same work
once. Its size is a number in the kernel's SPIR-V, which is changed where it stands in the module.
"""

import struct
from collections.abc import Iterator

from edgec.runtime.errors import CompileError
from edgec.toolchain.spirv_words import HEADER, operations

__all__ = ["alone"]

_CALL, _ENTRY, _MODE, _CAPABILITY = 12, 15, 16, 17
_CONSTANT, _LOAD, _CHAIN, _DECORATE, _EXTRACT = 43, 61, 65, 71, 81
_SAYING = frozenset((*range(3, 9), 10, 11, 14, 15, 16, 17, *range(19, 40), 43, 59, 71, 72))
"""Operations that compute with nothing: names, types, constants, variables, decorations."""
_OPERANDS = {61: 3, 62: 2, 79: 4, 81: 3, 82: 4, 246: 2, 247: 1, 250: 3, 251: 2}
"""How many words of an operation are values, where plain numbers come behind them: loads, stores,
vectors that are put together or taken apart, and branches."""
_LOCAL_SIZE, _BUILT_IN = 17, 11
_COUNTS, _GROUP, _LOCAL = 24, 26, 27
_OWN = b"edgec_"
"""How the names of kernels begin that edgec, or its user, wrote."""
_TELLING = frozenset((_COUNTS, _GROUP, _LOCAL))
"""What a kernel may ask for that says no more of a thread than its number along each axis."""
_TOGETHER = frozenset((18, *range(61, 69), 4423, 4431, 5297, 5357, 6022, 6026))
"""Capabilities by which threads of a subgroup see each other: `Groups`, `GroupNonUniform…`,
ballots, votes, rotations, matrix units."""


def alone(code: bytes) -> bytes | None:
    """A SPIR-V module whose workgroups have one thread along axes that it does not ask for.

    None where there is no such axis, where that is not certain, where a thread may ask for others
    in another way than by its number along an axis, and of kernels that are not the compiler's:
    they mean what they say.
    """
    try:
        words = list(_placed(code))
    except CompileError:
        return None
    entries = [struct.pack(f"<{len(g) - 2}I", *g[2:]) for _, op, g in words if op == _ENTRY]
    sizes = [
        (place, given) for place, op, given in words if op == _MODE and given[1] == _LOCAL_SIZE
    ]
    built_in = {g[0]: g[2] for _, op, g in words if op == _DECORATE and g[1] == _BUILT_IN}
    together = {given[0] for _, op, given in words if op == _CAPABILITY} & _TOGETHER
    if len(entries) != 1 or len(sizes) != 1 or together or set(built_in.values()) - _TELLING:
        return None
    if entries[0].startswith(_OWN):
        return None
    variables = {name for name, kind in built_in.items() if kind == _LOCAL}
    asked = _asked(words, variables)
    if asked is None:
        return None
    (place, (_, _, *size)) = sizes[0]
    wanted = [n if axis in asked else 1 for axis, n in enumerate(size)]
    if wanted == size:
        return None
    # Behind the operation's own word, the entry point's name and the mode's.
    at = 4 * (place + 3)
    return code[:at] + struct.pack("<3I", *wanted) + code[at + 12 :]


def _placed(code: bytes) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Each operation with the number of its first word."""
    at = HEADER
    for op, given in operations(code):
        yield at, op, given
        at += 1 + len(given)


def _asked(words: list[tuple[int, int, tuple[int, ...]]], variables: set[int]) -> set[int] | None:
    """The axes along which a thread's number is read; None where that is not seen."""
    numbers = {g[1]: g[2] for _, op, g in words if op == _CONSTANT and len(g) == 3}
    asked: set[int] = set()
    wholes: set[int] = set()
    for _, op, given in words:
        if op in _SAYING:
            continue
        if op == _LOAD and given[2] in variables:
            wholes.add(given[1])
        elif op == _CHAIN and given[2] in variables:
            if len(given) != 4 or given[3] not in numbers:
                return None
            asked.add(numbers[given[3]])
        elif op == _EXTRACT and given[2] in wholes:
            asked.add(given[3])
        elif (variables | wholes) & set(_operands(op, given)):
            return None
    return asked


def _operands(op: int, given: tuple[int, ...]) -> tuple[int, ...]:
    """The words of an operation that are values, not plain numbers, as far as that is known."""
    if op == _CALL:  # of another instruction set, by its number there
        return (*given[:3], *given[4:])
    return given[: _OPERANDS.get(op)]
