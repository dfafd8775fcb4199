"""Reductions of integers for CUDA and ROCm that begin with a number that changes nothing."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions, Program
from edgec.toolchain.passes.legalise.neutral_numbers import NeutralNumbers
from tests.toolchain.passes.before_after import rewrite

KINDS = (np.int8, np.int16, np.int32, np.uint8, np.uint32)


def reduced(x):
    return jnp.min(x, 1), jnp.max(x, 1), jnp.bitwise_and.reduce(x, axis=1)


def truths(x):
    return jnp.all(x, 1), jnp.any(x, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_signed_extrema_become_unsigned_and_an_and_an_or(kind: type) -> None:
    program = export(reduced, (np.zeros((3, 40), kind),))
    count, after = rewrite(NeutralNumbers(), program.bytecode)
    signed = np.dtype(kind).kind == "i"
    assert count == (3 if signed else 1)
    unsigned = re.findall(r"stablehlo\.(\w+) \S+ \S+ : tensor<ui\d+>", after)
    assert unsigned == (["minimum", "maximum"] if signed else [])
    assert after.count("applies stablehlo.or") == 1
    assert after.count("stablehlo.xor") == (6 if signed else 0)


def test_columns_in_steps_compile_for_cuda(tmp_path: Path) -> None:
    """What is reduced in chunks has a barrier behind it, which knows no unsigned types."""
    program = export(lambda x: (x.max(0), x.min(0)), (np.zeros((4096, 5), np.int32),))
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    assert toolchain.compile(program, "cuda:sm_90", options).path.exists()


def test_all_is_turned_about_and_any_stays() -> None:
    program = export(truths, (np.zeros((3, 40), bool),))
    count, after = rewrite(NeutralNumbers(), program.bytecode)
    assert count == 1
    assert len(re.findall(r"applies stablehlo\.or across", after)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_instead_is_the_same(kind: type, tmp_path: Path) -> None:
    """On the CPU, which begins right either way."""
    ends = np.iinfo(kind)
    x = np.random.default_rng(2).integers(ends.min, ends.max, (5, 70), kind, endpoint=True)
    x[1], x[2], x[3, 0], x[3, 1] = 9, x[2] | (ends.min or 1), ends.min, ends.max
    _, after = rewrite(NeutralNumbers(), export(reduced, (x,)).bytecode)
    (tmp_path / "case.mlir").write_text(after)
    options = CompileOptions(output=tmp_path / "case.vmfb", check=False)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu", options)) as loaded:
        found = loaded.main(x)
    expected = x.min(1), x.max(1), np.bitwise_and.reduce(x, axis=1)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def code_of(program: Program, target: str, folder: Path, **options: object) -> bytes:
    """A module that is not run, for what stands in it."""
    chosen = CompileOptions(output=folder / "case.vmfb", cache=False, check=False, **options)
    return toolchain.compile(program, target, chosen).path.read_bytes()


@pytest.mark.parametrize("kind", [np.int32, np.int8])
def test_no_warp_begins_with_the_wrong_number(kind: type, tmp_path: Path) -> None:
    """PTX's instructions say with which: without the pass, -1 for a minimum, 0 for a maximum."""
    program = export(lambda x: (jnp.min(x), jnp.max(x)), (np.zeros(4096, kind),))

    def begun(**options: object) -> list[bytes]:
        code = code_of(program, "cuda:sm_90", tmp_path, **options)
        return re.findall(rb"(?:min|max)\.s\d+ *\t[^;]*, (?:-1|0);", code)

    assert begun() == []
    assert begun(disabled=("neutral-numbers",)) != []


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_no_subgroup_begins_with_the_wrong_number(kind: type, tmp_path: Path) -> None:
    """Three subgroups, whose fourth lane is filled up; floats are integers in order here."""
    program = export(lambda x: (jnp.min(x), jnp.max(x)), (np.zeros(96, kind),))

    def signed(**options: object) -> list[bytes]:
        code = code_of(program, "vulkan:nvidia-hopper", tmp_path, **options)
        # OpGroupNonUniformSMin and OpGroupNonUniformSMax, of six words each
        return re.findall(rb"[\x61\x64]\x01\x06\x00", code)

    assert signed() == []
    assert len(signed(disabled=("neutral-numbers",))) == 2
