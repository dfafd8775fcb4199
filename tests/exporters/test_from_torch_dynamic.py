"""PyTorch models of images and signals of any size: right at other sizes than the example's."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import nn

from edgec.exporters import export
from edgec.runtime.errors import ExportError, UnsupportedOp
from edgec.toolchain import CompileOptions, compile_with_report
from edgec.toolchain.program import Dialect, Program

IMAGE = {"x": {2: "h=8..32", 3: "w=8..32"}}
SIGNAL = {"x": {2: "n=16..16000"}}
Results = dict[str, torch.Tensor]


class OfAnyHeight(nn.Module):
    """What image models do with sizes, without parameters."""

    def forward(self, x: torch.Tensor) -> Results:
        small = functional.avg_pool2d(x, 2)
        values, places = functional.adaptive_max_pool2d(x, (2, 3), return_indices=True)
        return {
            "largest": functional.max_pool2d(x, 2),
            "padded": functional.max_pool2d(x, 3, 2, 1),
            "one": functional.adaptive_avg_pool2d(x, 1),
            "few": functional.adaptive_avg_pool2d(x, (3, 7)),
            "values": values,
            "places": places,
            "twice": functional.interpolate(x, scale_factor=2),
            "half": functional.interpolate(x, scale_factor=1.5),
            "fixed": functional.interpolate(x, size=(7, 9)),
            "like": functional.interpolate(small, size=x.shape[2:], mode="bilinear"),
            "corners": functional.interpolate(
                x, scale_factor=2, mode="bilinear", align_corners=True
            ),
            "bilinear": functional.interpolate(x, size=(7, 9), mode="bilinear"),
            "cubic": functional.interpolate(x, scale_factor=2, mode="bicubic"),
            "reflected": functional.pad(x, (1, 2, 1, 2), mode="reflect"),
            "spread": x.std((2, 3)),
        }


class Classifier(nn.Module):
    """A small residual network: strided convolutions, a pool, a global mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.deep = nn.Conv2d(8, 8, 3, 1, 1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.first(x)), 2)
        x = functional.relu(x + self.norm(self.deep(x)))
        return self.last(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class OfAnyLength(nn.Module):
    """What signal models do with lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 4, 5, 2, 2)

    def forward(self, x: torch.Tensor) -> Results:
        features = functional.max_pool1d(functional.gelu(self.first(x)), 2)
        return {
            "features": features,
            "one": functional.adaptive_avg_pool1d(features, 1),
            "few": functional.adaptive_avg_pool1d(features, 3),
            "largest": functional.adaptive_max_pool1d(features, 3),
            "norm": (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
        }


@pytest.mark.parametrize(
    ("model", "shape", "dynamic"),
    [
        pytest.param(OfAnyHeight, (1, 2, 16, 20), IMAGE, marks=pytest.mark.slow),
        (Classifier, (2, 3, 16, 20), {"x": {0: "b=1..3", 2: "h=9..32", 3: "w=9..32"}}),
        (OfAnyLength, (1, 1, 100), SIGNAL),
    ],
)
def test_a_model_of_any_size_is_right_at_every_size(
    replay: Callable[[Program], float],
    model: Callable[[], nn.Module],
    shape: Sequence[int],
    dynamic: object,
) -> None:
    torch.manual_seed(1)
    program = export(model().eval(), (torch.randn(*shape),), dynamic=dynamic)
    assert program.info.dialect is Dialect.STABLEHLO
    assert program.golden is not None
    assert len({call.inputs[0].shape for call in program.golden.calls}) == 3
    assert replay(program) < 2e-6


class Squeezed(nn.Module):
    """Lines and columns by products, columns first."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        lines, columns = (torch.arange(size).sin() for size in input.shape[-2:])
        down, across = torch.stack([lines, -lines]), torch.stack([columns, 1 - columns], 1)
        return down @ (input @ across)


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "model", [nn.AdaptiveAvgPool2d((2, 3)), pytest.param(Squeezed(), marks=pytest.mark.slow)]
)
def test_products_of_any_size_are_right_where_there_are_no_wide_integers(
    model: nn.Module, tmp_path: Path
) -> None:
    sizes = {"input": {2: "h=8..32", 3: "w=8..32"}}
    program = export(model, (torch.randn(1, 2, 16, 20),), dynamic=sizes)
    options = CompileOptions(output=tmp_path / "pool.vmfb")
    report = compile_with_report(program.save(tmp_path / "pool.mlirbc"), "vulkan", options).report
    assert report.check.startswith("checked")


def test_sizes_that_are_scaled_are_said_plainly() -> None:
    up = nn.Upsample(scale_factor=1.5)
    program = export(up, (torch.randn(1, 1, 8, 8),), dynamic={"input": {2: "h=2..9"}})
    assert str(program.info.functions[0].signature.outputs[0]) == (
        "result: f32[1, 1, trunc(1.5*h)=3..13, 12]"
    )


def test_a_size_that_only_floats_give_is_refused_by_name() -> None:
    up = nn.Upsample(scale_factor=0.3, mode="bilinear")
    with pytest.raises(UnsupportedOp, match=r"in floats from a dynamic one: 0\.3\*n"):
        export(up, (torch.randn(1, 1, 16, 16),), dynamic={"input": {2: "h=8..32"}})


def test_a_range_that_the_model_does_not_take_names_the_one_that_it_does() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.AvgPool2d(4), nn.Flatten(2), nn.Softmax(-1))
    x = torch.from_numpy(np.ones((1, 1, 32, 32), np.float32))
    with pytest.raises(ExportError, match=r"h in the range 8\.\.64 has to satisfy") as caught:
        export(model, (x,), dynamic={"input": {2: "h=8..64", 3: "w=16..64"}})
    assert caught.value.hint is not None
    found = caught.value.hint.split()[1].strip(",")
    assert found.endswith("..64")
    program = export(model, (x,), dynamic={"input": {2: found, 3: "w=16..64"}})
    assert not program.info.functions[0].signature.inputs[0].is_static
