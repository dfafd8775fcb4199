"""Calls through memory that a function keeps: what goes in and comes out is still the caller's."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import LoadedModule, load
from edgec.runtime.edgert.prepared import SMALL, PreparedCall
from edgec.runtime.errors import DeviceError, InputError

PROGRAM = """
module @calls {
  util.global private mutable @kept = dense<0.0> : tensor<2x3xf32>
  func.func @keep(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %old = util.global.load @kept : tensor<2x3xf32>
    util.global.store %x, @kept : tensor<2x3xf32>
    return %old : tensor<2x3xf32>
  }
  func.func @twice(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
    return %x, %x : tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func @double(%x: tensor<?xf32>, %n: tensor<i64>) -> (tensor<?xf32>, tensor<i64>) {
    %y = stablehlo.add %x, %x : tensor<?xf32>
    %m = stablehlo.add %n, %n : tensor<i64>
    return %y, %m : tensor<?xf32>, tensor<i64>
  }
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def module(compile_mlir: Callable[..., Path]) -> Iterator[LoadedModule]:
    with load(compile_mlir(PROGRAM), device="edgert://cpu?threads=1") as loaded:
        yield loaded


def test_results_are_the_callers_own(module: LoadedModule) -> None:
    for _ in range(3):  # the second call is the first that knows where results go
        given = X.copy()
        first, second = module.twice(given)
        first += 1
        np.testing.assert_array_equal(second, X)
        second += 2
        np.testing.assert_array_equal(first, X + 1)
        np.testing.assert_array_equal(given, X)


def test_state_keeps_an_argument_that_the_next_call_replaces(module: LoadedModule) -> None:
    np.testing.assert_array_equal(module.keep(X), np.zeros_like(X))
    for number in range(1, 4):
        np.testing.assert_array_equal(module.keep(X + number), X + number - 1)


def test_arrays_of_any_strides_shape_and_size(module: LoadedModule) -> None:
    np.testing.assert_array_equal(module.twice(X.T.copy().T)[0], X)
    np.testing.assert_array_equal(module.twice(X[:, ::-1])[1], X[:, ::-1])
    many = SMALL // X.itemsize
    for size in (3, 1, 0, 3, many, many + 1, 2 * many, 3):
        x = np.arange(size, dtype=np.float32)
        doubled, count = module.double(x, np.int64(size))
        np.testing.assert_array_equal(doubled, x + x)
        assert (count.shape, count.dtype, int(count)) == ((), np.int64, 2 * size)
        assert doubled.flags.writeable
        assert count.flags.writeable


def test_arrays_stand_beside_tensors_by_position_and_by_name(module: LoadedModule) -> None:
    double = module.double
    names = [spec.name for spec in double.signature.inputs]
    here, there = np.ones(5, np.float32), module.device.put(np.full(5, 2, np.float32))
    for x in (here, there, here, there):
        given = dict(zip(names, (x, np.int64(1)), strict=True))
        for result in (double(**given), double(x, **{names[1]: np.int64(1)})):
            np.testing.assert_array_equal(result[0], 2 * np.asarray(x))
        np.testing.assert_array_equal(double.call_flat([x, np.int64(1)])[0].numpy(), result[0])


def test_small_results_on_the_device_are_as_any_other(module: LoadedModule) -> None:
    for _ in range(3):
        first, second = module.twice.on_device(X)
        for _ in range(3):  # through calls, by the array and by the runtime's tensor of it
            np.testing.assert_array_equal(module.twice(first)[1], X)
            np.testing.assert_array_equal(np.from_dlpack(first), X)
            first, _ = module.twice.call_flat([first])
            assert first.view.shape == X.shape
        assert not first.numpy().flags.writeable
        assert not np.shares_memory(first.numpy(), second.numpy())
        kept = second.numpy()
        second.close()
        np.testing.assert_array_equal(kept, X)
        with pytest.raises(DeviceError, match="is closed"):
            module.twice(second)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X, X), {}, "takes 1 arguments and got 2"),
        ((), {}, "needs"),
        ((X,), {"other": X}, "does not take other"),
        ((), {"other": X}, "does not take other and needs"),
        ((None,), {}, "needs|takes one array"),
        (({"x": X},), {}, "takes one array and got dict"),
        ((X.astype(np.float64),), {}, "takes f32 and got f64"),
        ((X.T,), {}, "dimension 0 must be 2"),
    ],
)
def test_wrong_calls_are_refused_after_right_ones(
    module: LoadedModule, args: tuple, kwargs: dict, message: str
) -> None:
    module.twice(X)
    module.twice(X)
    with pytest.raises(InputError, match=message):
        module.twice(*args, **kwargs)
    np.testing.assert_array_equal(module.twice(X)[0], X)


def test_threads_get_the_answers_to_their_own_arguments(module: LoadedModule) -> None:
    wrong: list[float] = []

    def ask(number: int) -> None:
        for step in range(200):
            given = X + 1000 * number + step
            wrong.extend(float(r[0, 0]) for r in module.twice(given) if (r != given).any())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_after_a_reset_and_a_failure_calls_go_on(module: LoadedModule) -> None:
    module.keep(X)
    module.reset()
    np.testing.assert_array_equal(module.keep(X), np.zeros_like(X))
    closed = module.device.put(X)
    closed.view.close()
    with pytest.raises(DeviceError, match="argument 0 must be a tensor"):
        module.twice(closed)
    np.testing.assert_array_equal(module.twice(X)[0], X)
    module.close()
    with pytest.raises(DeviceError, match="is closed"):
        module.twice(X)


def test_a_call_as_before_makes_no_tensors(
    module: LoadedModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.twice(X)
    prepared: list[PreparedCall] = []
    monkeypatch.setattr(PreparedCall, "__init__", lambda self, *_, **__: prepared.append(self))
    monkeypatch.setattr("edgec.runtime.edgert.prepared.EdgertTensor", None)
    np.testing.assert_array_equal(module.twice(X)[0], X)
    assert prepared == []
