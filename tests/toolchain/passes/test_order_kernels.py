"""Sorts and searches for the first few by kernels are NumPy's and the frameworks'."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.targets import find
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.passes.place.order_kernels import OrderKernels
from tests.toolchain.passes.before_after import rewrite

UNIT = VectorUnit(lanes=8, registers=16)
SLOW = pytest.mark.slow
KINDS = (
    *(np.float32, np.int16, np.bool_),
    *(pytest.param(kind, marks=SLOW) for kind in (ml_dtypes.bfloat16, np.uint32)),
)
SHAPES = ((7, 3), (3, 64), (5, 65), (2, 700), (1, 9000))
"""Few of a row one by one, more by their bytes, and more than a thread's stack holds."""


def numbers(kind: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Some of them equal, and where the type has it some NaN, infinity and zeros of both signs."""
    rng = np.random.default_rng(7)
    if np.dtype(kind).kind in "iu":
        limits = np.iinfo(kind)
        x = rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
        x[:, ::3] = rng.integers(0, 5, x[:, ::3].shape)
        return x
    if kind is np.bool_:
        return rng.random(shape) < 0.4
    x = (rng.standard_normal(shape) * 4).astype(kind)
    x[:, ::5] = np.round(x[:, ::5].astype(np.float64)).astype(kind)
    x[0, :3] = np.nan, -np.nan, -0.0
    x[0, 5:9] = np.asarray((0.0, np.inf, -np.inf, 0.0), kind)[: max(0, min(4, shape[1] - 5))]
    return x


def compiled(program: Any, folder: Path, inputs: list[Any]) -> list[np.ndarray]:
    options = CompileOptions(output=folder / "case.vmfb", cache=False, check=False)
    module = toolchain.compile(program, "cpu", options)
    with runtime.load(module) as loaded:
        return [each.numpy() for each in loaded["main"].call_flat(inputs)]


def kernels(folder: Path) -> set[str]:
    """The names of the kernels of the module that was compiled last."""
    found = re.findall(rb"edgec_((?:sort|first_\d+)_\d+x\d+)", (folder / "case.vmfb").read_bytes())
    return {name.decode() for name in found}


def order(x: np.ndarray, axis: int, *, descending: bool = False) -> np.ndarray:
    """The places of sorted numbers by NumPy, NaN as the largest, equals in their order."""
    wide = x.astype(np.float64)
    wide = np.where(np.isnan(wide), np.inf, wide)
    late = np.isnan(x.astype(np.float64))
    ranks = np.unique(np.stack([late, wide], -1).reshape(-1, 2), axis=0, return_inverse=True)[1]
    ranks = ranks.reshape(x.shape)
    return np.argsort(-ranks if descending else ranks, axis, kind="stable")


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_jax_sorts_as_numpy_does(kind: Any, tmp_path: Path) -> None:
    inputs = [numbers(kind, shape) for shape in SHAPES]
    turned = jnp.invert if np.dtype(kind).kind in "iub" else jnp.negative

    def all_of_them(*given: Any) -> list[Any]:
        return [
            each
            for x in given
            for each in (
                *(jnp.sort(x, 1), jnp.argsort(x, 1), jnp.argsort(x, 0)),
                jnp.argsort(turned(x), 1),
            )
        ]

    program = export(all_of_them, inputs)
    found = iter(compiled(program, tmp_path, inputs))
    for x in inputs:
        places = order(x, 1)
        np.testing.assert_array_equal(
            next(found).astype(np.float64), np.take_along_axis(x, places, 1).astype(np.float64)
        )
        np.testing.assert_array_equal(next(found), places)
        np.testing.assert_array_equal(next(found), order(x, 0))
        np.testing.assert_array_equal(next(found), order(np.asarray(turned(x)), 1))
    assert kernels(tmp_path) >= {f"sort_{rows}x{count}" for rows, count in SHAPES}


FIRST = ((1, 9000, 5), (3, 9000, 4000), (40, 80, 1), (5, 64, 8), (2, 50, 49), (1, 20, 3), (2, 3, 3))


@pytest.mark.parametrize("kind", [np.float32, np.int8, pytest.param(np.float16, marks=SLOW)])
def test_jax_finds_the_first_few(kind: Any, tmp_path: Path) -> None:
    """Also of rows that rise, of which each number comes before those found so far."""
    inputs = [numbers(kind, shape[:2]) for shape in FIRST]
    for x in inputs:
        if np.dtype(kind).kind == "f":
            x[0, :3] = np.nan, 3, -0.0
            x[x == 0] = 0
    inputs += [np.sort(x, 1) for x in inputs]
    ends = [shape[2] for shape in FIRST] * 2
    program = export(
        lambda *given: [
            each for x, k in zip(given, ends, strict=True) for each in jax.lax.top_k(x, k)
        ],
        inputs,
    )
    found = iter(compiled(program, tmp_path, inputs))
    for x, k in zip(inputs, ends, strict=True):
        places = order(x, 1, descending=True)[:, :k]
        np.testing.assert_array_equal(next(found), np.take_along_axis(x, places, 1))
        np.testing.assert_array_equal(next(found), places)
    few = {f"first_{k}_{rows}x{count}" for rows, count, k in FIRST if k < count}
    assert kernels(tmp_path) == {*few, "sort_2x3"}


class Sorts(torch.nn.Module):
    """What PyTorch has of it, both ways, of numbers with NaN."""

    def forward(self, x: Any, y: Any) -> Any:
        return (
            *torch.sort(x, stable=True),
            *torch.sort(x, dim=0, descending=True, stable=True),
            *torch.topk(x, 5),
            *torch.topk(x, 7, 0, largest=False),
            *torch.sort(y, stable=True),
            *torch.topk(y, 9),
            torch.argsort(y > 3, dim=1, stable=True),
        )


def test_pytorch_sorts_as_it_does_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.permutation(30 * 400).reshape(30, 400).astype(np.float32))
    x[3, 7], x[4, 9] = float("nan"), -float("inf")
    y = torch.from_numpy(rng.permutation(30 * 400).reshape(30, 400)) - (1 << 40)
    program = export(Sorts(), (x, y))
    found = compiled(program, tmp_path, [x.numpy(), y.numpy()])
    for ours, theirs in zip(found, Sorts()(x, y), strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy())
    sorts = {"sort_30x400", "sort_400x30"}
    assert kernels(tmp_path) == {*sorts, "first_5_30x400", "first_7_400x30", "first_9_30x400"}


def wide_keys(x: Any, y: Any, z: Any) -> Any:
    with jax.enable_x64(True):
        return (
            *(jnp.argsort(each, 1) for each in (x, y, z)),
            *(each for given in (x, y) for each in jax.lax.top_k(given, 6)),
        )


def test_numbers_of_64_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        x = rng.standard_normal((3, 500))
        x[:, ::4] = np.round(x[:, ::4])
        y = rng.integers(-(1 << 63), (1 << 63) - 1, (2, 900))
        z = rng.integers(0, 1 << 64, (1, 77), np.uint64)
        program = export(wide_keys, (x, y, z))
        found = compiled(program, tmp_path, [x, y, z])
    for ours, given in zip(found, (x, y, z), strict=False):
        np.testing.assert_array_equal(ours, np.argsort(given, 1, kind="stable"))
    for at, given in ((3, x), (5, y)):
        places = np.argsort(-given if at == 3 else ~given, 1, kind="stable")[:, :6]
        np.testing.assert_array_equal(found[at], np.take_along_axis(given, places, 1))
        np.testing.assert_array_equal(found[at + 1], places)


def test_what_is_moved_along(tmp_path: Path) -> None:
    """Arrays of other types go where the numbers go; only what is read of them is kept."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 50, (6, 200)).astype(np.int32)
    others = (
        rng.standard_normal((6, 200)).astype(np.float32),
        rng.random((6, 200)) < 0.5,
        rng.integers(0, 9, (6, 200)).astype(np.int8),
        rng.standard_normal((6, 200)).astype(np.float16),
    )
    program = export(
        lambda *given: [
            each[:, :12].astype(jnp.float32) for each in jax.lax.sort(given, num_keys=1)
        ],
        (x, *others),
    )
    found = compiled(program, tmp_path, [x, *others])
    assert kernels(tmp_path) == {"first_12_6x200"}
    places = np.argsort(x, 1, kind="stable")[:, :12]
    for ours, given in zip(found, (x, *others), strict=True):
        np.testing.assert_array_equal(ours, np.take_along_axis(given, places, 1).astype(np.float32))


def test_a_permutation_is_that_of_jax(tmp_path: Path) -> None:
    def permuted(key: Any) -> Any:
        return jax.random.permutation(jax.random.wrap_key_data(key), 5000)

    key = np.array([3, 9], np.uint32)
    program = export(permuted, (key,))
    (found,) = compiled(program, tmp_path, [key])
    assert kernels(tmp_path) == {"sort_1x5000"}
    np.testing.assert_array_equal(found, permuted(key))


SORT = """
func.func @main(%x: tensor<4x200xf32>, %y: tensor<4x200xf32>) -> tensor<4x200xf32> {
  %z:2 = "stablehlo.sort"(%x, %y) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      BODY
      stablehlo.return %less : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true} :
    (tensor<4x200xf32>, tensor<4x200xf32>) -> (tensor<4x200xf32>, tensor<4x200xf32>)
  return %z#1 : tensor<4x200xf32>
}"""
PAIR = "(tensor<f32>, tensor<f32>) -> tensor<i1>"
BODIES = {
    "less": (f"%less = stablehlo.compare LT, %a, %b : {PAIR}", 1),
    "by bits": (f"%less = stablehlo.compare GT, %a, %b, TOTALORDER : {PAIR}", 1),
    "the other": (f"%less = stablehlo.compare GT, %c, %d : {PAIR}", 1),
    "turned about": (f"%less = stablehlo.compare GT, %b, %a : {PAIR}", 1),
    "or equal": (f"%less = stablehlo.compare LE, %a, %b : {PAIR}", 0),
    "of two": (f"%less = stablehlo.compare LT, %a, %d : {PAIR}", 0),
    "by size": (
        "%s = stablehlo.abs %a : tensor<f32>\n%t = stablehlo.abs %b : tensor<f32>\n"
        f"%less = stablehlo.compare LT, %s, %t : {PAIR}",
        0,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_comparison_is_tried(name: str) -> None:
    body, taken = BODIES[name]
    count, after = rewrite(OrderKernels(device=UNIT), SORT.replace("BODY", body))
    assert count == taken
    assert ("stablehlo.sort" in after) == (not taken)


@pytest.mark.skipif(not has_triton(), reason="Triton is not here (edgec[cuda])")
def test_cuda_sorts_parts_of_rows(tmp_path: Path) -> None:
    """Rows of few by one kernel, the first few of many by two; long sorts by a network."""
    x = np.zeros((3, 700), np.float16), np.zeros((2, 20000), np.float32)
    program = export(lambda x, y: (jnp.argsort(x, 1), jnp.sort(x, 0), *jax.lax.top_k(y, 50)), x)
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    report = toolchain.compile_with_report(program, find("cuda:sm_90"), options)
    data = report.module.path.read_bytes()
    found = set(re.findall(rb"edgec_(order_\d+_f\d\d)", data))
    assert found >= {b"order_1024_f16", b"order_32_f16", b"order_2048_f32", b"order_512_f32"}
    text = SORT.replace("4x200", "4x5000").replace("BODY", BODIES["less"][0])
    (tmp_path / "long.mlir").write_text(text)
    long = toolchain.compile(tmp_path / "long.mlir", "cuda:sm_90", options)
    assert b"edgec_order" not in long.path.read_bytes()


@pytest.mark.parametrize(
    "target", ["cuda:sm_90", *(pytest.param(name, marks=SLOW) for name in ("vulkan", "webgpu"))]
)
def test_rows_by_a_loop_and_columns_by_a_kernel(target: str, tmp_path: Path) -> None:
    """Both read one transposed array, which a submission may not make and need at once."""
    x = np.zeros((2, 5000), np.float32)
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    for function in (
        lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)),
        lambda x: (jnp.argsort(x, 0), jnp.sort(x, 1)),
    ):
        assert toolchain.compile(export(function, (x,)), target, options).path.exists()


@pytest.mark.sweep(fast=1)
@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="no glslang is here (edgec[vulkan])")
@pytest.mark.parametrize(
    "kind",
    [np.float16, np.int8, *(pytest.param(kind, marks=SLOW) for kind in (np.float32, np.uint32))],
)
def test_vulkan_sorts_parts_of_rows(kind: Any, tmp_path: Path) -> None:
    """Rows of up to 1,024 by one kernel, the first few of more by several."""
    inputs = [numbers(kind, shape) for shape in ((7, 3), (3, 64), (2, 700), (2, 9000))]
    if np.dtype(kind).kind == "f":
        inputs[-1][0, :3] = np.nan, 3, 5  # the first few are by all bits, also those of NaN
    program = export(
        lambda *given: (
            [
                each
                for x in given
                for each in (
                    *((jnp.argsort(x, 1),) if x.shape[1] < 9000 else ()),
                    jnp.argsort(x, 0),
                )
            ]
            + list(jax.lax.top_k(given[-1], 30))
        ),
        inputs,
    )
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    with runtime.load(toolchain.compile(program, "vulkan", options)) as loaded:
        found = iter([each.numpy() for each in loaded["main"].call_flat(inputs)])
    assert b"edgec_order_1024" in options.output.read_bytes()
    for x in inputs:
        if x.shape[1] < 9000:
            np.testing.assert_array_equal(next(found), order(x, 1))
        np.testing.assert_array_equal(next(found), order(x, 0))
    values, places = found
    expected = order(inputs[-1], 1, descending=True)[:, :30]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(inputs[-1], expected, 1))


