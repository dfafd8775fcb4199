"""What a kernel is known by from one compile to the next, and the measured way to cut it up."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Cut", "Form", "KernelKey"]

_NAME = re.compile(
    r"edgec_(byte_)?(convolution|depthwise|product|winograd)_(\d+)x(\d+)"
    r"_(\d+)x(\d+)x(\d+)(?:x(\d+))?(?:_g(\d+))?(?:_s(\d+)x(\d+))?(?:_d(\d+)x(\d+))?(?:_v\d+)?"
)
_OF_KIND = {"winograd": "convolution"}


class Form(Enum):
    """How a convolution is computed; the value is what a profile says."""

    PLAIN = "plain"
    WINOGRAD = "winograd"


@dataclass(frozen=True, kw_only=True)
class KernelKey:
    """The sizes of a kernel, which its symbol spells; kernels of the same sizes share a key.

    So do a convolution's two forms, which are two ways to do the same.

    Attributes:
        kind: `convolution`, `product` or `depthwise`.
        window: rows and columns of the window.
        height, width: output pixels.
        channels: of the input.
        out_channels: of the result; a depthwise kernel's are its input's.
        groups: of the channels; 1 for a depthwise kernel, too.
        stride, dilation: of the window, rows and columns.
        bytes: whether it multiplies bytes.
    """

    kind: str
    window: tuple[int, int] = (1, 1)
    height: int = 1
    width: int
    channels: int
    out_channels: int
    groups: int = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    bytes: bool = False

    def __str__(self) -> str:
        """`edgec_convolution_3x3_56x56x64x128`, `edgec_depthwise_3x3_28x28x240_s2x2`."""
        sizes = [self.height, self.width, self.channels]
        if self.kind != "depthwise":
            sizes.append(self.out_channels)
        window = "x".join(map(str, self.window))
        rest = f"_g{self.groups}" if self.groups > 1 else ""
        for letter, (down, across) in (("s", self.stride), ("d", self.dilation)):
            rest += f"_{letter}{down}x{across}" if (down, across) != (1, 1) else ""
        kind = f"byte_{self.kind}" if self.bytes else self.kind
        return f"edgec_{kind}_{window}_{'x'.join(map(str, sizes))}{rest}"

    def symbol(self, form: Form) -> str:
        """What the kernel is called in a module: its key, and of Winograd's form that, too."""
        key = str(self)
        return key if form is Form.PLAIN else key.replace("_convolution_", f"_{form.value}_")

    @property
    def flops(self) -> int:
        """Multiplications and additions of the plain form, both counted."""
        inputs = 1 if self.kind == "depthwise" else self.channels // self.groups
        taps = self.window[0] * self.window[1]
        return 2 * self.height * self.width * self.out_channels * inputs * taps

    @property
    def least_flops(self) -> float:
        """Of the form that needs the fewest: Winograd's takes 16 products in place of 36."""
        plain = (self.window, self.stride, self.dilation, self.groups, self.bytes)
        fast = self.kind == "convolution" and plain == ((3, 3), (1, 1), (1, 1), 1, False)
        return self.flops * 16 / 36 if fast else self.flops

    @classmethod
    def parse(cls, symbol: str) -> "KernelKey | None":
        """The key of a kernel's symbol, whatever its variant; None for any other name."""
        found = _NAME.fullmatch(symbol)
        if found is None or (found[2] == "depthwise") != (found[8] is None):
            return None
        return cls(
            bytes=found[1] is not None,
            kind=_OF_KIND.get(found[2], found[2]),
            window=(int(found[3]), int(found[4])),
            height=int(found[5]),
            width=int(found[6]),
            channels=int(found[7]),
            out_channels=int(found[8] or found[7]),
            groups=int(found[9] or 1),
            stride=(int(found[10] or 1), int(found[11] or 1)),
            dilation=(int(found[12] or 1), int(found[13] or 1)),
        )


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Tile sizes and workgroups that were found by measuring; they stand in for the model's.

    Attributes:
        rows, columns: output pixels of a tile; a depthwise kernel has one row, and in Winograd's
            form the columns are the tiles of 2 x 2 pixels that are turned together.
        vectors: vectors of output channels in a panel; a depthwise kernel has one.
        split: the most workgroups across the tiles (or rows), and across the panels.
        form: how a convolution is computed.
    """

    rows: int = 1
    columns: int
    vectors: int = 1
    split: tuple[int, int]
    form: Form = Form.PLAIN

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
            **({} if self.form is Form.PLAIN else {"form": self.form.value}),
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
            form=Form(value.get("form", Form.PLAIN.value)),
        )
