"""What share of a module's arithmetic edgec's own kernels do, and what was left to the compiler."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["KernelShare", "Left"]


@dataclass(frozen=True, kw_only=True)
class Left:
    """Operations of one kind that the compiler itself writes the code of.

    Attributes:
        what: the operation and its sizes.
        where: the first user's line that it comes from, or empty.
        reason: why no kernel of edgec's own does it.
        count: how many such operations there are.
        flops: additions and multiplications of all of them.
        bytes: what they read and write.
    """

    what: str
    where: str
    reason: str
    count: int
    flops: int
    bytes: int

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Left":
        """As `to_json` gave it."""
        return cls(
            what=str(value["what"]),
            where=str(value["where"]),
            reason=str(value["reason"]),
            count=int(value["count"]),
            flops=int(value["flops"]),
            bytes=int(value["bytes"]),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "what": self.what,
            "where": self.where,
            "reason": self.reason,
            "count": self.count,
            "flops": self.flops,
            "bytes": self.bytes,
        }

    def __str__(self) -> str:
        """`12 of convolution 3x3 to 1x14x14x64, f32 (0.2 GFLOP)`."""
        times = f"{self.count} of " if self.count > 1 else ""
        work = _amount(self.flops) if self.flops else f"{self.bytes / 1e6:.3g} MB moved"
        return f"{times}{self.what} ({work})"


@dataclass(frozen=True, kw_only=True)
class KernelShare:
    """How much a program computes, and how much of it edgec's own kernels do.

    Work is counted on the program as it is written, before kernels are placed: two for each
    product that is summed, one for each element of any other operation that computes; bytes are
    what the operations read and write, each on its own.

    Attributes:
        flops, bytes: of the whole program.
        own_flops, own_bytes: of what edgec's own kernels do.
        left: the rest, the largest first; not all of it where that would be long.
        uncounted: operations that compute on sizes chosen at each call, which nothing here counts.
    """

    flops: int
    own_flops: int
    bytes: int
    own_bytes: int
    left: tuple[Left, ...] = ()
    uncounted: int = 0

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "KernelShare":
        """As `to_json` gave it."""
        return cls(
            flops=int(value["flops"]),
            own_flops=int(value["own_flops"]),
            bytes=int(value["bytes"]),
            own_bytes=int(value["own_bytes"]),
            left=tuple(map(Left.from_json, value["left"])),
            uncounted=int(value.get("uncounted", 0)),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "flops": self.flops,
            "own_flops": self.own_flops,
            "bytes": self.bytes,
            "own_bytes": self.own_bytes,
            "left": [each.to_json() for each in self.left],
            "uncounted": self.uncounted,
        }

    def weight(self, left: Left) -> float:
        """What part of the program an entry of `left` is, by arithmetic or by bytes."""
        return max(left.flops / max(1, self.flops), left.bytes / max(1, self.bytes))

    def shortened(self, most: int) -> "KernelShare":
        """The same with at most so many kinds of operations that were left."""
        return replace(self, left=self.left[:most])

    def __str__(self) -> str:
        """`98 % of 4.1 GFLOP (91 % of the bytes) in edgec's own kernels`."""
        sizes = ""
        if self.uncounted:
            many = "operation" if self.uncounted == 1 else "operations"
            sizes = f"{self.uncounted} {many} on sizes chosen at each call, whose work is not known"
        if not self.flops:
            return sizes or "nothing to compute"
        own = _percent(self.own_flops, self.flops)
        moved = _percent(self.own_bytes, self.bytes)
        share = f"{own} of {_amount(self.flops)} ({moved} of the bytes) in edgec's own kernels"
        return f"{share}; {sizes}" if sizes else share


def _percent(part: int, whole: int) -> str:
    """Rounded down, so that 100 % is all of it."""
    return f"{math.floor(100 * part / max(1, whole))} %"


def _amount(flops: int) -> str:
    for unit, name in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if flops >= unit:
            return f"{flops / unit:.3g} {name}"
    return f"{flops} FLOP"
