"""One weights file for all variants of a package: the constants that several of them have alike."""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.runtime.errors import CompileError
from edgec.targets import Target
from edgec.toolchain import CompileOptions, Program
from edgec.toolchain.compiling import large_constants
from edgec.toolchain.outside import Constant, Outside
from edgec.toolchain.weights_file import write_weights

__all__ = ["SharedWeights", "share_weights"]

_LEAST = 64 << 10
"""Bytes below which variants keep their weights inside: a file more costs more than it saves."""


@dataclass(frozen=True, kw_only=True)
class SharedWeights:
    """What variants of a package share.

    Attributes:
        outside: for each target that shares, what its module reads from the file.
        apart: for each target, bytes of constants that it alone lays out so.
        refused: targets whose constants could not be looked at, with the reason.
    """

    outside: Mapping[str, Outside]
    apart: Mapping[str, int]
    refused: Mapping[str, str]

    def notes(self) -> tuple[str, ...]:
        """What the user should know: who keeps weights of its own."""
        alone = (
            f"{target} lays {size / 1e6:.1f} MB of weights out as no other variant does, "
            "and keeps them in its module"
            for target, size in self.apart.items()
            if size >= _LEAST and self.outside
        )
        unseen = (
            f"{target} keeps its weights in its module, as they could not be looked at: {why}"
            for target, why in self.refused.items()
        )
        return (*alone, *unseen)


def share_weights(
    program: Program, targets: Sequence[Target], options: CompileOptions, path: Path
) -> SharedWeights:
    """Write what at least two variants have alike into a `.safetensors` file, if it is worth one.

    Args:
        program: what the variants are made of.
        targets: what for.
        options: how they will be compiled.
        path: the file; modules beside it find it by its name.

    Raises:
        FileError: a file cannot be read or written.
        ProgramError: the program is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        pool = Path(folder)
        found: dict[str, Mapping[str, Constant]] = {}
        refused: dict[str, str] = {}
        for target in targets if len(targets) > 1 else ():
            try:
                found[target.name] = large_constants(program, target, options, pool)
            except CompileError as error:  # the module itself may be made in another way
                refused[target.name] = error.what
        counts = Counter(key for constants in found.values() for key in constants)
        known = {key: each for constants in found.values() for key, each in constants.items()}
        shared = {key: known[key] for key in sorted(known) if counts[key] > 1}
        if sum(constant.size for constant in shared.values()) < _LEAST:
            return SharedWeights(outside={}, apart={}, refused={})
        write_weights({key: each.array(pool, key) for key, each in shared.items()}, path)
    keys = {name: frozenset(shared).intersection(constants) for name, constants in found.items()}
    return SharedWeights(
        outside={
            name: Outside(file=path.name, path=path, keys=own) for name, own in keys.items() if own
        },
        apart={
            name: sum(c.size for key, c in constants.items() if key not in shared)
            for name, constants in found.items()
        },
        refused=refused,
    )