PLACES = """func.func @main(%x: tensor<64x8xi32>) -> tensor<128xi32> {
  %0 = stablehlo.convert %x : (tensor<64x8xi32>) -> tensor<64x8xi64>
  %1 = stablehlo.slice %0 [0:64, 0:2] : (tensor<64x8xi64>) -> tensor<64x2xi64>
  %2 = stablehlo.reshape %1 : (tensor<64x2xi64>) -> tensor<128xi64>
  %3 = stablehlo.iota dim = 0 : tensor<128xi32>
  %4:2 = "stablehlo.sort"(%2, %3) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i32>, %d: tensor<i32>):
    %5 = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }) : (tensor<128xi64>, tensor<128xi32>) -> (tensor<128xi64>, tensor<128xi32>)
  return %4#1 : tensor<128xi32>
}"""


@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="no glslang is here (edgec[vulkan])")
def test_numbers_that_were_widened_are_sorted_as_they_were(tmp_path: Path) -> None:
    """Experts that a router chose, whose numbers PyTorch keeps in 64 bits."""
    (tmp_path / "case.mlir").write_text(PLACES)
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    x = np.random.default_rng(2).integers(-(2**31), 2**31, (64, 8)).astype(np.int32)
    x[::3] = x[0]
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "vulkan", options)) as loaded:
        found = loaded["main"].call_flat([x])[0].numpy()
    np.testing.assert_array_equal(found, np.argsort(x[:, :2].reshape(-1), kind="stable"))
    assert b"edgec_order_128" in options.output.read_bytes()


@pytest.mark.skipif(not has_triton(), reason="Triton is not here (edgec[cuda])")
def test_on_cuda_there_may_be_many_rows() -> None:
    """Of workgroups along y and z a GPU takes 65,535, along x two thousand million."""
    text = SORT.replace("4x200", "70000x20").replace("BODY", BODIES["less"][0])
    gpu = find("cuda:sm_90").gpu
    assert gpu is not None
    count, after = rewrite(OrderKernels(device=gpu, on_cuda=True), text)
    assert count == 1
    (line,) = [each for each in after.splitlines() if "flow.dispatch" in each]
    named = dict(re.findall(r"(%\w+) = arith.constant (\d+) : index", after))
    grid = re.search(r"\[(%\w+), (%\w+), (%\w+)\]", line)
    assert grid is not None
    assert [int(named[name]) for name in grid.groups()] == [70000, 1, 1]
