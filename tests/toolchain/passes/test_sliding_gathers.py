"""Windows that slide over memory: the program before and after, and NumPy's own answers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from iree.compiler import ir
from torch.nn import functional as F  # noqa: N812 - its usual name

from edgec.exporters import export
from edgec.toolchain.ir.interpret import Interpreter
from edgec.toolchain.passes.simplify.few_products import FewProducts
from edgec.toolchain.passes.simplify.sliding_gathers import SlidingGathers
from edgec.toolchain.stablehlo import parse_stablehlo

_RANDOM = np.random.default_rng(0)


def _windows(begins: int, apart: int, size: int, step: int = 1) -> Any:
    return np.arange(begins)[:, None] * apart + np.arange(size) * step


def _jax(function: Callable[[Any], Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def _rewritten(text: str | bytes, *passes: Any) -> tuple[Any, list[int]]:
    """The module after some passes, and what each did; call within an `ir.Context`."""
    module = parse_stablehlo(text, ir.Context.current)
    counts = [each.run(module) for each in passes]
    module.operation.verify()
    return module, counts


WINDOWS = {
    "side by side": _windows(30, 1, 9),
    "by element first": _windows(30, 1, 9).T,
    "frames": _windows(8, 4, 10),
    "frames that end where it ends": _windows(7, 5, 10),
    "apart by no multiple": _windows(7, 3, 4, step=2),
    "some are passed over": _windows(6, 6, 4),
    "all of it in pieces": _windows(5, 8, 8),
    "begins later": _windows(9, 2, 5) + 3,
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_by_a_table_are_slices(name: str) -> None:
    places = WINDOWS[name]
    x = _RANDOM.standard_normal((3, 40, 2)).astype(np.float32)
    with ir.Context():
        module, counts = _rewritten(_jax(lambda x: x[:, places], x), SlidingGathers())
        assert counts == [1]
        assert "stablehlo.gather" not in str(module)
        (got,) = Interpreter(module).call("main", [x])
    np.testing.assert_array_equal(got, x[:, places])


@pytest.mark.parametrize(
    "places",
    [_windows(4, -1, 3) + 5, _windows(4, 1, 3) ** 2, np.array([[0, 1, 2], [4, 5, 6], [9, 10, 11]])],
    ids=["backwards", "squares", "unevenly apart"],
)
def test_other_tables_stay(places: Any) -> None:
    x = _RANDOM.standard_normal((3, 40)).astype(np.float32)
    with ir.Context():
        module, counts = _rewritten(_jax(lambda x: x[:, places], x), SlidingGathers())
        assert counts == [0]
        assert "stablehlo.gather" in str(module)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": (2, 3), "stride": (2, 1), "dilation": (1, 2)},
        {"kernel_size": 4, "stride": 4},
    ],
    ids=["3 x 3", "strides and dilations", "patches"],
)
def test_pytorch_s_unfold_is_slices(options: dict[str, Any]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return F.unfold(x, **options)

    x = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    with ir.Context():
        module, counts = _rewritten(export(Model().eval(), (x,)).bytecode, SlidingGathers())
        assert counts == [1]
        (got,) = Interpreter(module).call("main", [x.numpy()])
    np.testing.assert_array_equal(got, Model()(x).numpy())


def _span(x: Any, weights: Any) -> Any:
    """Windows of 9 over what was turned and padded, weighted for each word and head."""
    length, width = x.shape
    wide = jnp.pad(x.T[None, :, :, None], ((0, 0), (0, 0), (4, 4), (0, 0)))
    seen = wide[0, :, _windows(length, 1, 9), 0]  # length, 9, width
    heads = seen.transpose(0, 2, 1).reshape(-1, width // 2, 9)
    return (heads @ weights[:, :, None]).reshape(length, width)


def test_windows_are_multiplied_where_they_lie() -> None:
    x = _RANDOM.standard_normal((20, 8)).astype(np.float32)
    weights = _RANDOM.standard_normal((40, 9)).astype(np.float32)
    with ir.Context():
        passes = (SlidingGathers(), FewProducts())
        module, counts = _rewritten(_jax(_span, x, weights), *passes)
        assert counts == [1, 1]
        text = str(module)
        assert "stablehlo.concatenate" not in text
        assert "stablehlo.dot_general" not in text
        (got,) = Interpreter(module).call("main", [x, weights])
    padded = np.pad(x, ((4, 4), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, 9, 0)
    by_word = weights.reshape(20, 2, 9).repeat(4, 1)
    np.testing.assert_allclose(got, (seen * by_word).sum(-1), rtol=1e-5, atol=1e-5)
