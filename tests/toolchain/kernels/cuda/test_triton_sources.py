"""The Triton sources compute what they should, by Triton's interpreter, and compile to PTX."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain.cache import Cache
from edgec.toolchain.kernels.cuda import c_compiler, prebuilt, usual
from edgec.toolchain.kernels.cuda.c_compiler import find_in_c
from edgec.toolchain.kernels.cuda.library import Library
from edgec.toolchain.kernels.cuda.placing import place_kernels
from edgec.toolchain.kernels.cuda.triton_compiler import (
    TritonCompiler,
    compile_variant,
    has_triton,
)
from edgec.toolchain.kernels.cuda.variants import Variant
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined

pytestmark = pytest.mark.skipif(not has_triton(), reason="Triton is not here (edgec[cuda])")


def interpreted(step: int) -> dict[str, float]:
    """How far off each kernel is by the interpreter, or every `step`th of them."""
    script = Path(__file__).with_name("interpreted.py")
    finished = subprocess.run(
        [sys.executable, script, "", str(step)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_kernels_compute_what_the_program_does(step: int) -> None:
    # tf32 is rounded to nearest, to 11 bits; the interpreter cuts what is stored as bf16.
    limits = {"f32": 5e-6, "tf32": 5e-4, "bf16": 6e-3}
    errors = interpreted(step)
    wrong = {n: e for n, e in errors.items() if not e < limits.get(n.partition(":")[0], 1e-3)}
    assert all(e > 5e-5 for n, e in errors.items() if n.startswith("tf32:"))
    assert len(errors) > 60 / step
    assert not wrong


@pytest.mark.slow
def test_sorts_are_those_of_pytorch() -> None:
    finished = subprocess.run(
        [sys.executable, Path(__file__).with_name("ordered.py")],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    found = json.loads(finished.stdout.splitlines()[-1])
    assert len(found) > 30
    assert not [name for name, wrong in found.items() if wrong]


def variants(text: str, target: str, *, folds: bool) -> list[Variant]:
    """The kernels that a program needs."""

    class Asked:
        def __init__(self) -> None:
            self.folds = folds
            self.variants: list[Variant] = []

        def find(self, variant: Variant) -> Binary:
            self.variants.append(variant)
            return Binary(name=variant.symbol, data=b"ptx", threads=32, shared=0)

    with ir.Context(), ir.Location.unknown():
        asked, module = Asked(), ir.Module.parse(text)
        place_kernels(module, Library(module, find(target).gpu, asked))
        return asked.variants


def product(m: int, n: int, k: int, element: str) -> str:
    x, w, y = (f"tensor<{a}x{b}x{element}>" for a, b in ((m, k), (k, n), (m, n)))
    return f"""
