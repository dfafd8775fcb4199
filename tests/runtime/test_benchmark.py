"""Times that are plausible and add up; profiles that name the kernels."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Device, Dim, DType, Signature, TensorSpec, bench, profile
from edgec.runtime.benchmark import example_inputs
from edgec.runtime.errors import InputError, UsageError

Make = Callable[..., Path]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_benchmark_measures(mixed_module: Make, device: Device, threads: int) -> None:
    path = mixed_module(device.runs)
    result = bench(path, function="product", device=device, seconds=0.1, threads=threads)
    assert (result.function, result.device, result.threads) == ("product", device.uri, threads)
    assert 0 < result.minimum <= result.p50 <= result.p90 <= result.p99
    assert result.load > 0
    assert result.first > 0
    assert result.calls >= 3 * threads
    assert result.throughput <= threads / result.minimum
    assert result.peak_rss > 10_000_000
    assert json.loads(json.dumps(result.to_json()))["p50"] == result.p50


def test_the_number_of_calls_can_be_fixed(mixed_module: Make) -> None:
    assert bench(mixed_module(), seconds=60, max_calls=7, warmup=0).calls == 7


def test_a_benchmark_refuses_nonsense(mixed_module: Make) -> None:
    for bad in ({"seconds": 0}, {"threads": 0}, {"max_calls": 0}, {"warmup": -1}):
        with pytest.raises(UsageError):
            bench(mixed_module(), **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no function 'nowhere'"):
        bench(mixed_module(), function="nowhere")


def test_an_error_in_a_thread_is_raised(mixed_module: Make) -> None:
    with pytest.raises(InputError, match="takes f32 and got i64"):
        bench(mixed_module(), function="same", inputs=[np.zeros(16, np.int64)], threads=2)


def test_example_inputs_fit_the_signature() -> None:
    batch = Dim(name="batch", minimum=2, maximum=8)
    specs = [TensorSpec(name=dtype.value, shape=(batch, 3), dtype=dtype) for dtype in DType]
    for spec, array in zip(specs, example_inputs(Signature.flat("f", specs, [])), strict=True):
        assert array.dtype == spec.dtype.numpy
        spec.check(array.shape, {})


def test_a_profile_names_the_kernels(mixed_module: Make, device: Device) -> None:
    result = profile(mixed_module(device.runs), function="product", device=device, calls=3)
    assert result.dispatches
    assert any("product_dispatch" in dispatch.name for dispatch in result.dispatches)
    totals = [dispatch.total for dispatch in result.dispatches]
    assert totals == sorted(totals, reverse=True)
    assert result.total == pytest.approx(sum(totals))
    for dispatch in result.dispatches:
        assert dispatch.count >= 3
        assert 0 < dispatch.minimum <= dispatch.mean <= dispatch.maximum
        assert dispatch.total == pytest.approx(dispatch.mean * dispatch.count, rel=1e-3)
    json.dumps(result.to_json())


def test_edgert_counts_each_kernel_once_a_call(mixed_module: Make) -> None:
    result = profile(mixed_module(), function="product", device="edgert://cpu", calls=5)
    assert {dispatch.count % 5 for dispatch in result.dispatches} == {0}
    assert result.elapsed is not None
    assert 0 < result.total <= result.elapsed


def test_where_edgert_is_not_iree_profiles(
    mixed_module: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = ("edgert://nowhere", "local-task")
    monkeypatch.setattr("edgec.runtime.profiling.device_choices", lambda _: choices)
    assert profile(mixed_module(), calls=1).device == "local-task"


def test_a_function_without_kernels_has_an_empty_profile(mixed_module: Make) -> None:
    assert profile(mixed_module(), function="same", calls=1).dispatches == ()


def test_a_profile_takes_weights_and_threads(stateful_module: Make, tmp_path: Path) -> None:
    result = profile(stateful_module(), device="local-task?threads=1", calls=2)
    assert result.device == "local-task?threads=1"
    by_edgert = profile(stateful_module(), device="edgert://cpu?threads=1", calls=2)
    assert by_edgert.device == "edgert://cpu?threads=1"
    moves = {"copy", "fill", "update"}
    names = [{d.name for d in found.dispatches} - moves for found in (result, by_edgert)]
    assert names[0] == names[1]
    with pytest.raises(UsageError):
        profile(stateful_module(), calls=0)
