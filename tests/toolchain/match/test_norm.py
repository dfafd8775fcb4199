"""Norms are known however they are written, and each description means what its operations do."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from iree.compiler import ir
from torch import nn

from edgec.exporters import export
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import Norm, NotANorm, find_norms, longest
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.fold_constants import FoldConstants
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from edgec.toolchain.passes.simplify.separable_gathers import SeparableGathers
from edgec.toolchain.program import Program
from edgec.toolchain.stablehlo import parse_stablehlo

TOKENS = (jnp.ones((3, 5, 24)), jnp.ones(24), jnp.ones(24))
IMAGE = torch.ones(2, 12, 5, 7)


Found = Callable[[Program], list[Norm | NotANorm]]


@pytest.fixture
def found() -> Iterator[Found]:
    """The norms of a program as passes see it, each compared with its operations."""
    modules = []

    def find(program: Program) -> list[Norm | NotANorm]:
        norms: list[Norm | NotANorm] = []
        modules.append(parse_stablehlo(program.bytecode, context))
        with validating() as compared:
            for step in (InlineCalls(), Canonicalise(), FoldConstants(), SeparableGathers()):
                step.run(modules[-1])
            for op in list(inside(modules[-1].operation)):
                each = find_norms(op)
                if isinstance(each, list):
                    norms.append(longest(each))
                    validate(norms[-1], "norm")
                elif each is not None:
                    norms.append(each)
        count = sum(isinstance(each, Norm) for each in norms)
        assert compared.same.get("norm", 0) == count
        assert not compared.left
        return norms

    with ir.Context() as context:
        yield find


def centred(x: Any) -> tuple[Any, Any]:
    mean = x.mean(-1, keepdims=True)
    return x - mean, ((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5


def by_rsqrt(x, scale, shift):
    y, variance = centred(x)
    return y * jax.lax.rsqrt(variance) * scale + shift


def by_sqrt(x, scale, shift):
    y, variance = centred(x)
    return y / jnp.sqrt(variance) * scale + shift


def by_power(x, scale, shift):
    y, variance = centred(x)
    return shift + scale * (y * jnp.power(variance, -0.5))


def by_var(x, scale, shift):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(
        x.var(-1, keepdims=True) + 1e-5
    ) * scale + shift


def in_one_pass(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + shift


def as_keras(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    factor = jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale
    return x * factor + (shift - mean * factor)


def in_halves(x, scale, shift):
    return by_var(x.astype(jnp.float16).astype(jnp.float32), scale, shift).astype(jnp.float16)


SPELLINGS = [by_rsqrt, by_sqrt, by_power, by_var, in_one_pass, as_keras, in_halves]


@pytest.mark.parametrize("function", SPELLINGS, ids=lambda f: f.__name__)
def test_a_layer_norm_is_the_same_however_it_is_written(function, found: Found) -> None:
    (norm,) = found(export(function, TOKENS))
    assert isinstance(norm, Norm)
    assert (norm.sizes, norm.summed, norm.mean, norm.rows) == ((15, 24), (1,), True, (15, 24))
    assert norm.epsilon == pytest.approx(1e-5)
    assert norm.scale is not None
    assert norm.shift is not None
    assert norm.scale.axes == norm.shift.axes == (1,)
    (use,) = norm.value.uses
    assert use.owner.operation.name in ("func.return", "stablehlo.convert")


class LastOfImages(nn.Module):
    """ConvNeXt's and SAM's: over the channels of an image, which come first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(1, 2, 12))
        self.bias = nn.Parameter(torch.linspace(-1, 2, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


@pytest.mark.parametrize(
    ("module", "x", "sizes", "summed", "columns"),
    [
        (nn.LayerNorm((5, 24)), torch.ones(3, 5, 24), (3, 120), (1,), (1,)),
        (nn.RMSNorm(24, 1e-6), torch.ones(3, 5, 24), (15, 24), (1,), (1,)),
        (nn.GroupNorm(4, 12), IMAGE, (2, 4, 3, 35), (2, 3), (1, 2)),
        (nn.GroupNorm(1, 12), IMAGE, (2, 12, 35), (1, 2), (1,)),
        (nn.InstanceNorm2d(12, affine=True), IMAGE, (2, 12, 35), (2,), (1,)),
        (nn.InstanceNorm2d(12), IMAGE, (24, 35), (1,), None),
        (LastOfImages(), IMAGE, (2, 12, 35), (1,), (1,)),
    ],
    ids=["layer", "rms", "group", "one group", "instance", "plain instance", "channels"],
)
def test_torchs_norms_are_read_by_as_few_axes_as_can_be(
    module, x, sizes, summed, columns, found: Found
) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(0.5, 2, parameter.numel()).reshape(parameter.shape))
    (norm,) = found(export(module.eval(), (x,)))
    assert isinstance(norm, Norm)
    assert (norm.sizes, norm.summed) == (sizes, summed)
    assert (None if norm.scale is None else norm.scale.axes) == columns


def by_image(x, scale, shift):
    return by_var(x, 1 + scale[:, None, :], shift[:, None, :])


def test_scales_may_change_from_image_to_image(found: Found) -> None:
    (norm,) = found(export(by_image, (jnp.ones((3, 5, 24)), jnp.ones((3, 24)), jnp.ones((3, 24)))))
    assert isinstance(norm, Norm)
    assert norm.sizes == (3, 5, 24)
    assert norm.scale is not None
    assert norm.scale.axes == (0, 2)


def groups_last(x, scale, shift):
    groups = x.reshape(2, 5, 7, 4, 3)
    mean, variance = (f(groups, (1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
    return ((groups - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale + shift


def test_groups_of_the_last_axis_lie_apart(found: Found) -> None:
    program = export(groups_last, (jnp.ones((2, 5, 7, 12)), jnp.ones(12), jnp.ones(12)))
    (norm,) = found(program)
    assert isinstance(norm, Norm)
    assert (norm.sizes, norm.summed, norm.rows) == ((2, 35, 4, 3), (1, 3), None)


def unbiased(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True, ddof=1) + 1e-5)


def by_length(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


def with_epsilon_outside(x):
    return x / (jnp.sqrt((x * x).mean(-1, keepdims=True)) + 1e-3)


@pytest.mark.parametrize("function", [unbiased, by_length, with_epsilon_outside])
def test_what_is_no_norm_is_said_to_be_none(function, found: Found) -> None:
    (answer,) = found(export(function, (jnp.ones((3, 24)),)))
    assert isinstance(answer, NotANorm)
    assert "root" in answer.reason or "summed" in answer.reason


def test_a_root_of_nothing_that_is_summed_is_passed_over(found: Found) -> None:
    assert found(export(lambda x: x * jax.lax.rsqrt(x * x + 1), (jnp.ones((3, 24)),))) == []


def test_a_norm_ends_where_two_things_use_it(found: Found) -> None:
    def twice(x, scale, shift):
        y = by_var(x, 1.0, 0.0)
        return y * scale, y * shift

    (norm,) = found(export(twice, TOKENS))
    assert isinstance(norm, Norm)
    assert norm.scale is None
    assert norm.shift is None


def test_a_norm_ends_before_a_sum_with_what_is_made_of_it(found: Found) -> None:
    """Else it would be computed twice: once for that, once for the sum."""

    def layer(x, scale, shift):
        y = by_var(x, scale, shift)
        return y + jnp.tanh(y @ jnp.ones((24, 24)))

    (norm,) = found(export(layer, TOKENS))
    assert isinstance(norm, Norm)
    users = {use.owner.operation.name for use in norm.value.uses}
    assert len(list(norm.value.uses)) == 2
    assert "stablehlo.add" in users


def test_a_norm_of_single_elements_is_none(found: Found) -> None:
    def single(x: Any) -> Any:
        apart = x - x.mean(-1, keepdims=True)
        return apart * jax.lax.rsqrt((apart * apart).mean(-1, keepdims=True) + 1e-3)

    assert not [
        each for each in found(export(single, (jnp.ones((100, 1)),))) if isinstance(each, Norm)
    ]
