"""What a product or convolution of a GPU is known by from one compile to the next, and its tile.

Free of the compiler.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ConvolutionKey", "ProductKey", "Tile", "parse_key"]

_PRODUCT = re.compile(r"product_(\d+)x(\d+)x(\d+)x(\d+)_([nt]{2})_(f16|bf16|f32)")
_CONVOLUTION = re.compile(
    r"convolution_(\d+)x(\d+)x(\d+)x(\d+)_by_(\d+)x(\d+)x(\d+)_to_(\d+)x(\d+)"
    r"_s(\d+)x(\d+)(?:_d(\d+)x(\d+))?_p(\d+)x(\d+)_(f16|bf16|f32)"
)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A tile that was measured to be best; it stands in for the model's.

    Attributes:
        form: the device's word for it.
        parts: into how many sums the inside is split.
    """

    form: str
    parts: int

    def __post_init__(self) -> None:
        if not self.form or self.parts < 1:
            raise ValueError(f"a tile has a form and at least one part: {self}")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"form": self.form, "parts": self.parts}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Tile":
        """What `to_json` made.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        return cls(form=str(value["form"]), parts=int(value["parts"]))


@dataclass(frozen=True, kw_only=True)
class ProductKey:
    """The sizes of a product; those of the same sizes share a key.

    Attributes:
        batch, m, k, n: [m, k] times [k, n], so many times.
        layout: how both sides lie: `n` as [m, k] and [k, n], `t` turned.
        element: the type of what is multiplied.
    """

    batch: int
    m: int
    k: int
    n: int
    layout: str
    element: str

    taps = 0

    def __str__(self) -> str:
        """`product_1x128x768x3072_nt_f16`."""
        return f"product_{self.batch}x{self.m}x{self.k}x{self.n}_{self.layout}_{self.element}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The m, n, k that a tile is chosen by."""
        return self.m, self.n, self.k

    @property
    def program(self) -> str:
        """It alone, in StableHLO."""
        batched = self.batch > 1
        first, turned = f"{self.batch}x" if batched else "", [side == "t" for side in self.layout]
        left = f"{self.k}x{self.m}" if turned[0] else f"{self.m}x{self.k}"
        right = f"{self.n}x{self.k}" if turned[1] else f"{self.k}x{self.n}"
        x, w, y = (
            f"tensor<{first}{sizes}x{self.element}>"
            for sizes in (left, right, f"{self.m}x{self.n}")
        )
        inner = batched + (not turned[0]), batched + turned[1]
        batching = "batching_dims = [0] x [0], " if batched else ""
        contracting = f"contracting_dims = [{inner[0]}] x [{inner[1]}]"
        return _function(x, w, y, f"stablehlo.dot_general %x, %w, {batching}{contracting}")


@dataclass(frozen=True, kw_only=True)
class ConvolutionKey:
    """The sizes of a convolution over NHWC by HWIO; those of the same sizes share a key.

    Attributes:
        images, high, wide, channels: of the image.
        window, strides, dilations: down and across.
        outputs: channels of the result.
        out: its rows and columns.
        pads: above and to the left of the image.
        element: the type of what is multiplied.
    """

    images: int
    high: int
    wide: int
    channels: int
    window: tuple[int, int]
    outputs: int
    out: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]
    element: str
    dilations: tuple[int, int] = (1, 1)

    batch = 1

    def __str__(self) -> str:
        """`convolution_1x56x56x64_by_3x3x128_to_28x28_s2x2_p1x1_f16`."""
        groups = (
            (self.images, self.high, self.wide, self.channels),
            (*self.window, self.outputs),
            self.out,
        )
        image, weight, out = ("x".join(map(str, group)) for group in groups)
        far, near = self.dilations
        dilated = f"_d{far}x{near}" if (far, near) != (1, 1) else ""
        steps = f"s{self.strides[0]}x{self.strides[1]}{dilated}_p{self.pads[0]}x{self.pads[1]}"
        return f"convolution_{image}_by_{weight}_to_{out}_{steps}_{self.element}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The m, n, k of one tap that a tile is chosen by."""
        return self.images * self.out[0] * self.out[1], self.outputs, self.channels

    @property
    def taps(self) -> int:
        """Places of the window."""
        return self.window[0] * self.window[1]

    @property
    def program(self) -> str:
        """It alone, in StableHLO."""
        pads = [
            (low, (out - 1) * stride + (taps - 1) * dilation + 1 - size - low)
            for low, out, stride, taps, dilation, size in zip(
                self.pads,
                self.out,
                self.strides,
                self.window,
                self.dilations,
                (self.high, self.wide),
                strict=True,
            )
        ]
        image = (self.images, self.high, self.wide, self.channels)
        weight = (*self.window, self.channels, self.outputs)
        result = (self.images, *self.out, self.outputs)
        x, w, y = (
            f"tensor<{'x'.join(map(str, sizes))}x{self.element}>"
            for sizes in (image, weight, result)
        )
        # What lies beyond the last window is not read: a pad below 0 would be a cut.
        padding = ", ".join(f"[{low}, {max(0, high)}]" for low, high in pads)
        return _function(
            *(x, w, y),
            "stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
            f"window = {{stride = {list(self.strides)}, pad = [{padding}], "
            f"rhs_dilate = {list(self.dilations)}}} "
            "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
        )


def parse_key(text: str) -> ProductKey | ConvolutionKey | None:
    """The key that a text spells; None for anything else."""
    found = _PRODUCT.fullmatch(text)
    if found is not None:
        batch, m, k, n = map(int, found.groups()[:4])
        return ProductKey(batch=batch, m=m, k=k, n=n, layout=found[5], element=found[6])
    found = _CONVOLUTION.fullmatch(text)
    if found is None:
        return None
    of = [int(each or 1) for each in found.groups()[:15]]
    return ConvolutionKey(
        images=of[0],
        high=of[1],
        wide=of[2],
        channels=of[3],
        window=(of[4], of[5]),
        outputs=of[6],
        out=(of[7], of[8]),
        strides=(of[9], of[10]),
        dilations=(of[11], of[12]),
        pads=(of[13], of[14]),
        element=found[16],
    )


def _function(x: str, w: str, y: str, operation: str) -> str:
    return f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %0 = {operation} : ({x}, {w}) -> {y}
  return %0 : {y}
}}
"""
