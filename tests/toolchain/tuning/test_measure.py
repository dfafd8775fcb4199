"""Two modules beside each other: who is faster, who is wrong, who dies."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime.errors import DeviceError, DeviceMissing, EdgecError, WrongAnswer
from edgec.runtime.golden import Golden, GoldenCall
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.tuning.measure import (
    Measured,
    compare_modules,
    device_name,
    record_answers,
    turns,
)
from tests.toolchain.tuning.conftest import Product


class Clock:
    """A clock that only work moves; `noise` slows down every second stretch of ten calls."""

    def __init__(self, noise: float = 1.0) -> None:
        self.now = 0.0
        self.calls = 0
        self.noise = noise

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> Callable[[], None]:
        def call() -> None:
            self.calls += 1
            self.now += seconds * (self.noise if self.calls // 10 % 2 else 1.0)

        return call


def test_a_candidate_that_takes_less_time_is_faster() -> None:
    clock = Clock()
    found = turns(clock.work(1e-3), clock.work(0.9e-3), seconds=1.0, clock=clock)
    assert found.ratio == pytest.approx(0.9)
    assert (found.base, found.candidate) == (pytest.approx(1e-3), pytest.approx(0.9e-3))
    assert found.is_faster


def test_a_hair_is_no_gain() -> None:
    clock = Clock()
    found = turns(clock.work(1e-3), clock.work(0.99e-3), seconds=1.0, clock=clock)
    assert not found.is_faster


def test_a_hopeless_candidate_takes_five_turns() -> None:
    clock = Clock()
    found = turns(clock.work(1e-3), clock.work(2e-3), seconds=1.0, clock=clock)
    assert found.turns == 5
    assert found.ratio == pytest.approx(2.0)


def test_noise_hits_both() -> None:
    clock = Clock(noise=3.0)
    found = turns(clock.work(1e-3), clock.work(1e-3), seconds=2.0, clock=clock)
    assert not found.is_faster


@pytest.mark.parametrize(
    ("turns_taken", "agreeing", "faster"),
    [
        (8, 0.75, False),
        (8, 0.875, True),
        (50, 0.72, True),
        (50, 0.6, False),
        (5, 1.0, False),
        (300, 0.6, True),
    ],
)
def test_few_turns_must_agree_more(turns_taken: int, agreeing: float, faster: bool) -> None:
    found = Measured(ratio=0.9, agreeing=agreeing, base=1, candidate=0.9, turns=turns_taken)
    assert found.is_faster is faster


def test_a_slow_call_is_measured_a_few_times_whatever_the_time() -> None:
    clock = Clock()
    found = turns(clock.work(10.0), clock.work(5.0), seconds=0.1, clock=clock)
    assert found.turns == 8
    assert found.is_faster


def test_a_candidate_with_wrong_answers_is_refused(product: Product, tmp_path: Path) -> None:
    good = compile(product.path).path
    text = product.path.read_text().replace(
        "return %0", "%1 = stablehlo.negate %0 : tensor<12x96xf32>\n  return %1"
    )
    (tmp_path / "wrong.mlir").write_text(text)
    wrong = compile(tmp_path / "wrong.mlir").path
    golden = Golden.path_for(product.path)
    options = {"function": "main", "device": "local-task", "weights": None, "seconds": 0.1}
    same = compare_modules(good, good, golden, **options)
    assert 0.3 < same.ratio < 3
    assert same.turns >= 5
    with pytest.raises(WrongAnswer, match="should be"):
        compare_modules(good, wrong, golden, **options)


def test_a_candidate_that_is_no_module_is_an_error(product: Product, tmp_path: Path) -> None:
    good = compile(product.path).path
    bad = tmp_path / "bad.vmfb"
    bad.write_bytes(b"no module at all")
    golden = Golden.path_for(product.path)
    with pytest.raises(EdgecError):
        compare_modules(
            good, bad, golden, function="main", device="local-task", weights=None, seconds=0.1
        )


def test_a_child_that_hangs_is_ended(product: Product) -> None:
    good = compile(product.path).path
    golden = Golden.path_for(product.path)
    with pytest.raises(DeviceError, match="longer than"):
        compare_modules(
            good,
            good,
            golden,
            function="main",
            device="local-task",
            weights=None,
            seconds=60,
            timeout=0.01,
        )


def test_a_module_without_golden_answers_gives_its_own(product: Product, tmp_path: Path) -> None:
    module = compile(product.path, options=CompileOptions(check=False)).path
    answers = tmp_path / "answers.npz"
    record_answers(module, answers, device="local-task", weights=None)
    (call,) = Golden.load(answers).calls
    (again,) = Golden.load(Golden.path_for(product.path)).calls
    weights = np.linalg.lstsq(again.inputs[0], again.outputs[0], rcond=None)[0]
    assert call.signature == "main"
    assert call.outputs[0].shape == (12, 96)
    # Linear as the program is: halves give halves.
    half = GoldenCall(
        signature="main", inputs=(call.inputs[0] / 2,), outputs=(call.outputs[0] / 2,)
    )
    Golden(calls=(half,)).save(tmp_path / "half.npz")
    options = {"function": "main", "device": "local-task", "weights": None, "seconds": 0.1}
    assert compare_modules(module, module, tmp_path / "half.npz", **options).turns >= 5
    assert weights.shape == (64, 96)


def test_a_device_has_a_name_or_is_missing() -> None:
    assert "CPU" in device_name(find("cpu"), None)
    with pytest.raises(DeviceMissing):
        device_name(find("metal"), None)
