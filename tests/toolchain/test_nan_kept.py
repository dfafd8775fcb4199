"""Kernels for Vulkan say that NaN may be there, and are SPIR-V all the same."""

import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.files import read_bytes
from edgec.runtime.vmfb import parse
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.nan_kept import keeping_nan, keeping_nan_in_place
from edgec.toolchain.spirv_words import operations
from edgec.toolchain.vulkan_executables import FORMAT, codes, opened

NAME, ENTRY, MODE, CAPABILITY = 5, 15, 16, 17
KEEPS = 4461


def network(x, w):
    """Kernels of edgec's own and of the compiler's."""
    return jax.nn.softmax(jnp.tanh(x @ w), -1), jnp.max(x, 0)


def kernels(path: Path) -> list[bytes]:
    data = read_bytes(path)
    found = []
    for segment in parse(memoryview(data), path.name).segments:
        if segment.code == FORMAT:
            content = bytes(data[segment.offset : segment.offset + segment.size])
            found += codes(content, opened(content))
    return found


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 128)))
    output = tmp_path_factory.mktemp("nan") / "case.vmfb"
    return toolchain.compile(export(network, (x, w)), "vulkan", CompileOptions(output=output)).path


def marked(code: bytes) -> bool:
    found = list(operations(code))
    entries = [words[1] for op, words in found if op == ENTRY]
    modes = [words for op, words in found if op == MODE and words[1] == KEEPS]
    return modes == [(entry, KEEPS, 32) for entry in entries]


def without(code: bytes) -> bytes:
    """A kernel as it was before."""
    words = np.frombuffer(code, np.uint32)
    kept, at = [words[:5]], 5
    while at < len(words):
        size, op = int(words[at] >> 16), int(words[at] & 0xFFFF)
        is_mode = op == MODE and words[at + 2] == KEEPS
        is_capability = op == CAPABILITY and words[at + 1] == 4466
        is_extension = op == 10 and b"float_controls" in words[at : at + size].tobytes()
        if not (is_mode or is_capability or is_extension):
            kept.append(words[at : at + size])
        at += size
    return np.concatenate(kept).tobytes()


def test_every_kernel_has_the_mode(module: Path) -> None:
    found = kernels(module)
    assert len(found) > 2
    assert all(map(marked, found))


@pytest.mark.parametrize("room", [0, 2, 3, 200])
def test_in_place_they_are_as_long_as_before(module: Path, room: int, tmp_path: Path) -> None:
    """Whatever number of words the names leave, what is written is valid SPIR-V."""
    found = tools()
    assert found is not None
    validator = str(Path(found.optimiser).with_name("spirv-val"))
    for code in kernels(module):
        plain = without(code)
        grown = keeping_nan(plain)
        needed = (len(grown) - len(plain)) // 4
        entry = next(words[1] for op, words in operations(plain) if op == ENTRY)
        # Names of so many words in all, where names stand: before decorations.
        bare = [each for each in operations(plain) if each[0] != NAME]
        place = next(n for n, (op, _) in enumerate(bare) if op > CAPABILITY)
        size = needed + room - 2
        bare.insert(place, (NAME, (entry, *[0x61616161] * (size - 1), 0)))
        words = [word for op, given in bare for word in ((len(given) + 1) << 16 | op, *given)]
        before = plain[:20] + np.array(words, np.uint32).tobytes()
        after = keeping_nan_in_place(before)
        assert after is not None
        assert len(after) == len(before)
        assert marked(after)
        for each in (grown, after):
            (tmp_path / "kernel.spv").write_bytes(each)
            subprocess.run(
                [validator, "--target-env", "vulkan1.1", tmp_path / "kernel.spv"],
                env=dict(found.environment),
                check=True,
            )
        assert keeping_nan_in_place(after) is None
        assert keeping_nan(after) == after


def test_without_room_a_kernel_stays(module: Path) -> None:
    bare = without(kernels(module)[0])
    words = [each for each in operations(bare) if each[0] != NAME]
    flat = [word for op, given in words for word in ((len(given) + 1) << 16 | op, *given)]
    assert keeping_nan_in_place(bare[:20] + np.array(flat, np.uint32).tobytes()) is None


@pytest.mark.vulkan
def test_answers_have_nan_where_numpy_has(module: Path) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 128)))
    x[3, 5] = np.nan
    with runtime.load(module) as loaded:
        shares, largest = loaded.main(x, w)
    expected = np.tanh(x @ w)
    expected = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
    np.testing.assert_allclose(shares, expected, rtol=1e-4)
    np.testing.assert_array_equal(largest, x.max(0))
