"""Slices of what is joined: of the parts themselves, and right where they were read too early."""

import random
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.interpret import Interpreter
from edgec.toolchain.passes.legalise.sliced_joins import SlicedJoins
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.passes.before_after import rewrite, run

JOINED_TWICE = """func.func public @main(%x: tensor<3x8x2xf32>) -> tensor<8x4xf32> {
  %y = stablehlo.cosine %x : tensor<3x8x2xf32>
  %0 = stablehlo.slice %y [0:1, 0:8, 0:2] : (tensor<3x8x2xf32>) -> tensor<1x8x2xf32>
  %1 = stablehlo.negate %0 : tensor<1x8x2xf32>
  %2 = stablehlo.slice %y [1:3, 0:8, 0:2] : (tensor<3x8x2xf32>) -> tensor<2x8x2xf32>
  %3 = stablehlo.concatenate %1, %2, dim = 0
    : (tensor<1x8x2xf32>, tensor<2x8x2xf32>) -> tensor<3x8x2xf32>
  %4 = stablehlo.slice %3 [0:1, 0:8, 0:2] : (tensor<3x8x2xf32>) -> tensor<1x8x2xf32>
  %5 = stablehlo.slice %3 [1:3, 0:8, 0:2] : (tensor<3x8x2xf32>) -> tensor<2x8x2xf32>
  %6 = stablehlo.concatenate %4, %5, dim = 0
    : (tensor<1x8x2xf32>, tensor<2x8x2xf32>) -> tensor<3x8x2xf32>
  %7 = stablehlo.slice %6 [0:1, 0:8, 0:2] : (tensor<3x8x2xf32>) -> tensor<1x8x2xf32>
  %8 = stablehlo.reshape %7 : (tensor<1x8x2xf32>) -> tensor<8x2xf32>
  %9 = stablehlo.concatenate %8, %8, dim = 1
    : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
  return %9 : tensor<8x4xf32>
}"""
TARGETS = ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]
INPUT = np.random.default_rng(3).standard_normal((3, 8, 2)).astype(np.float32)


def answer(x: np.ndarray) -> np.ndarray:
    """What `JOINED_TWICE` gives."""
    first = -np.cos(x[0])
    return np.concatenate([first, first], axis=-1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_slice_waits_for_the_part_that_it_is_of(target: str, tmp_path: Path) -> None:
    found = run(JOINED_TWICE, tmp_path, INPUT, target=target)
    np.testing.assert_allclose(found, answer(INPUT), rtol=1e-4, atol=1e-6)


def test_nothing_is_sliced_that_was_joined() -> None:
    count, after = rewrite(SlicedJoins(), JOINED_TWICE)
    assert count == 3
    assert after.count("stablehlo.concatenate") == 1


def test_an_update_that_lies_elsewhere_is_passed_by() -> None:
    count, after = rewrite(
        SlicedJoins(),
        """func.func @main(%x: tensor<6x4xf32>, %y: tensor<2x4xf32>) -> tensor<1x4xf32> {
      %c = stablehlo.constant dense<3> : tensor<i32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %0 = stablehlo.dynamic_update_slice %x, %y, %c, %z
        : (tensor<6x4xf32>, tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<6x4xf32>
      %1 = stablehlo.slice %0 [1:2, 0:4] : (tensor<6x4xf32>) -> tensor<1x4xf32>
      return %1 : tensor<1x4xf32>
    }""",
    )
    assert count == 1
    assert "dynamic_update_slice" not in after


def made_up(seed: int) -> str:
    """Joins, updates, reshapes and slices of each other, drawn at random; of 12 numbers each."""
    draw = random.Random(seed)
    sizes = {"%x": (6, 2), "%y": (3, 4)}
    lines = ["%one = stablehlo.constant dense<1> : tensor<i32>"]
    lines.append("%zero = stablehlo.constant dense<0> : tensor<i32>")

    def kind(shape: tuple[int, ...]) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    def add(shape: tuple[int, ...], text: str) -> None:
        name = f"%{len(sizes)}"
        lines.append(f"{name} = stablehlo.{text}")
        sizes[name] = shape

    for _ in range(12):
        one = draw.choice(list(sizes))
        shape = sizes[one]
        match draw.choice("rjjsssu"):
            case "r":
                new = draw.choice([(shape[0] * shape[1], 1), (1, shape[0] * shape[1]), shape[::-1]])
                add(new, f"reshape {one} : ({kind(shape)}) -> {kind(new)}")
            case "j":
                axis = draw.randrange(2)
                others = [n for n, s in sizes.items() if s[1 - axis] == shape[1 - axis]]
                other = draw.choice(others)
                new = list(shape)
                new[axis] += sizes[other][axis]
                if max(new) < 40:
                    types = f"({kind(shape)}, {kind(sizes[other])})"
                    add(
                        tuple(new),
                        f"concatenate {one}, {other}, dim = {axis} : {types} -> {kind(tuple(new))}",
                    )
            case "s":
                starts = [draw.randrange(size) for size in shape]
                if draw.random() < 0.7:
                    starts[1] = 0
                ends = [draw.randint(a + 1, size) for a, size in zip(starts, shape, strict=True)]
                if starts[1] == 0 and draw.random() < 0.8:
                    ends[1] = shape[1]
                new = tuple(b - a for a, b in zip(starts, ends, strict=True))
                cut = ", ".join(f"{a}:{b}" for a, b in zip(starts, ends, strict=True))
                add(new, f"slice {one} [{cut}] : ({kind(shape)}) -> {kind(new)}")
            case "u":
                fits = [n for n, s in sizes.items() if s[0] <= shape[0] and s[1] <= shape[1]]
                other = draw.choice(fits)
                types = f"({kind(shape)}, {kind(sizes[other])}, tensor<i32>, tensor<i32>)"
                add(
                    shape,
                    f"dynamic_update_slice {one}, {other}, %one, %zero : {types} -> {kind(shape)}",
                )
    names = [name for name in sizes if name not in ("%x", "%y")]
    kinds = ", ".join(kind(sizes[name]) for name in names)
    lines.append(f"return {', '.join(names)} : {kinds}")
    body = "\n".join(lines)
    return f"func.func @main(%x: tensor<6x2xf32>, %y: tensor<3x4xf32>) -> ({kinds}) {{\n{body}\n}}"


@pytest.mark.parametrize("seed", range(40))
def test_what_is_drawn_at_random_stays_what_it_is(seed: int) -> None:
    text = made_up(seed)
    inputs = [np.arange(12, dtype=np.float32).reshape(6, 2), -np.ones((3, 4), np.float32)]
    with ir.Context() as context:
        before, after = (parse_stablehlo(text, context) for _ in range(2))
        SlicedJoins().run(after)
        after.operation.verify()
        expected, found = (Interpreter(m).call("main", inputs) for m in (before, after))
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
