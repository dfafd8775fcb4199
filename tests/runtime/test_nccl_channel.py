"""Collectives by NCCL's calls, against NumPy; a library in the host's memory stands in for NCCL.

It is written in C after NCCL's header (`host_nccl.c`), loaded as NCCL is, and reads and writes at
the addresses that it is given. What it cannot show is NVIDIA's library and memory.
"""

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Device, DType
from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.errors import DeviceError, MissingExtra
from edgec.runtime.mesh.channel import HostChannel, Silenced
from edgec.runtime.mesh.collectives import collect
from edgec.runtime.mesh.nccl import Nccl
from edgec.runtime.mesh.nccl_channel import NcclChannel, refused
from edgec.runtime.mesh.plan import Collective

URIS = ("local-sync", "local-task", "local-task?threads=2", "local-task?threads=3")
PAIRS = ((0, 2), (3, 1))
ALL = ((1, 0, 3, 2),)
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The stand-in, built."""
    built = tmp_path_factory.mktemp("nccl") / "libhost_nccl.so"
    source = Path(__file__).with_name("host_nccl.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", built, source], check=True)
    return built


def step(kind, groups=PAIRS, **more):
    return Collective(kind=kind, input=0, output=1, groups=groups, **more)


def channel_of(library, *steps):
    driver = ctypes.CDLL(str(library))
    contexts = [CudaContext(number, driver) for number in range(len(URIS))]
    return NcclChannel([Device.open(uri) for uri in URIS], contexts, {}, steps, Nccl(library))


def spoken(channel, one, arrays):
    """What every device gets, each in a thread of its own."""
    with ThreadPoolExecutor(len(URIS)) as pool:
        given = [Device.open(uri).put(array) for uri, array in zip(URIS, arrays, strict=True)]
        futures = [pool.submit(channel.collect, one, n, each) for n, each in enumerate(given)]
        return [np.asarray(future.result()) for future in futures]


STEPS = [
    *(step("all_reduce", operation=name) for name in ("add", "multiply", "maximum", "minimum")),
    step("all_reduce", ALL, operation="add"),
    step("all_gather"),
    step("all_gather", ALL),
    step("reduce_scatter", operation="add"),
    step("reduce_scatter", ALL, operation="maximum"),
    step("all_to_all", ALL),
    step("collective_broadcast"),
    step("collective_permute", ((0, 1), (1, 2), (2, 3), (3, 0))),
    step("collective_permute", ((0, 3), (3, 1))),
]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "i8"])
def test_each_collective_gives_what_numpy_gives(library, dtype):
    channel = channel_of(library, *STEPS)
    assert channel.name == "NCCL 2.27.7"
    for one in STEPS:
        for _ in range(2):  # with buffers that were used before
            arrays = [(RANDOM.standard_normal((4, 3)) * 20).astype(dtype) for _ in URIS]
            wanted = collect(one, arrays)
            for found, right in zip(spoken(channel, one, arrays), wanted, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-5, err_msg=str(one))
    channel.close()
    channel.close()


def test_what_is_not_in_nccl_is_told_apart():
    assert refused(step("all_reduce", operation="xor"), DType.I32)
    assert refused(step("reduce_scatter", operation="add"), DType.I16)
    assert refused(step("all_gather", axis=1), DType.F32)
    assert not refused(step("all_gather"), DType.C128)
    assert not refused(step("all_reduce", operation="add"), DType.BF16)


def test_a_library_that_is_missing_is_named(tmp_path):
    with pytest.raises(MissingExtra, match="NCCL is not here") as caught:
        Nccl(tmp_path / "libnccl.so.2")
    assert "nvidia-nccl-cu12" in (caught.value.hint or "")


def test_a_gpu_that_is_named_twice_is_an_error(library):
    driver = ctypes.CDLL(str(library))
    twice = [CudaContext(0, driver)] * 2
    devices = [Device.open(uri) for uri in URIS[:2]]
    with pytest.raises(DeviceError, match="ncclCommInitAll failed"):
        NcclChannel(devices, twice, {}, [step("all_gather", ((0, 1),))], Nccl(library))


@pytest.mark.parametrize("kind", ["NCCL", "host"])
def test_those_who_wait_for_a_device_that_failed_give_up(library, kind):
    one = step("all_reduce", ALL, operation="add")
    channel = channel_of(library, one) if kind == "NCCL" else HostChannel(len(URIS))
    arrays = [np.full((2, 2), float(n), np.float32) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(channel.collect, one, n, arrays[n]) for n in range(3)]
        channel.abort()
        for each in waiting:
            with pytest.raises(Silenced):
                each.result(timeout=20)
    channel.restore()
    for found in spoken(channel, one, arrays):
        np.testing.assert_array_equal(found, np.full((2, 2), 6.0))
    channel.close()
