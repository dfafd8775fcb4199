"""Gradients of convolutions and poolings as PyTorch's graphs hold them; compared with PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from edgec.exporters import export
from edgec.toolchain.program import Dialect, Program
from tests.exporters.torch_functions import Of, randn

Replay = Callable[[Program], float]


CONVOLUTIONS = {
    "plain": (((2, 4, 9, 8), (6, 4, 3, 3)), {"padding": 1}),
    "strides that leave pixels": (((2, 4, 12, 11), (6, 4, 3, 2)), {"stride": (3, 2)}),
    "groups, dilated": (
        ((2, 6, 11, 10), (4, 3, 3, 3)),
        {"stride": 2, "padding": (2, 1), "dilation": 2, "groups": 2},
    ),
    "depthwise": (((2, 5, 9, 9), (5, 1, 3, 3)), {"stride": 2, "padding": 1, "groups": 5}),
    "one axis": (((2, 4, 13), (6, 4, 5)), {"stride": 2, "padding": 2}),
    "three axes": (((1, 2, 5, 6, 7), (3, 2, 2, 3, 2)), {"stride": (1, 2, 2)}),
}
MAXIMA = {
    "windows that overlap": ((2, 3, 9, 10), (3, 2, 1)),
    "windows that do not": ((2, 3, 8, 7), (2, 2, 0)),
    "dilated": ((2, 3, 9, 9), (2, 2, 0, 2)),
}
MEANS = {
    "windows that overlap": ((2, 3, 9, 10), (3, 2, 1)),
    "of what is there": ((2, 3, 9, 10), (3, 2, 1, False, False)),
    "with a last window": ((2, 3, 10, 8), (3, 2, 1, True)),
    "by a number": ((2, 3, 7, 8), ((2, 3), (1, 2), 0, False, True, 5)),
}


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution(name: str, replay: Replay) -> None:
    sizes, how = CONVOLUTIONS[name]
    x, weight = (randn(i, *size) for i, size in enumerate(sizes))
    bias = randn(2, weight.shape[0])
    rank = x.ndim - 2
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    given = randn(3, *convolve(x, weight, bias, **how).shape)

    def each(name: str, default: int) -> list[int]:
        value = how.get(name, default)
        return list(value) if isinstance(value, tuple) else [value] * rank

    def backward(x: torch.Tensor, weight: torch.Tensor, given: torch.Tensor) -> Any:
        return torch.ops.aten.convolution_backward(
            *(given, x, weight, [weight.shape[0]], each("stride", 1), each("padding", 0)),
            *(each("dilation", 1), False, [0] * rank, how.get("groups", 1), [True] * 3),
        )

    program = export(Of(backward), (x, weight, given))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 2e-5


@pytest.mark.parametrize("name", MAXIMA)
def test_maxima(name: str, replay: Replay) -> None:
    size, how = MAXIMA[name]
    window, stride, padding, dilation = (*how, 1)[:4]
    # Equal numbers, too: the first of them is the largest.
    x = randn(1, *size).mul(2).round()
    _, places = torch.ops.aten.max_pool2d_with_indices(x, [window], [stride], [padding], [dilation])

    def backward(x: torch.Tensor, places: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.max_pool2d_with_indices_backward(
            given, x, [window], [stride], [padding], [dilation], False, places
        )

    program = export(Of(backward), (x, places, randn(2, *places.shape)))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 2e-6


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("name", MEANS)
def test_means(name: str, replay: Replay) -> None:
    size, how = MEANS[name]
    window, stride, padding, *rest = how
    ceil, counted, divisor = (*rest, *(False, True, None)[len(rest) :])
    sizes = [[each] if isinstance(each, int) else list(each) for each in (window, stride, padding)]
    x = randn(1, *size)
    y = torch.ops.aten.avg_pool2d(x, *sizes, ceil, counted, divisor)

    def backward(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.avg_pool2d_backward(given, x, *sizes, ceil, counted, divisor)

    program = export(Of(backward), (x, randn(2, *y.shape)))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 2e-6


def test_means_side_by_side(replay: Replay) -> None:
    backward = torch.ops.aten._adaptive_avg_pool2d_backward
    inputs = randn(1, 2, 3, 9, 8), randn(2, 2, 3, 3, 2)
    program = export(Of(lambda x, given: backward(given, x)), inputs)
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 2e-6
