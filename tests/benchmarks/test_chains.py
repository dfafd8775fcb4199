"""Chains are drawn by their seed alone, and a wrong answer is told from a right one."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.chains import check
from benchmarks.chains.chain import Chain, drawn
from benchmarks.chains.check import answers, checked, kept, made
from benchmarks.chains.steps import Step
from benchmarks.operators.answers import RIGHT, run_module
from benchmarks.operators.make import Made, load_made


def test_a_seed_gives_one_program() -> None:
    for seed in range(30):
        first, second = drawn(seed), drawn(seed)
        assert first.label == second.label
        for left, right in zip(first.arguments, second.arguments, strict=True):
            np.testing.assert_array_equal(left, right)
        if not first.gradient:
            found = jax.eval_shape(first, *first.arguments)
            assert found[0].shape == first.steps[-1].shape, first.label
    assert len({drawn(seed).label for seed in range(30)}) > 20


def _doubled() -> Chain:
    step = Step(label="doubled", shape=(5,), function=lambda _, x: jnp.sin(x[0]) * 2)
    x = np.arange(5, dtype=np.float32)
    return Chain(seed=0, label="doubled", arguments=(x,), steps=(step,), both=False, gradient=False)


def test_answers_are_xlas() -> None:
    (found,) = answers(_doubled())
    np.testing.assert_allclose(found, 2 * np.sin(np.arange(5)), rtol=1e-6)


@pytest.mark.parametrize(("added", "outcome"), [(0.0, "right"), (0.1, "wrong")])
def test_a_wrong_answer_is_told(
    added: float, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = _doubled()
    expected = [value + np.float32(added) for value in answers(chain)]
    monkeypatch.setattr(check, "answers", lambda _: expected)
    assert checked(chain, "cpu", "edgert://cpu", tmp_path).outcome == outcome


def test_modules_for_a_device_elsewhere_are_joined_with_what_came_of_them(tmp_path: Path) -> None:
    chain = _doubled()
    assert made(chain, "cpu", tmp_path).outcome == "compiled"
    note, inputs, expected = load_made(Made(tmp_path, "0-f32"))
    np.testing.assert_allclose(expected[0], 2 * np.sin(inputs[0]), rtol=1e-6)
    end, _ = run_module(Made(tmp_path, "0-f32").module, "edgert://cpu", inputs, expected, note)
    assert end is RIGHT
    rows = tmp_path / "rows"
    rows.write_text(
        json.dumps({"key": "0-f32", "device": "a GPU", "outcome": "wrong", "reason": "x"})
    )
    (verdict,), device = kept(tmp_path, rows)
    assert (verdict.label, verdict.outcome, device) == ("doubled", "wrong: x", "a GPU")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "device"),
    [
        ("cpu", "edgert://cpu"),
        pytest.param("vulkan", "edgert://vulkan", marks=pytest.mark.vulkan),
    ],
)
def test_twenty_programs_are_right(target: str, device: str, tmp_path: Path) -> None:
    verdicts = [checked(drawn(seed), target, device, tmp_path) for seed in range(20)]
    assert [each for each in verdicts if each.outcome != "right"] == []
