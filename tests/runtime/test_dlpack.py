"""DLPack, in from and out to NumPy and PyTorch, on every device."""

import numpy as np
import pytest

from edgec.runtime import ALIGNMENT, Device, DType, aligned_empty
from edgec.runtime.errors import InputError

DTYPES = [dtype for dtype in DType if dtype not in (DType.BF16, DType.C128)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (0, 3), (4, 5)], ids=str)
def test_numpy_reads_and_gives(device: Device, dtype: DType, shape: tuple[int, ...]) -> None:
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
    array = np.array(numbers, dtype.numpy)
    there = device.from_dlpack(array)
    assert there.dtype is dtype
    np.testing.assert_array_equal(there.numpy(), array)
    back = np.from_dlpack(there)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_strides_of_every_kind_are_read(device: Device) -> None:
    base = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    for view in (base.T, base[::-1], base[:, ::2, 1:], base[1:, :, ::-2], base[:, 0]):
        np.testing.assert_array_equal(device.from_dlpack(view).numpy(), view)


def test_aligned_host_memory_is_shared_on_local_devices() -> None:
    device = Device.open("local-sync")
    host = aligned_empty((16,), DType.F32)
    host[:] = 2
    assert host.ctypes.data % ALIGNMENT == 0
    there = device.from_dlpack(host)
    assert np.shares_memory(there.numpy(), host)
    assert np.shares_memory(np.from_dlpack(there), host)


def test_an_export_outlives_the_array(device: Device) -> None:
    out = np.from_dlpack(device.put(np.arange(1000, dtype=np.int64)))
    junk = [device.put(np.zeros(1000, np.int64)) for _ in range(20)]
    np.testing.assert_array_equal(out, np.arange(1000))
    del junk


def test_export_follows_the_protocols_wishes(device: Device) -> None:
    array = device.put(np.ones(4, np.float32))
    assert array.__dlpack_device__() == (1, 0)
    assert (np.from_dlpack(array, copy=True) == 1).all()
    with pytest.raises(BufferError, match="host memory only"):
        array.__dlpack__(dl_device=(2, 0))
    if device.maps_memory:
        assert np.shares_memory(np.from_dlpack(array), array.numpy())
    else:
        with pytest.raises(BufferError, match="needs a copy"):
            array.__dlpack__(copy=False)


def test_torch_tensors_go_in_and_out(device: Device) -> None:
    torch = pytest.importorskip("torch")
    tensors = [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).T,
        torch.ones(3, dtype=torch.bool),
        torch.arange(5, dtype=torch.bfloat16),
        torch.arange(8, dtype=torch.bfloat16)[1::2],
        torch.arange(6, dtype=torch.uint8)[1:],
        torch.tensor(3, dtype=torch.int64),
        torch.zeros(0, 4),
        torch.tensor([1 + 2j, 3]),
    ]
    for tensor in tensors:
        assert torch.equal(torch.from_dlpack(device.from_dlpack(tensor)), tensor)


def test_a_tensor_that_gives_no_memory_says_what_to_do(device: Device) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"gives out no memory[\s\S]*detach"):
        device.from_dlpack(torch.ones(3, requires_grad=True))


def test_functions_take_torch_tensors(device: Device, mixed_module: object) -> None:
    torch = pytest.importorskip("torch")
    from edgec.runtime import load

    with load(mixed_module(device.runs), device=device) as module:  # type: ignore[operator]
        result = module.pair(torch.arange(16.0))
        np.testing.assert_array_equal(result[0], -np.arange(16.0))
        with pytest.raises(InputError, match="takes f32 and got f64"):
            module.pair(torch.arange(16.0, dtype=torch.float64))
