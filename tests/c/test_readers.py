"""Modules and weights whose bytes an app gives, and bytes that it looks at first."""

import ctypes
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertWeights
from edgec.runtime.edgert.native import ACCEPT, READ, RELEASE, Error, ModuleOptions, Reader
from edgec.runtime.errors import EdgecError, ModuleError
from tests.c.test_weights import TEXT, A, B, C, X, _irpa, _safetensors


class Source:
    """Bytes behind callbacks, which notes what was asked of it."""

    def __init__(self, data: bytes, *, size: int | None = None, fails_at: int = 1 << 30) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []
        self.released = 0
        self.fails_at = fails_at
        self._callbacks = (READ(self._read), RELEASE(self._release))
        self.reader = Reader(None, len(data) if size is None else size, *self._callbacks)

    def _read(self, user: int, offset: int, target: int, count: int) -> int:
        self.asked.append((offset, count))
        if len(self.asked) > self.fails_at or offset + count > len(self.data):
            return 0
        ctypes.memmove(target, self.data[offset : offset + count], count)
        return 1

    def _release(self, user: int) -> None:
        self.released += 1


def _module(library: object, source: Source, **fields: object) -> int:
    """A handle on the module."""
    options = ModuleOptions(size=ctypes.sizeof(ModuleOptions), **fields)
    out, error = ctypes.c_void_p(), Error()
    status = library.module_read(
        ctypes.byref(source.reader), ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)
    )
    library.check(status, error, ModuleError)
    return int(out.value or 0)


def _weights(library: object, source: Source) -> EdgertWeights:
    out, error = ctypes.c_void_p(), Error()
    status = library.weights_read(
        ctypes.byref(source.reader), None, ctypes.byref(out), ctypes.byref(error)
    )
    library.check(status, error, ModuleError)
    made = EdgertWeights.__new__(EdgertWeights)
    super(EdgertWeights, made).__init__(library, out.value)  # without a file
    return made


@pytest.fixture(scope="module")
def path(compile_text: Callable[..., Path]) -> Path:
    """A module that keeps its weights outside."""
    return compile_text(TEXT)


@pytest.mark.parametrize("make", [_safetensors, _irpa])
@pytest.mark.parametrize("driver", ["cpu", "null"])
def test_weights_come_from_a_reader_in_pieces(
    make: Callable[[Path], Path], driver: str, path: Path, library: object, tmp_path: Path
) -> None:
    source = Source(make(tmp_path / "weights").read_bytes())
    weights = _weights(library, source)
    opened = sum(count for _, count in source.asked)
    device = EdgertDevice(driver, library=library)
    module = EdgertModule(path, library=library)
    for _ in range(2):
        session = EdgertSession(module, device, weights=weights)
        if driver == "cpu":
            product, counted = session.call("main", [X])
            bias = B if make is _safetensors else np.full(6, 0.25, np.float32)
            np.testing.assert_allclose(product, X @ A + bias, rtol=1e-6)
            np.testing.assert_array_equal(counted, 2 * C)
        session.close()
    assert len(source.asked) > 2
    # Each session asks for what it takes, and nothing for what it does not.
    taken = sum(count for _, count in source.asked) - opened
    assert taken == 2 * (A.nbytes + C.nbytes + (B.nbytes if make is _safetensors else 0))
    assert source.released == 0
    weights.close()
    assert source.released == 1


@pytest.mark.parametrize("make", [_safetensors, _irpa])
def test_a_reader_that_fails_is_a_status(
    make: Callable[[Path], Path], path: Path, library: object, tmp_path: Path
) -> None:
    data = make(tmp_path / "weights").read_bytes()
    module = EdgertModule(path, library=library)
    device = EdgertDevice(library=library)
    outcomes = set()
    for fails_at in range(8):
        source = Source(data, fails_at=fails_at)
        try:
            weights = _weights(library, source)
            EdgertSession(module, device, weights=weights).close()
            outcomes.add("")
        except EdgecError as error:
            assert "cannot be read" in error.what
            outcomes.add("failed")
        else:
            weights.close()
        if source.released == 0:
            weights.close()
        assert source.released == 1
    assert outcomes == {"", "failed"}


@pytest.mark.parametrize("size", [0, 7, 8, 9, 100, 1 << 40])
def test_a_reader_of_another_size_is_refused(size: int, library: object, tmp_path: Path) -> None:
    data = _safetensors(tmp_path / "weights").read_bytes()
    source = Source(data[:size], size=size)
    if size > len(data):  # what is behind the end is asked for by nobody
        _weights(library, source).close()
    else:
        with pytest.raises(EdgecError, match=r"cut short|lies outside|JSON"):
            _weights(library, source)
    assert source.released == 1


def test_a_module_comes_from_a_reader(path: Path, library: object) -> None:
    data = path.read_bytes()
    source = Source(data)
    module = _module(library, source)
    assert library.module_function_count(module) == 1
    assert (source.released, source.asked) == (1, [(0, len(data))])
    library.module_release(module)
    for wrong, said in (
        (Source(data, fails_at=0), "io|cannot be read"),
        (Source(data[:-1], size=len(data)), "cannot be read"),
        (Source(b""), "no module"),
        (Source(data, size=1 << 60), "out of memory"),
    ):
        with pytest.raises(EdgecError, match=said):
            _module(library, wrong)
        assert wrong.released == 1
    with pytest.raises(EdgecError, match="more than it may"):
        _module(library, Source(data), max_bytes=len(data) - 1)


def test_an_app_compares_bytes_with_a_hash_of_its_own(path: Path, library: object) -> None:
    data = path.read_bytes()
    wanted = hashlib.sha256(data).digest()

    def accept(user: int, address: int, size: int) -> int:
        return hashlib.sha256(ctypes.string_at(address, size)).digest() == wanted

    look = ACCEPT(accept)
    library.module_release(_module(library, Source(data), accept=look))
    changed = data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]
    with pytest.raises(ModuleError, match="does not accept"):
        _module(library, Source(changed), accept=look)
