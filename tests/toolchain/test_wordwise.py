"""Kernels with bytes, where the device has words alone: equal to NumPy, and valid SPIR-V."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.vulkan.software import drivers
from edgec import toolchain
from edgec.exporters import export
from edgec.runtime.vmfb import parse
from edgec.toolchain.program import Program
from edgec.toolchain.webgpu.opcodes import Op
from edgec.toolchain.wordwise.code import read
from edgec.toolchain.wordwise.kernel import has_bytes, in_words
from edgec.toolchain.wordwise.modules import MARK
from tests.c.shim import behind, built

Array = Any

CALL = """
import json, sys
import numpy as np
from edgec import runtime
given = np.load(sys.argv[2])
with runtime.load(sys.argv[1], device="edgert://vulkan") as module:
    answers = module.main(*(given[f"arr_{i}"] for i in range(len(given.files))))
answers = answers if isinstance(answers, (tuple, list)) else [answers]
np.savez(sys.argv[3], *map(np.asarray, answers))
"""


def masks(xp: Any, x: Array, y: Array, m: Array) -> tuple[Array, ...]:
    """Comparisons that are stored, combined, chosen by and reduced."""
    less = x < y
    return (less & m, xp.where(m ^ less, x, y), ~m, less.any(axis=1), m.sum(axis=0, dtype=np.int32))


def signed(xp: Any, a: Array, b: Array) -> tuple[Array, ...]:
    """Arithmetic of i8 that wraps, divides, shifts and compares by the sign."""
    return (
        *(a + b, a * b, -a, a >> 2, a << 3, abs(a), xp.minimum(a, b), a > b),
        *(a.astype(np.int32) * 3, a.astype(np.float32) / 2, xp.clip(a, -9, 17)),
        (a.astype(np.int32) * 77).astype(np.int8),
    )


def unsigned(xp: Any, a: Array, b: Array) -> tuple[Array, ...]:
    """The same of u8."""
    return (
        *(a + b, a - b, a // (b | 1), a % (b | 1), a >> 3, a ^ b, ~a, xp.maximum(a, b), a < b),
        *(a.astype(np.int32) - 300, a.astype(np.float32), a.T, xp.concatenate((a, b), axis=1)),
    )


def updated(xp: Any, a: Array, b: Array) -> tuple[Array, ...]:
    """Bytes written into the middle of others, whose words they share."""
    if xp is np:
        a = a.copy()
        a[1:4, 3:6] = b[:3, :3] + 1
        return (a,)
    return (a.at[1:4, 3:6].set(b[:3, :3] + 1),)


CHANCE = np.random.default_rng(0)
FLOATS = [CHANCE.standard_normal((5, 7)).astype(np.float32) for _ in range(2)]
I8 = [CHANCE.integers(-128, 128, (5, 7)).astype(np.int8) for _ in range(2)]
U8 = [CHANCE.integers(0, 256, (5, 7)).astype(np.uint8) for _ in range(2)]
CASES: dict[str, tuple[Callable[..., tuple[Array, ...]], list[Array]]] = {
    "masks": (masks, [*FLOATS, CHANCE.random((5, 7)) < 0.5]),
    "signed": (signed, I8),
    "unsigned": (unsigned, U8),
    "updated": (updated, I8),
}
NAMES = [
    *("masks", "updated"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("signed", "unsigned")),
]


def program_of(name: str) -> Program:
    """A case, from JAX."""
    work, given = CASES[name]
    return export(jax.jit(lambda *values: work(jnp, *values)), tuple(given))


@pytest.fixture(scope="module")
def module_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A case's module."""
    folder = tmp_path_factory.mktemp("modules")

    @functools.cache
    def made(name: str) -> Path:
        path = folder / f"{name}.vmfb"
        options = toolchain.CompileOptions(output=path, check=False)
        toolchain.compile(program_of(name), "vulkan:android", options)
        return path

    return made


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Vulkan that can hide what devices have."""
    return built(tmp_path_factory.mktemp("shim"))


def kernels(module: Path) -> list[bytes]:
    """The SPIR-V in a module that asks for bytes."""
    found = []
    data = module.read_bytes()
    for segment in parse(memoryview(data), "m").segments:
        code = data[segment.offset : segment.offset + segment.size]
        if not segment.code.startswith("vulkan"):
            continue
        at = code.find(b"\x03\x02\x23\x07")
        while at >= 0:
            size = 4 * int.from_bytes(code[at - 4 : at], "little")
            if size and at < code.find(MARK) and has_bytes(code[at : at + size]):
                found.append(code[at : at + size])
            at = code.find(b"\x03\x02\x23\x07", at + 4)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_kernels_in_words_are_valid_and_ask_for_no_bytes(
    name: str, module_of: Callable[[str], Path], tmp_path: Path
) -> None:
    found = kernels(module_of(name))
    assert found
    tool = Path(sys.executable).parent / "spirv-val"
    for code in found:
        made = in_words(code)
        assert not has_bytes(made)
        _, operations = read(made)
        assert all(each.words[1] != 8 for each in operations if each.op == Op.TYPE_INT)
        if tool.is_file():
            (tmp_path / "kernel.spv").write_bytes(made)
            line = (tool, "--target-env", "vulkan1.1", tmp_path / "kernel.spv")
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


def answers(module: Path, given: list[Array], environment: dict[str, str], folder: Path) -> Any:
    """A module's answers in a process with other devices."""
    np.savez(folder / "given.npz", *given)
    line = [sys.executable, "-c", CALL, module, folder / "given.npz", folder / "found.npz"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.load(folder / "found.npz")
    return [found[f"arr_{i}"] for i in range(len(found.files))]


@pytest.mark.vulkan
@pytest.mark.parametrize("device", ["llvmpipe", "llvmpipe without bytes", "SwiftShader"])
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_numpys_with_bytes_and_without(
    name: str, device: str, module_of: Callable[[str], Path], shim: Path, tmp_path: Path
) -> None:
    work, given = CASES[name]
    kind = device.split()[0]
    driver = drivers().get(kind)
    if driver is None:
        pytest.skip(f"there is no {kind}: run scripts/setup")
    hides = device.endswith("bytes")
    environment = behind(shim, features="0") if hides else dict(os.environ)
    environment |= {"VK_DRIVER_FILES": str(driver), "VK_ICD_FILENAMES": str(driver)}
    with np.errstate(over="ignore"):
        wanted = work(np, *given)
    made = answers(module_of(name), given, environment, tmp_path)
    for found, one in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(found, one)
