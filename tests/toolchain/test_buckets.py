"""Programs of fixed sizes that filling does not change: each operation, with NaN as the filling."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.batches.plain import plain
from edgec.toolchain.buckets.model import Model, main_of
from edgec.toolchain.buckets.sizes import NotFilled, Size, Two
from edgec.toolchain.buckets.write import write_main
from edgec.toolchain.ir.interpret import Interpreter

_RANDOM = np.random.default_rng(0)
_LARGEST, _OTHER, _FILLED = 31, 18, 29
_WIDTH = 6
_WEIGHTS = _RANDOM.standard_normal((_WIDTH, _WIDTH)).astype(np.float32)
_TABLE = _RANDOM.standard_normal((_LARGEST, _WIDTH)).astype(np.float32)


def _attention(x: Any) -> Any:
    q, k, v = (x @ (_WEIGHTS * scale) for scale in (0.5, 0.25, 1.0))
    mask = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
    scores = jnp.where(mask, q @ k.T, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ v


def _windows(x: Any) -> Any:
    kernel = jnp.asarray(_TABLE[:3, None, :] * np.ones((3, _WIDTH, _WIDTH), np.float32))
    return jax.lax.conv_general_dilated(
        x[None], kernel, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")
    )[0]


def _stepped(x: Any, step: int, pads: tuple[int, int], between: int = 1) -> Any:
    kernel = jnp.asarray(_TABLE[:3, None, :] * np.ones((3, _WIDTH, _WIDTH), np.float32))
    return jax.lax.conv_general_dilated(
        *(x[None], kernel, (step,), (pads,)),
        lhs_dilation=(between,),
        dimension_numbers=("NHC", "HIO", "NHC"),
    )[0]


def _parted(x: Any) -> Any:
    heads = x.reshape(1, x.shape[0], 2, 3).transpose(0, 2, 1, 3)
    return (heads * 2).transpose(0, 2, 1, 3).reshape(x.shape)


def _sliding(x: Any) -> Any:
    places = np.arange(x.shape[0])[:, None] + np.arange(5)
    return (jnp.pad(x, ((2, 2), (0, 0)))[places] * _TABLE[:5]).sum(1)


FINE: dict[str, Callable[[Any], Any]] = {
    "products": lambda x: jnp.tanh(x @ _WEIGHTS),
    "attention": _attention,
    "safe softmax": lambda x: jnp.where(
        jnp.isneginf(x).all(0), 0.0, jax.nn.softmax(jnp.where(x > 3, -jnp.inf, x), 0)
    ),
    "mean over it": lambda x: x - x.mean(0),
    "deviation": lambda x: x * jax.lax.rsqrt(((x - x.mean(0)) * (x - x.mean(0))).mean(0)),
    "least, greatest": lambda x: x.max(0) - x.min(0) + jnp.prod(x, 0),
    "places of the greatest": lambda x: jnp.argmax(x, 0),
    "all, any": lambda x: (x > -9).all(0) | (x > 9).any(0),
    "products of rows": lambda x: x @ x.T,
    "summed outer products": lambda x: x.T @ x,
    "heads": _parted,
    "a table's start": lambda x: x + _TABLE[: x.shape[0]],
    "counted": lambda x: x * jnp.arange(float(x.shape[0]))[:, None],
    "running sums": lambda x: jnp.cumsum(x, 0),
    "windows": _windows,
    "windows by a table": _sliding,
    "greatest of three": lambda x: jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (3, 1), (1, 1), "SAME"
    ),
    "the last": lambda x: x[-1] + x[0],
    "the last three": lambda x: x[-3:] @ _WEIGHTS,
    "one before it": lambda x: jnp.concatenate([_TABLE[:1], x]),
    "one behind it": lambda x: jnp.concatenate([x, _TABLE[:2]]).sum(0),
    "between two of it": lambda x: jnp.concatenate([x, _TABLE[:1], x, x]),
    "padded": lambda x: jnp.pad(x, ((1, 2), (0, 0)), constant_values=3.0).sum(0),
    "padded to a size": lambda x: jnp.pad(x, ((0, 40 - x.shape[0]), (0, 0))) * 2,
    "shifted": lambda x: jnp.concatenate([x[1:], x[:1]]),
    "looked up in it": lambda x: x[jnp.asarray([0, 2, 1])],
    "looked up beyond it": lambda x: jnp.take(x, jnp.asarray([1, 99]), axis=0, mode="clip"),
    "looked up by it": lambda x: jnp.asarray(_TABLE)[x[:, 0].astype(jnp.int32) % 9],
    "one of it": lambda x: jax.lax.dynamic_slice(x, (x[0, 0].astype(jnp.int32) + 99, 0), (1, 6)),
    "written into": lambda x: jax.lax.dynamic_update_slice(x, x[:1] * 0, (99, 0)),
    "by its size": lambda x: x.sum(0) / x.shape[0],
    "sorted within": lambda x: jnp.sort(x, 1)[:, ::-1],
    "a loop beside it": lambda x: (
        x @ jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ _WEIGHTS + i), jnp.asarray(_WEIGHTS))
    ),
    "in bf16": lambda x: (
        (jnp.full(x.shape, 2.0, jnp.bfloat16) * jnp.round(x).astype(jnp.bfloat16))
        .astype(jnp.float32)
        .sum(0)
    ),
    "turned round": lambda x: jnp.concatenate([x.T, x.T], 0),
    "every second": lambda x: x[::2] @ _WEIGHTS,
    "every second, after one": lambda x: x[1::2].mean(0),
    "every third of every second": lambda x: x[:, ::2][::2][::3] * 2,
    "windows in steps": lambda x: _stepped(x, 2, (1, 1)),
    "windows in steps of steps": lambda x: _stepped(_stepped(x, 2, (1, 1)), 2, (0, 2)).sum(0),
    "windows between elements": lambda x: _stepped(x, 1, (1, 2), between=3),
    "windows in steps between elements": lambda x: _stepped(x, 2, (2, 2), between=4),
    "the greatest in steps": lambda x: jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (3, 1), (2, 1), ((1, 1), (0, 0))
    ),
    "words of windows in steps": lambda x: _attention(_stepped(x, 2, (1, 1))),
    "counted in steps": lambda x: x[::2] * jnp.arange(float(x[::2].shape[0]))[:, None],
    "parted in steps": lambda x: (x[::2].reshape(-1, 3) * 2).reshape(-1, 2, 3).sum((0, 2)),
    "even and odd": lambda x: jnp.concatenate([x[1::2], x[::2]]) - x[::2].sum(0),
    "by its steps": lambda x: x[::2].sum(0) / x[::2].shape[0],
}
REFUSED: dict[str, Callable[[Any], Any]] = {
    "reverse goes along it": lambda x: x[::-1],
    "sort goes along it": lambda x: jnp.sort(x, 0),
    "it is counted together": lambda x: x.T.reshape(-1),
    "the padding of windows follows it": lambda x: jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (3, 1), (2, 1), "SAME"
    ),
    "no window is full": lambda x: _stepped(x, 2, (0, -2)),
    "it goes in steps too large": lambda x: x[::13],
    "steps of 2 go along 3 times it": lambda x: jnp.repeat(x, 3, 0)[::2],
    "nothing is known of while": lambda x: jax.lax.scan(lambda c, row: (c + row, c), x[0], x)[1],
    "a number in it follows the size": lambda x: x * float(x.shape[0] ** 0.5),
    "a table of numbers follows it": lambda x: x * np.hanning(x.shape[0] + 2)[1:-1, None],
    "the program changes with it": lambda x: x + 1 if x.shape[0] > 19 else jnp.tanh(x),
    "nothing is known of fft": lambda x: jnp.abs(jnp.fft.fft(x[:, 0])),
}


def _made(function: Callable[[Any], Any], size: int) -> Any:
    """The module for sizes up to `size`; call within an `ir.Context`."""

    def module(count: int) -> Any:
        lowered = jax.jit(function).lower(jax.ShapeDtypeStruct((count, _WIDTH), jnp.float32))
        return plain(lowered.as_text(), ir.Context.current)

    modules = [module(_LARGEST), module(_OTHER)]
    merged = ir.Module.create()
    model = Model(
        function=main_of(modules[0]),
        twin=main_of(modules[1]),
        two=Two(one=_LARGEST, other=_OTHER),
        least=3,
    )
    write_main(merged, model, [size])
    merged.operation.verify()
    return merged


@pytest.mark.sweep(fast=16)
@pytest.mark.parametrize("name", FINE)
def test_filling_changes_nothing(name: str) -> None:
    x = _RANDOM.standard_normal((_FILLED, _WIDTH)).astype(np.float32)
    with ir.Context(), ir.Location.unknown():
        interpreter = Interpreter(_made(FINE[name], _FILLED))
        for live in (_FILLED, 8, 7, 3):
            filled = np.where(np.arange(_FILLED)[:, None] < live, x, np.nan)
            (got,) = interpreter.call(f"up_to_{_FILLED}", [filled, np.int32(live)])
            wanted = np.asarray(FINE[name](jnp.asarray(x[:live])))
            start = tuple(slice(0, size) for size in wanted.shape)
            np.testing.assert_allclose(got[start], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("why", REFUSED)
def test_what_filling_would_change_is_refused(why: str) -> None:
    with ir.Context(), ir.Location.unknown(), pytest.raises(NotFilled, match=why):
        _made(REFUSED[why], _FILLED)


def test_a_size_is_a_multiple_and_some() -> None:
    two = Two(one=13, other=7)
    assert two.size(27, 15) == Size(each=2, more=1)
    assert two.size(4, 4) == Size(each=0, more=4)
    with pytest.raises(NotFilled):
        two.size(20, 7)
