"""What a kernel is known by from one compile to the next, and the measured way to cut it up."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Cut", "KernelKey"]

_NAME = re.compile(
    r"edgec_(byte_)?(convolution|depthwise|product)_(\d+)x(\d+)_(\d+)x(\d+)x(\d+)(?:x(\d+))?"
    r"(?:_g(\d+))?(?:_v\d+)?"
)


@dataclass(frozen=True, kw_only=True)
class KernelKey:
    """The sizes of a kernel, which its symbol spells; kernels of the same sizes share a key.

    Attributes:
        kind: `convolution`, `product` or `depthwise`.
        window: rows and columns of the window.
        height, width: output pixels.
        channels: of the input.
        out_channels: of the result; a depthwise kernel's are its input's.
        groups: of the channels; 1 for a depthwise kernel, too.
        bytes: whether it multiplies bytes.
    """

    kind: str
    window: tuple[int, int] = (1, 1)
    height: int = 1
    width: int
    channels: int
    out_channels: int
    groups: int = 1
    bytes: bool = False

    def __str__(self) -> str:
        """`edgec_convolution_3x3_56x56x64x128`."""
        sizes = [self.height, self.width, self.channels]
        if self.kind != "depthwise":
            sizes.append(self.out_channels)
        window = "x".join(map(str, self.window))
        groups = f"_g{self.groups}" if self.groups > 1 else ""
        kind = f"byte_{self.kind}" if self.bytes else self.kind
        return f"edgec_{kind}_{window}_{'x'.join(map(str, sizes))}{groups}"

    @classmethod
    def parse(cls, symbol: str) -> "KernelKey | None":
        """The key of a kernel's symbol, whatever its variant; None for any other name."""
        found = _NAME.fullmatch(symbol)
        if found is None or (found[2] == "depthwise") != (found[8] is None):
            return None
        return cls(
            bytes=found[1] is not None,
            kind=found[2],
            window=(int(found[3]), int(found[4])),
            height=int(found[5]),
            width=int(found[6]),
            channels=int(found[7]),
            out_channels=int(found[8] or found[7]),
            groups=int(found[9] or 1),
        )


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Tile sizes and workgroups that were found by measuring; they stand in for the model's.

    Attributes:
        rows, columns: output pixels of a tile; a depthwise kernel has one row.
        vectors: vectors of output channels in a panel; a depthwise kernel has one.
        split: the most workgroups across the tiles (or rows), and across the panels.
    """

    rows: int = 1
    columns: int
    vectors: int = 1
    split: tuple[int, int]

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, self.vectors, *self.split) < 1:
            raise ValueError(f"a cut has sizes of at least 1: {self}")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "rows": self.rows,
            "columns": self.columns,
            "vectors": self.vectors,
            "split": list(self.split),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Cut":
        """What `to_json` made.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        down, across = value["split"]
        return cls(
            rows=int(value["rows"]),
            columns=int(value["columns"]),
            vectors=int(value["vectors"]),
            split=(int(down), int(across)),
        )
