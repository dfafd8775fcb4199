"""What every device has to do alike: one suite, run on each device that is here."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.runtime import Device, DeviceArray, DType, aligned_empty, load
from edgec.runtime.errors import DeviceError, InputError

Make = Callable[[str], Path]
DTYPES = [dtype for dtype in DType if dtype is not DType.C128]
X = np.arange(4, dtype=np.float32)


def values(dtype: DType, *shape: int) -> np.ndarray:
    """Small numbers of the type, exact in all of them, odd counts of elements welcome."""
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7
    if dtype.numpy.kind == "c":
        return (numbers * (1 - 2j)).astype(dtype.numpy)
    return (numbers % 2 == 1) if dtype is DType.BOOL else numbers.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (5, 3), (33, 7)], ids=str)
def test_arrays_come_back_as_they_went(
    device: Device, dtype: DType, shape: tuple[int, ...]
) -> None:
    array = values(dtype, *shape)
    back = device.put(array).numpy()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


@pytest.mark.sweep(fast=28)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_functions_take_and_give_every_type(
    device: Device, dtype: DType, dtype_module: Make
) -> None:
    array = values(dtype, 5, 3)
    with load(dtype_module(device.runs), device=device) as module:
        np.testing.assert_array_equal(module[f"echo_{dtype.value}"](array), array)
        twice = f"twice_{dtype.value}"
        if twice not in module.signatures:
            return
        expected = ~array if dtype is DType.BOOL else array + array
        result = module[twice](array)
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, expected)


def test_empty_tensors_go_through_functions_that_move_them(
    device: Device, dtype_module: Make
) -> None:
    with load(dtype_module(device.runs), device=device) as module:
        assert module.echo_f32(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_a_product_is_numpys(device: Device, mixed_module: Make) -> None:
    random = np.random.default_rng(7)
    a = random.standard_normal((3, 8), dtype=np.float32)
    b = random.standard_normal((8, 5), dtype=np.float32)
    with load(mixed_module(device.runs), device=device) as module:
        np.testing.assert_allclose(module.product(a, b), a @ b, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(module.product(a[:1], b), a[:1] @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2]])
def test_strided_arrays_are_taken(
    device: Device, mixed_module: Make, make: Callable[[np.ndarray], np.ndarray]
) -> None:
    a = make(np.arange(256, dtype=np.float32).reshape(16, 16))[:8, :8]
    b = np.asfortranarray(np.arange(40, dtype=np.float32).reshape(8, 5))
    assert not b.flags.c_contiguous
    with load(mixed_module(device.runs), device=device) as module:
        np.testing.assert_allclose(module.product(a, b), a @ b, rtol=1e-6)


def test_python_numbers_stand_for_scalars(device: Device, mixed_module: Make) -> None:
    with load(mixed_module(device.runs), device=device) as module:
        assert module.scalar(1.5, 4) == 6.0
        assert module.scalar(2, np.int32(-3)) == -6.0
        np.testing.assert_array_equal(module.same([1.0] * 16), np.ones(16, np.float32))


def test_results_belong_to_the_caller(device: Device, mixed_module: Make) -> None:
    x = aligned_empty((16,), DType.F32)
    x[:] = 3
    with load(mixed_module(device.runs), device=device) as module:
        same = module.same(x)
        first, second = module.pair(x)
        constant = module.nothing()
        same[:] = first[:] = constant[:] = 7
        assert (x == 3).all()
        assert (second == -3).all()
        assert (module.nothing() == 2.5).all()


def test_results_outlive_the_module(device: Device, mixed_module: Make) -> None:
    module = load(mixed_module(device.runs), device=device)
    resident = module.same.on_device(np.ones(16, np.float32))
    host = module.same(np.full(16, 2, np.float32))
    module.close()
    del module
    assert (resident.numpy() == 1).all()
    assert (host == 2).all()


def test_a_slice_of_a_result_keeps_its_memory(device: Device, mixed_module: Make) -> None:
    ones = np.ones((8, 5), np.float32)
    with load(mixed_module(device.runs), device=device) as module:
        slices = []
        for n in range(20):
            result = module.product(np.full((256, 8), n, np.float32), ones)
            slices.append(result[:9])
            del result
    assert (np.array(slices) == 8 * np.arange(20)[:, None, None]).all()


def test_arrays_stay_on_the_device_between_calls(device: Device, stateful_module: Make) -> None:
    with load(stateful_module(device.runs), device=device) as module:
        first = module.step.on_device(X)
        assert isinstance(first["memory"], DeviceArray)
        assert first["memory"].dtype is DType.F32
        assert first["memory"].shape == (4,)
        second = module.scale(first["memory"])
        np.testing.assert_array_equal(second, (1 + X) ** 2)


def test_state_is_kept_reset_read_and_set(device: Device, stateful_module: Make) -> None:
    with load(stateful_module(device.runs), device=device) as module:
        for count in (1, 2, 3):
            result = module.step(X)
            assert result["counter"] == count
            np.testing.assert_array_equal(result["memory"], 1 + count * X)
        state = module.state()
        assert sorted(state) == ["counter", "memory"]
        assert state["counter"] == 3
        module.reset()
        assert module.state()["counter"] == 0
        np.testing.assert_array_equal(module.scale(X), X)
        module.set_state({"memory": 10 * X})
        assert module.state()["counter"] == 0
        np.testing.assert_array_equal(module.scale(X), 10 * X * X)
        module.set_state(state)
        assert module.step(x=X)["counter"] == 4


def test_state_is_a_copy_both_ways(device: Device, stateful_module: Make) -> None:
    with load(stateful_module(device.runs), device=device) as module:
        mine = aligned_empty((4,), DType.F32)
        mine[:] = 5
        module.set_state({"memory": mine})
        mine[:] = -1
        held = module.state()["memory"]
        held[:] = -2
        assert (module.state()["memory"] == 5).all()


def test_an_argument_that_becomes_state_is_copied(device: Device, mixed_module: Make) -> None:
    mine = aligned_empty((16,), DType.F32)
    with load(mixed_module(device.runs), device=device) as module:
        for value in (5, 6, 7):
            mine[:] = value
            module.keep(mine)
            mine[:] = -1
            got = module.kept()
            assert (got == value).all()
            got[:] = -2
            assert (module.kept() == value).all()


def test_each_load_has_a_state_of_its_own(device: Device, stateful_module: Make) -> None:
    path = stateful_module(device.runs)
    with load(path, device=device) as one, load(path, device=device) as other:
        one.step(X)
        one.step(X)
        assert other.step(X)["counter"] == 1


def test_threads_may_share_a_module(device: Device, stateful_module: Make) -> None:
    calls, count = 25, 4
    with load(stateful_module(device.runs), device=device) as module:

        def work() -> list[int]:
            return [int(module.step(X)["counter"]) for _ in range(calls)]

        seen = [number for numbers in run_threads([work] * count) for number in numbers]
        assert sorted(seen) == list(range(1, calls * count + 1))
        np.testing.assert_array_equal(module.state()["memory"], 1 + calls * count * X)


def test_threads_may_load_a_module_each(device: Device, stateful_module: Make) -> None:
    path = stateful_module(device.runs)

    def work() -> int:
        with load(path, device=device) as module:
            return [int(module.step(X)["counter"]) for _ in range(20)][-1]

    assert run_threads([work] * 4) == [20] * 4


def run_threads(tasks: list[Callable[[], Any]]) -> list[Any]:
    """What each task gives, all run at the same time."""
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(task) for task in tasks]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs x"),
        ((X, X), "takes 1 arguments and got 2"),
        ((X.astype(np.float64),), "x takes f32 and got f64"),
        ((X[:3],), r"x takes f32\[4\] and got shape \(3\)"),
        ((X[None],), "rank 1 is needed"),
        ((["a"] * 4,), "x takes f32 and got 'a'"),
        (([True] * 4,), "x takes f32 and got True"),
        (([[1.0], [2.0, 3.0]],), "do not fit"),
        ((object(),), "x takes f32 values and got object"),
        (([1e300] * 4,), "beyond its range"),
    ],
)
def test_wrong_inputs_name_the_argument(
    device: Device, stateful_module: Make, arguments: tuple[object, ...], message: str
) -> None:
    with load(stateful_module(device.runs), device=device) as module:
        with pytest.raises(InputError, match=message):
            module.step(*arguments)
        assert module.step(X)["counter"] == 1


def test_wrong_names_are_refused(device: Device, stateful_module: Make) -> None:
    with load(stateful_module(device.runs), device=device) as module:
        with pytest.raises(InputError, match="does not take y and needs x"):
            module.step(y=X)
        with pytest.raises(InputError, match="has no function 'main'"):
            module["main"]
        with pytest.raises(AttributeError, match="main"):
            _ = module.main
        with pytest.raises(InputError, match="has no state weights"):
            module.set_state({"weights": X})
        with pytest.raises(InputError, match="memory takes f32"):
            module.set_state({"memory": np.arange(4)})


def test_named_sizes_must_agree(device: Device, mixed_module: Make) -> None:
    with (
        load(mixed_module(device.runs), device=device) as module,
        pytest.raises(InputError, match="dimension 1 must be 8"),
    ):
        module.product(np.zeros((2, 7), np.float32), np.zeros((8, 5), np.float32))


def test_arrays_of_another_device_are_refused(device: Device, mixed_module: Make) -> None:
    other = Device.open("local-task" if device.driver == "local-sync" else "local-sync")
    with (
        load(mixed_module(device.runs), device=device) as module,
        pytest.raises(InputError, match=f"input0 is on {other.uri} and the module is on"),
    ):
        module.same(other.put(np.ones(16, np.float32)))


def test_a_closed_module_says_so(device: Device, stateful_module: Make) -> None:
    module = load(stateful_module(device.runs), device=device)
    step = module.step
    module.close()
    module.close()
    for use in (lambda: step(X), module.state, module.reset):
        with pytest.raises(DeviceError, match="is closed"):
            use()


def test_a_closed_array_says_so(device: Device) -> None:
    array = device.put(X)
    view = array.numpy()
    array.close()
    assert (view == X).all()
    with pytest.raises(DeviceError, match=r"f32\[4\] on .* is closed"):
        array.numpy()


def test_arrays_do_not_change_through_their_views(device: Device) -> None:
    array = device.put(X)
    view = array.numpy()
    if not view.flags.writeable:
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
    else:
        view[0] = 1
    assert (array.numpy() == X).all()
