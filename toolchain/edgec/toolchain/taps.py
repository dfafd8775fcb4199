"""What the taps of a module are: the values that its dispatches write, beside its own outputs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.files import read_bytes
from edgec.runtime.vmfb import parse

__all__ = ["TAPS_ATTRIBUTE", "Tap", "Taps", "read_taps"]

TAPS_ATTRIBUTE = "edgec.taps"
"""On a function that was compiled with taps: `Taps` as JSON."""


@dataclass(frozen=True, kw_only=True)
class Tap:
    """One value that a dispatch writes.

    Attributes:
        kernel: the kernel's name where it is edgec's own; empty where the compiler made it.
        numbers: of the operations that the value itself was made of (`ir.numbering`), the least
            first.
        covers: of all operations in the dispatch.
        line: `file:line` of the user's own source, where it is known.
        output: which output of the function it is; None where it cannot be one.
        why: for those without an output, why.
        reads: the taps whose values the dispatch reads.
        given: the function's arguments that the dispatch reads.
        loop: where it is in a loop or branch, which; the value is that of the last turn.
    """

    kernel: str
    numbers: tuple[int, ...]
    covers: tuple[int, ...]
    line: str
    output: int | None
    why: str
    reads: tuple[int, ...]
    given: tuple[int, ...]
    loop: int | None = None


@dataclass(frozen=True, kw_only=True)
class Taps:
    """The taps of one function.

    Attributes:
        taps: in the order in which they are computed.
        outputs: for each output of the function's own, the taps that it comes from.
        nested: dispatches inside of loops and branches whose values cannot be carried out of them.
    """

    taps: tuple[Tap, ...]
    outputs: tuple[tuple[int, ...], ...]
    nested: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "taps": [
                {
                    "kernel": each.kernel,
                    "numbers": list(each.numbers),
                    "covers": list(each.covers),
                    "line": each.line,
                    "output": each.output,
                    "why": each.why,
                    "reads": list(each.reads),
                    "given": list(each.given),
                    "loop": each.loop,
                }
                for each in self.taps
            ],
            "outputs": [list(each) for each in self.outputs],
            "nested": self.nested,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Taps":
        """The inverse of `to_json`."""
        return cls(
            taps=tuple(
                Tap(
                    kernel=each["kernel"],
                    numbers=tuple(each["numbers"]),
                    covers=tuple(each["covers"]),
                    line=each["line"],
                    output=each["output"],
                    why=each["why"],
                    reads=tuple(each["reads"]),
                    given=tuple(each["given"]),
                    loop=each["loop"],
                )
                for each in value["taps"]
            ),
            outputs=tuple(tuple(each) for each in value["outputs"]),
            nested=value["nested"],
        )


def read_taps(module: Path) -> dict[str, Taps]:
    """The taps of each function of a module that was compiled with some.

    Raises:
        FileError, ModuleError: the module cannot be read.
    """
    file = parse(memoryview(read_bytes(module)), str(module))
    return {
        each.name: Taps.from_json(json.loads(each.attributes[TAPS_ATTRIBUTE]))
        for each in file.exports
        if TAPS_ATTRIBUTE in each.attributes
    }
