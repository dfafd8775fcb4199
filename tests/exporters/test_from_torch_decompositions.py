"""Operations of PyTorch that have no lowering of their own, in others; compared with PyTorch."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from iree.compiler import ir
from torch import nn

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain import run_passes
from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.ir.functions import entry_block, find_function
from edgec.toolchain.program import Dialect, Program
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.exporters.torch_functions import Of

Replay = Callable[[Program], float]


def test_determinants_with_a_zero_in_the_way_of_elimination(replay: Replay) -> None:
    x = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(3))
    x[0, 0, 0] = 0
    singular = x.clone()
    singular[1, :, 2] = 0
    model = Of(lambda x, y: torch.stack([y.det(), x.det(), *torch.linalg.slogdet(x)]))
    program = export(model, (x, singular))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-5


def test_a_determinant_of_a_dynamic_size_is_refused() -> None:
    class Determinant(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.det()

    with pytest.raises(UnsupportedOp, match="determinant of a matrix whose size is dynamic"):
        export(Determinant(), (torch.eye(3),), dynamic={"x": {0: "n=2..5", 1: "n=2..5"}})


def test_a_histogram_of_given_bounds(replay: Replay) -> None:
    x = torch.tensor([0.0, 1, 1, 3, 7, 7.5, -1, 2.99, 6.9, 7])
    model = Of(lambda x: torch.stack([x.histc(8, 0, 7), x.histc(8, -2, 2)]))
    assert replay(export(model, (x,))) == 0


@pytest.mark.parametrize("rows", [3, 11])
def test_rows_of_groups_times_each_groups_matrix(rows: int, replay: Replay) -> None:
    torch.manual_seed(rows)
    # The last row belongs to no group.
    offs = torch.tensor([1, 1, rows - 2, rows - 1], dtype=torch.int32)

    def forward(x: torch.Tensor, weights: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(x, weights, offs=offs)[:-1]

    x, weights = torch.randn(rows, 16).bfloat16(), torch.randn(4, 16, 8).bfloat16()
    assert replay(export(Of(forward), (x, weights, offs))) < 0.1


def test_a_fourier_transform_of_two_axes(replay: Replay) -> None:
    model = Of(lambda x: torch.fft.fftn(x, dim=(1, 2)).real + torch.fft.fft2(x).imag)
    assert replay(export(model, (torch.randn(2, 8, 16),))) < 1e-4


def test_the_largest_of_windows_that_differ_and_their_places(replay: Replay) -> None:
    pool = nn.functional.adaptive_max_pool2d

    def forward(x: torch.Tensor) -> torch.Tensor:
        values, places = pool(x, (3, 5), return_indices=True)
        return values * 1000 + places

    torch.manual_seed(0)
    assert replay(export(Of(forward), (torch.randn(2, 3, 8, 12),))) < 1e-3


@pytest.mark.parametrize("largest", [True, False])
def test_the_most_in_no_order(largest: bool, replay: Replay) -> None:
    """As routers of experts ask for them, which weigh and add up what is chosen."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        values, places = torch.topk(x, 3, dim=-1, largest=largest, sorted=False)
        return torch.zeros_like(x).scatter(-1, places, values * values.sum(-1, keepdim=True))

    torch.manual_seed(0)
    assert replay(export(Of(forward), (torch.randn(5, 9),))) < 1e-5


def test_a_row_of_zeros_is_normalised_to_zeros() -> None:
    program = export(nn.RMSNorm(24).eval(), (torch.randn(3, 24),))
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        block = entry_block(find_function(module, "main"))
        known = {argument: np.zeros((3, 24)) for argument in block.arguments}
        (answer,) = evaluate(list(block.operations)[-1].operands, known)
    np.testing.assert_array_equal(answer, np.zeros((3, 24)))


def test_images_resized_without_aliases(replay: Replay) -> None:
    resize = functools.partial(nn.functional.interpolate, antialias=True)

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            resize(x, (5, 6), mode="bilinear"),
            resize(x, (20, 31), mode="bilinear", align_corners=True),
            resize(x, (5, 40), mode="bicubic"),
            resize(x, scale_factor=(0.3, 0.7), mode="bicubic"),
        )

    torch.manual_seed(0)
    assert replay(export(Of(forward), (torch.randn(2, 3, 12, 17),))) < 1e-5


def test_windows_that_share_memory(replay: Replay) -> None:
    def forward(x: torch.Tensor) -> list[torch.Tensor]:
        turned = x.transpose(0, 1)
        return [
            x.as_strided((2, 3, 4, 6), (48, 12, 6, 1)),
            x.as_strided((3, 2), (1, 7), 5),
            turned.as_strided((5, 3), (2, 1), 1),
        ]

    assert replay(export(Of(forward), (torch.randn(2, 8, 6),))) == 0


def rotated(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotary(q: torch.Tensor) -> torch.Tensor:
    """As `transformers` writes it, with its tables made in the model."""
    frequencies = 1 / 10000 ** (torch.arange(0, 32, 2).float() / 32)
    angles = torch.outer(torch.arange(q.shape[2]).float(), frequencies)
    angles = torch.cat((angles, angles), -1)
    return q * angles.cos() + rotated(q) * angles.sin()


def test_what_nobody_has_written_yet_is_portable(replay: Replay) -> None:
    def forward(order: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        back = torch.empty_like(order)
        back[order] = torch.arange(5)
        rows = x.new_empty(5, 3)
        rows[:] = x
        rest = torch.empty(2, 3, dtype=torch.float32)
        rest.fill_(0.5)
        return torch.cat((rows[back], rest))

    order = torch.tensor([3, 0, 4, 1, 2])
    program = export(Of(forward), (order, torch.randn(5, 3)))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) == 0


def test_rotary_embeddings_are_slices_and_products_alone() -> None:
    share = run_passes(export(Of(rotary), (torch.ones(1, 4, 24, 32),)), "cpu").kernels
    assert share is not None
    left = {each.what.partition(" to ")[0]: each.count for each in share.left}
    # Tables of angles are worked out once, no part of a call.
    assert left == {"multiply": 2, "add": 1, "slice": 2, "concatenate": 1, "negate": 1}


def test_parts_written_over(replay: Replay) -> None:
    def forward(x: torch.Tensor, part: torch.Tensor) -> list[torch.Tensor]:
        rows, columns, every, one, masked = (x.clone() for _ in range(5))
        rows[1:3] = part
        columns[:, -2:] = 7.0
        every[1::2] = part
        one[:, -2] = part[0, 0]
        masked[masked[:, 0] > 0] = 5.0
        return [rows, columns, every, one, masked]

    torch.manual_seed(0)
    assert replay(export(Of(forward), (torch.randn(5, 6), torch.randn(2, 6)))) == 0


@pytest.mark.parametrize(("size", "step"), [(6, 4), (3, 3), (5, 1)])
def test_windows_that_overlap_or_not(size: int, step: int, replay: Replay) -> None:
    def windows(x: torch.Tensor) -> torch.Tensor:
        return x.unfold(1, size, step).tanh()

    program = export(windows, (torch.randn(2, 17, 3),))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-6