func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
  return %0 : {y}
}}"""


PARTS = ((128, 768, 3072), "f16", True)
UNEVEN = ((64, 256, 250), "bf16", False)  # no multiple of 8 inside
WIDE = ((40, 264, 128), "f32", True)
COPIED = ((4096, 4096, 64), "f16", True)  # by descriptor on Hopper


@pytest.mark.parametrize(
    ("target", "size", "element", "folds"),
    [
        ("cuda", *UNEVEN),
        ("cuda", *WIDE),
        ("cuda:sm_90", *PARTS),
        ("cuda:sm_90", *COPIED),
        pytest.param("cuda", *PARTS, marks=pytest.mark.slow),
        pytest.param("cuda", *COPIED, marks=pytest.mark.slow),
        pytest.param("cuda:sm_90", *UNEVEN, marks=pytest.mark.slow),
        pytest.param("cuda:sm_90", *WIDE, marks=pytest.mark.slow),
    ],
)
def test_the_assembler_takes_what_triton_writes(tmp_path, target, size, element, folds) -> None:
    from triton import knobs

    (variant,) = variants(product(*size, element), target, folds=folds)
    ptx, facts = compile_variant(variant)
    path = tmp_path / "kernel.ptx"
    path.write_bytes(ptx)
    text = ptx.decode()
    kinds = re.findall(r"\.param \.(\w+)", text.split(".visible .entry")[1].split(")")[0])
    pointers = sum(kind[0] == "*" for _, kind in variant.types) + (facts["scratch"] > 0)
    assert kinds == ["u64"] * pointers + ["u32"] * (len(kinds) - pointers)
    assert f".entry edgec_{variant.symbol}(" in text
    assert facts["shared"] <= find(target).gpu.shared_memory
    assembler = knobs.nvidia.ptxas.path
    command = [assembler, f"--gpu-name={variant.family}", str(path), "-o", str(tmp_path / "out")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


ROW_BY_BLOCKS = """
func.func @main(%x: tensor<1x1024xf32>, %codes: tensor<70x1024xi8>, %scale: tensor<70x32xf16>)
    -> tensor<1x70xf32> {
  %0 = stablehlo.convert %codes : (tensor<70x1024xi8>) -> tensor<70x1024xf32>
  %1 = stablehlo.reshape %0 : (tensor<70x1024xf32>) -> tensor<70x32x32xf32>
  %2 = stablehlo.convert %scale : (tensor<70x32xf16>) -> tensor<70x32xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<70x32xf32>) -> tensor<70x32x32xf32>
  %4 = stablehlo.multiply %1, %3 : tensor<70x32x32xf32>
  %5 = stablehlo.reshape %4 : (tensor<70x32x32xf32>) -> tensor<70x1024xf32>
  %6 = stablehlo.dot_general %x, %5, contracting_dims = [1] x [1]
    : (tensor<1x1024xf32>, tensor<70x1024xf32>) -> tensor<1x70xf32>
  return %6 : tensor<1x70xf32>
}"""
ONE_QUERY = """
func.func @main(%q: tensor<4x1x64xf32>, %k: tensor<4x300x64xf32>, %v: tensor<4x300x64xf32>)
    -> tensor<4x1x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %s = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2]
    : (tensor<4x1x64xf32>, tensor<4x300x64xf32>) -> tensor<4x1x300xf32>
  %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [2]
    : (tensor<4x1x300xf32>, tensor<f32>) -> tensor<4x1xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x1x300xf32>
  %d = stablehlo.subtract %s, %mb : tensor<4x1x300xf32>
  %e = stablehlo.exponential %d : tensor<4x1x300xf32>
  %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2]
    : (tensor<4x1x300xf32>, tensor<f32>) -> tensor<4x1xf32>
  %tb = stablehlo.broadcast_in_dim %t, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x1x300xf32>
  %p = stablehlo.divide %e, %tb : tensor<4x1x300xf32>
  %o = stablehlo.dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<4x1x300xf32>, tensor<4x300x64xf32>) -> tensor<4x1x64xf32>
  return %o : tensor<4x1x64xf32>
}"""


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_90"])
@pytest.mark.parametrize("text", [ROW_BY_BLOCKS, ONE_QUERY])
def test_the_assembler_takes_what_clang_writes(tmp_path, target, text) -> None:
    from triton import knobs

    (variant,) = variants(text, target, folds=True)
    assert variant.is_c
    binary = find_in_c(variant, Cache(folder=tmp_path / "cache"))
    assert isinstance(binary, Binary)
    assert f".entry edgec_{variant.symbol}(".encode() in binary.data
    assert 0 < binary.shared <= find(target).gpu.shared_memory
    assert (b".reqnctapercluster" in binary.data) == (target != "cuda" and text is ONE_QUERY)
    assert b"griddepcontrol" in binary.data or target == "cuda"
    path = tmp_path / "kernel.ptx"
    path.write_bytes(binary.data)
    command = [knobs.nvidia.ptxas.path, f"--gpu-name={variant.family}", str(path)]
    command += ["-o", str(tmp_path / "out")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert find_in_c(variant, Cache(folder=tmp_path / "cache")) == binary


@pytest.mark.parametrize("computed", ["", "codes", "scale", "factors"])
def test_what_an_earlier_kernel_may_compute_is_not_read_before_it_has_ended(computed) -> None:
    known = {
        "codes": np.arange(70 * 1024, dtype=np.int64).reshape(70, 1024).astype(np.int8),
        "scale": np.linspace(-1, 1, 70 * 32, dtype=np.float16).reshape(70, 32),
        "factors": np.linspace(1, 2, 1024, dtype=np.float32),
    }

    def row(x, given):
        codes, scale, factors = (
            given if n == computed else jnp.asarray(a) for n, a in known.items()
        )
        y = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * factors
        weights = codes.astype(jnp.float32).reshape(70, 32, 32) * scale[..., None].astype(
            jnp.float32
        )
        return y @ weights.reshape(70, 1024).T

    x = jax.ShapeDtypeStruct((1, 1024), jnp.float32)
    lowered = jax.jit(row, keep_unused=True).lower(x, known[computed or "factors"])
    (variant,) = variants(str(lowered.compiler_ir("stablehlo")), "cuda:sm_90", folds=True)
    facts = dict(variant.constants)
    assert (variant.source, facts["NORMED"]) == ("block_digits", 1)
    assert facts["EARLY"] == (1 if computed else 2)


def test_without_clang_triton_has_a_kernel_for_each_of_those_in_c(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(c_compiler, "has_ziglang", lambda: False)
    for text, source in ((ROW_BY_BLOCKS, "block_rows"), (ONE_QUERY, "attention")):
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            library = Library(
                module, find("cuda:sm_90").gpu, TritonCompiler(Cache(folder=tmp_path))
            )
            place_kernels(module, library)
            assert [launch.source for launch in library.launches] == [source]


def test_a_kernel_is_compiled_once(tmp_path) -> None:
    cache = Cache(folder=tmp_path)
    (variant,) = variants(product(64, 256, 64, "f16"), "cuda", folds=True)
    first = TritonCompiler(cache).find(variant)
    count, _ = cache.usage()
    assert count == 1
    assert TritonCompiler(cache).find(variant) == first


def test_the_entry_of_a_kernel_is_called_as_its_binary_whatever_is_in_the_cache(tmp_path) -> None:
    compiler = TritonCompiler(Cache(folder=tmp_path))
    (variant,) = variants(product(64, 256, 64, "f16"), "cuda", folds=True)
    for each in (variant, replace(variant, name="product_of_another_name")):
        binary = compiler.find(each)
        assert isinstance(binary, Binary)
        entries = re.findall(r"\.entry (\w+)\(", binary.data.decode())
        assert entries == [f"edgec_{binary.name}"] == [f"edgec_{each.symbol}"]


def test_an_archive_serves_without_triton_as_long_as_the_sources_are_its_own(
    tmp_path, monkeypatch
) -> None:
    (variant,) = variants(product(64, 256, 64, "f16"), "cuda", folds=False)
    archive = tmp_path / "prebuilt.zip"
    prebuilt.write(archive, [variant])
    found = prebuilt.Prebuilt(archive).find(variant)
    assert isinstance(found, Binary)
    assert found.data == compile_variant(variant)[0]
    (other,) = variants(product(64, 256, 250, "f16"), "cuda", folds=False)
    assert isinstance(prebuilt.Prebuilt(archive).find(other), Declined)
    monkeypatch.setattr(prebuilt, "sources_digest", lambda: "changed")
    assert isinstance(prebuilt.Prebuilt(archive).find(variant), Declined)


def test_the_archive_of_a_wheel_is_made_anew_when_it_does_not_hold_the_usual(
    tmp_path, monkeypatch
) -> None:
    (variant,) = variants(product(64, 256, 64, "f16"), "cuda", folds=False)
    (other,) = variants(product(64, 256, 250, "f16"), "cuda", folds=False)
    written = []

    def write(archive, found) -> None:
        written.append(len(found))
        prebuilt.write(archive, found)

    monkeypatch.setattr(usual, "write", write)
    archive = tmp_path / "prebuilt.zip"
    for found in ([variant], [variant], [variant, other]):
        monkeypatch.setattr(usual, "usual", lambda found=found: iter(found))
        assert usual.make(archive).startswith(f"{archive}: {len(found)} kernels")
        assert prebuilt.holds(archive, found)
    assert written == [1, 2]
    monkeypatch.setattr(prebuilt, "sources_digest", lambda: "changed")
    assert not prebuilt.holds(archive, [variant])


def test_a_wheel_takes_the_archive_from_where_it_is_made() -> None:
    root = Path(__file__).parents[4]
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    place = Path(str(prebuilt.ARCHIVE)).relative_to(root).as_posix()
    assert place in pyproject["tool"]["hatch"]["build"]["artifacts"]
