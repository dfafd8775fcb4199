"""A cache in f16: of a program's states those that calls write into, and no others."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import Bundle, Entry, export
from edgec.quantising import Scheme, quantise, quantise_cache, with_weights_as_they_are
from edgec.runtime import load
from edgec.runtime.errors import UsageError, WrongAnswer
from edgec.toolchain import CompileOptions, Program, compile

_PLACES, _WIDTH = 24, 64
_TURN = np.random.default_rng(0).standard_normal((_WIDTH, 3 * _WIDTH)).astype(np.float32) / 8


def _step(state: Any, x: Any) -> Any:
    """One token: its key and value to their places, and what it finds among all so far."""
    q, k, v = jnp.split(x @ _TURN, 3)
    at = state["at"]
    keys = jax.lax.dynamic_update_slice(state["keys"], k[None], (at, 0))
    values = state["values"].at[at].set(v)  # a scatter
    scores = jnp.where(jnp.arange(_PLACES) <= at, keys @ q / 8, -jnp.inf)
    mean = 0.9 * state["mean"] + 0.1 * x  # computed anew from itself: rounded each time, if at all
    state = {"keys": keys, "values": values, "mean": mean, "at": at + 1}
    return state, jax.nn.softmax(scores) @ values + mean


def _peek(state: Any, x: Any) -> Any:
    return state["keys"].sum(0) + state["values"].sum(0) + x


@pytest.fixture(scope="module")
def program() -> Program:
    state = {
        "keys": np.zeros((_PLACES, _WIDTH), np.float32),
        "values": np.ones((_PLACES, _WIDTH), np.float32),
        "mean": np.zeros(_WIDTH, np.float32),
        "at": np.int32(0),
    }
    x = np.random.default_rng(1).standard_normal(_WIDTH).astype(np.float32)
    step = Entry(_step, (x,), name="step", updates_state=True)
    peek = Entry(_peek, (x,), name="peek", reads_state=True)
    return export(Bundle((step, peek), state=state))


def _rounded(steps: list[np.ndarray]) -> list[np.ndarray]:
    """The same in NumPy, keys and values in f16."""
    keys = np.zeros((_PLACES, _WIDTH), np.float16)
    values = np.ones((_PLACES, _WIDTH), np.float16)
    mean, found = np.zeros(_WIDTH, np.float32), []
    for at, x in enumerate(steps):
        q, keys[at], values[at] = np.split(x @ _TURN, 3)
        powers = np.exp(keys[: at + 1].astype(np.float32) @ q / 8)
        mean = 0.9 * mean + 0.1 * x
        found.append(powers / powers.sum() @ values[: at + 1].astype(np.float32) + mean)
    return found


@pytest.mark.parametrize(
    "target", ["cpu", "cpu:x86-64", pytest.param("vulkan", marks=pytest.mark.vulkan)]
)
def test_keys_and_values_are_rounded_once_and_the_module_keeps_halves(
    program: Program, target: str, tmp_path: Path
) -> None:
    found = quantise_cache(with_weights_as_they_are(program), program)
    kinds = {spec.name: spec.dtype.value for spec in found.program.info.states}
    assert kinds == {"keys": "f16", "values": "f16", "mean": "f32", "at": "i32"}
    assert 0 < found.error < 1e-3
    assert str(found.program.info.loss) == "cache in f16"
    saved = found.program.save(tmp_path / "halves.mlirbc")
    module = compile(saved, target, CompileOptions(output=tmp_path / "halves.vmfb"))
    assert module.facts.check.startswith("checked")
    assert {spec.name: spec.dtype.value for spec in module.facts.states} == kinds
    steps = list(np.random.default_rng(2).standard_normal((_PLACES, _WIDTH)).astype(np.float32))
    with load(tmp_path / "halves.vmfb") as loaded:
        answers = [np.asarray(loaded.step(x)) for x in steps]
    np.testing.assert_allclose(answers, _rounded(steps), 2e-3, 2e-3)
    exact = np.asarray(answers) - _rounded(steps)
    assert np.sqrt(np.mean(exact**2)) < 1e-4  # roundings that fall to the other side are few


def test_a_bound_is_kept_and_a_program_without_a_cache_refused(program: Program) -> None:
    with pytest.raises(WrongAnswer, match="cache of f16"):
        quantise_cache(with_weights_as_they_are(program), program, max_error=1e-7)
    x = np.ones((2, 64), np.float32)
    plain = export(lambda x: x @ np.ones((64, 64), np.float32), (x,))
    with pytest.raises(UsageError, match="no cache"):
        quantise_cache(with_weights_as_they_are(plain), plain)


def test_weights_may_be_rounded_before(program: Program) -> None:
    both = quantise_cache(quantise(program, Scheme.parse("int8")), program)
    assert str(both.program.info.loss) == "weights of int8, cache in f16"
    assert both.error > quantise_cache(with_weights_as_they_are(program), program).error
