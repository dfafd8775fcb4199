"""Kernels by their sizes to a small program that has each of them once, to time cuts with.

A program of hundreds of megabytes takes most of a minute to compile for each cut of a few kernels;
this one takes a second or two, whatever the model.
"""

from collections.abc import Sequence

import numpy as np

from edgec.toolchain.kernels.cpu.source import KernelKey
from edgec.toolchain.tuning.cuts import input_size

__all__ = ["YARDSTICK", "can_stand_alone", "program_of"]

YARDSTICK = KernelKey(kind="product", width=384, channels=256, out_channels=256)
"""What computes as fast as anything of edgec's own can here: a product whose tiles fit any vectors,
with work for every core, all of which lies in a core's second cache."""


def can_stand_alone(key: KernelKey) -> bool:
    """Whether the kernel's sizes say all that it takes to write it down; those of bytes do not."""
    return not key.bytes


def program_of(keys: Sequence[KernelKey]) -> str:
    """StableHLO with an input and an output for each kernel, and weights that are no splat.

    There is no padding, which a key does not tell.
    """
    random = np.random.default_rng(0)
    takes, gives, lines, types = [], [], [], []
    for number, key in enumerate(keys):
        made = (
            _product(key, number, random) if key.kind == "product" else _window(key, number, random)
        )
        source, result, text = made
        takes.append(f"%x{number}: {source}")
        types.append(result)
        gives.append(f"%y{number}")
        lines.append(text)
    body = "\n".join(lines)
    return (
        f"func.func public @main({', '.join(takes)}) -> ({', '.join(types)}) {{\n{body}\n"
        f"  return {', '.join(gives)} : {', '.join(types)}\n}}\n"
    )


def _product(key: KernelKey, number: int, random: np.random.Generator) -> tuple[str, str, str]:
    rows = key.height * key.width
    source = f"tensor<{rows}x{key.channels}xf32>"
    weights = f"tensor<{key.channels}x{key.out_channels}xf32>"
    result = f"tensor<{rows}x{key.out_channels}xf32>"
    text = (
        f"{_constant(number, weights, key.channels * key.out_channels, random)}\n"
        f"  %y{number} = stablehlo.dot_general %x{number}, %w{number}, contracting_dims = [1] x [0]"
        f" : ({source}, {weights}) -> {result}"
    )
    return source, result, text


def _window(key: KernelKey, number: int, random: np.random.Generator) -> tuple[str, str, str]:
    groups = key.channels if key.kind == "depthwise" else key.groups
    down, across = key.window
    each = key.channels // groups
    height, width = input_size(key)
    source = f"tensor<1x{height}x{width}x{key.channels}xf32>"
    weights = f"tensor<{down}x{across}x{each}x{key.out_channels}xf32>"
    result = f"tensor<1x{key.height}x{key.width}x{key.out_channels}xf32>"
    count = down * across * each * key.out_channels
    text = (
        f"{_constant(number, weights, count, random)}\n"
        f"  %y{number} = stablehlo.convolution(%x{number}, %w{number}) "
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = {list(key.stride)}, rhs_dilate = {list(key.dilation)}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
        f"({source}, {weights}) -> {result}"
    )
    return source, result, text


def _constant(number: int, kind: str, count: int, random: np.random.Generator) -> str:
    data = random.standard_normal(count, np.float32).tobytes().hex().upper()
    return f'  %w{number} = stablehlo.constant dense<"0x{data}"> : {kind}'
