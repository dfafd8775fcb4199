"""Rows by the matrix of each row's group, against NumPy, PyTorch and JAX, and what stays."""

import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers.integrations.moe  # noqa: F401 (registers its operators)
from iree.compiler import ir

from edgec import toolchain
from edgec.exporters import export
from edgec.runtime import load
from edgec.targets import find
from edgec.toolchain import CompileOptions
from edgec.toolchain.flags import compile_flags
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from edgec.toolchain.passes.simplify.grouped_rows import GroupedRows
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.process import compiler_path
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.js.node import need_node, run_node, write_runtime_once
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.test_roll_loops import AVX512

K, N = 64, 128


class Experts(torch.nn.Module):
    """Sorted rows by one matrix of some, which lie as [groups, n, k]."""

    def __init__(self, groups: int, kind: torch.dtype) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(groups, N, K).to(kind))

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        turned = self.weights.transpose(1, 2)
        return torch.ops.transformers.grouped_mm_fallback(x, turned, offs=ends)


def ends_of(rows: int, groups: int) -> list[np.ndarray]:
    """Groups that are drawn, all rows in one, in the last, empty ones, and rows of none."""
    rng = np.random.default_rng(rows)
    drawn = [rng.integers(0, groups, rows), np.full(rows, 1), np.full(rows, groups - 1)]
    drawn.append(np.arange(rows) * (groups // 2) // rows * 2)
    found = [np.bincount(each, minlength=groups).cumsum() for each in drawn]
    found.append(np.minimum(found[0], rows - 3))
    found.append(np.zeros(groups, np.int64))
    return [each.astype(np.int32) for each in found]


def expected(x: np.ndarray, weights: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """In f64, weights as [groups, n, k]; zeros for rows of no group."""
    found = np.zeros((len(x), weights.shape[1]))
    begin = 0
    for matrix, end in zip(weights.astype(np.float64), ends, strict=True):
        found[begin:end] = x[begin:end].astype(np.float64) @ matrix.T
        begin = max(begin, end)
    return found


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize(
    ("rows", "groups", "kind", "error"),
    [
        (40, 8, torch.float32, 1e-6),
        (67, 4, torch.bfloat16, 8e-3),
        (40, 8, torch.float16, 2e-3),
    ],
)
def test_each_row_meets_its_groups_matrix(
    rows: int, groups: int, kind: torch.dtype, error: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Experts(groups, kind)
    x = torch.randn(rows, K).to(kind)
    program = export(model, (x, torch.from_numpy(ends_of(rows, groups)[0])))
    wide = (x.float().numpy(), model.weights.detach().float().numpy())
    options = CompileOptions(output=tmp_path / "experts.vmfb", cache=False, check=False)
    module = toolchain.compile(program, "cpu", options)
    share = module.facts.kernels
    assert share is not None
    assert rows <= share.flops / (2 * K * N) < rows * min(4, groups - 1)  # not by all matrices
    with load(module) as loaded:
        for ends in ends_of(rows, groups):
            (found,) = loaded["main"].call_flat([x, torch.from_numpy(ends)])
            right = expected(*wide, ends)
            actual = np.asarray(found).astype(np.float64)
            np.testing.assert_allclose(actual, right, rtol=0, atol=error * 8 * np.sqrt(K))


def test_ragged_dot_of_jax(tmp_path: Path) -> None:
    """Few rows and many, in one program."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((8, K, N), np.float32)
    x = rng.standard_normal((48, K), np.float32)
    ends = [ends_of(48, 8), ends_of(4, 8)]
    calls = [[np.diff(end, prepend=0).astype(np.int32) for end in each] for each in ends]

    def ragged(x: jax.Array, many: jax.Array, few: jax.Array) -> tuple[jax.Array, jax.Array]:
        table = jnp.asarray(weights)
        return jax.lax.ragged_dot(x, table, many), jax.lax.ragged_dot(x[:4], table, few)

    options = CompileOptions(output=tmp_path / "ragged.vmfb", cache=False, check=False)
    module = toolchain.compile(export(ragged, (x, calls[0][0], calls[1][0])), "cpu", options)
    share = module.facts.kernels
    assert share is not None
    assert share.flops < 3 * (48 + 4) * 2 * K * N
    with load(module) as loaded:
        for sizes in zip(*calls, strict=True):
            for found, right in zip(loaded.main(x, *sizes), ragged(x, *sizes), strict=True):
                np.testing.assert_allclose(found, right, rtol=0, atol=1e-4)


@pytest.mark.parametrize("target", ["vulkan", "cuda", "webgpu", "cpu", "cpu:riscv64", "wasm"])
def test_gpus_keep_what_they_have(target: str) -> None:
    """A matrix's place in a loop is a round trip there, and no kernel looks matrices up."""
    program = export(jnp.matmul, (np.zeros((2, 2), np.float32),) * 2)
    module = parse_stablehlo(program.bytecode, ir.Context())
    situation = Situation(info=program.info, facts={}, module=module, target=find(target))
    planned = GroupedRows.plan(situation)
    assert (planned is not None) is (find(target).cpu is not None)
    if planned is not None:
        assert (planned.unit is None) is (target == "cpu:riscv64")  # it has no vectors


def added(groups: int = 4, rows: int = 64, k: int = K, n: int = N) -> str:
    """One product for each group, added up."""
    kind, wide = f"tensor<{rows}x{k}xf32>", f"tensor<{rows}x{n}xf32>"
    lines = [
        f"func.func @main(%x: {kind}, %w: tensor<{groups}x{k}x{n}xf32>, %e: tensor<{groups}xi32>,",
        f"    %g: tensor<{rows}xi32>) -> {wide} {{",
        f"  %none = stablehlo.constant dense<0.0> : {kind}",
        f"  %sum0 = stablehlo.constant dense<0.0> : {wide}",
        f"  %i = stablehlo.iota dim = 0 : tensor<{rows}x{groups}xi32>",
        f"  %b = stablehlo.broadcast_in_dim %e, dims = [1] : (tensor<{groups}xi32>)"
        f" -> tensor<{rows}x{groups}xi32>",
        f"  %c = stablehlo.compare GE, %i, %b : (tensor<{rows}x{groups}xi32>,"
        f" tensor<{rows}x{groups}xi32>) -> tensor<{rows}x{groups}xi1>",
        f"  %d = stablehlo.convert %c : (tensor<{rows}x{groups}xi1>)"
        f" -> tensor<{rows}x{groups}xi32>",
        "  %zero = stablehlo.constant dense<0> : tensor<i32>",
        "  %own = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1]",
        f"    : (tensor<{rows}x{groups}xi32>, tensor<i32>) -> tensor<{rows}xi32>",
    ]
    for i in range(groups):
        lines += [
            f"  %n{i} = stablehlo.constant dense<{i}> : tensor<{rows}xi32>",
            f"  %t{i} = stablehlo.compare EQ, %own, %n{i} : (tensor<{rows}xi32>,"
            f" tensor<{rows}xi32>) -> tensor<{rows}xi1>",
            f"  %m{i} = stablehlo.broadcast_in_dim %t{i}, dims = [0] : (tensor<{rows}xi1>)"
            f" -> tensor<{rows}x{k}xi1>",
            f"  %s{i} = stablehlo.select %m{i}, %x, %none : tensor<{rows}x{k}xi1>, {kind}",
            f"  %u{i} = stablehlo.slice %w [{i}:{i + 1}, 0:{k}, 0:{n}]"
            f" : (tensor<{groups}x{k}x{n}xf32>) -> tensor<1x{k}x{n}xf32>",
            f"  %v{i} = stablehlo.reshape %u{i} : (tensor<1x{k}x{n}xf32>) -> tensor<{k}x{n}xf32>",
            f"  %p{i} = stablehlo.dot_general %s{i}, %v{i}, contracting_dims = [1] x [0]"
            f" : ({kind}, tensor<{k}x{n}xf32>) -> {wide}",
            f"  %sum{i + 1} = stablehlo.add %sum{i}, %p{i} : {wide}",
        ]
    return "\n".join([*lines, f"  return %sum{groups} : {wide}", "}"])


def test_products_of_all_groups_become_blocks() -> None:
    count, after = rewrite(GroupedRows(unit=AVX512), added())
    assert count == 1
    assert after.count("stablehlo.dot_general") == 1
    assert "tensor<7x16x128xf32>" in after  # 64 rows in at most 7 blocks of 16


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("unit", [AVX512, VectorUnit(lanes=4, registers=16, by_lane=True)])
@pytest.mark.parametrize(
    ("groups", "rows", "k", "n"),
    [(5, 62, 7, 137), (3, 700, 33, 4), (64, 65, 16, 12), (3, 80, 2, 600)],
)
def test_the_kernel_takes_all_blocks(
    unit: VectorUnit, groups: int, rows: int, k: int, n: int
) -> None:
    """Else the compiler would copy a matrix for each of them."""
    with ir.Context() as context, validating():
        module = parse_stablehlo(added(groups, rows, k, n), context)
        assert GroupedRows(unit=unit).run(module) == 1
        assert CpuKernels(unit=unit).run(module) == 1
        assert module.operation.verify()
        assert f"x{k}x{n}xf32" not in str(module).replace(f"{groups}x{k}x{n}xf32", "")


OTHERS = {
    "rows in any order": ("%t2 = stablehlo.compare EQ, %own", "%t2 = stablehlo.compare EQ, %g"),
    "all in any order": ("EQ, %own", "EQ, %g"),
    "a group twice": ("%n2 = stablehlo.constant dense<2>", "%n2 = stablehlo.constant dense<1>"),
    "another group's matrix": ("%u2 = stablehlo.slice %w [2:3,", "%u2 = stablehlo.slice %w [1:2,"),
    "all but a group": ("EQ, %own, %n3", "NE, %own, %n3"),
    "other rows": (
        "%s3 = stablehlo.select %m3, %x, %none",
        "%s3 = stablehlo.select %m3, %none, %x",
    ),
    "no zeros": ("%none = stablehlo.constant dense<0.0>", "%none = stablehlo.constant dense<1.0>"),
    "places that fall": ("%c = stablehlo.compare GE", "%c = stablehlo.compare LT"),
    "a group is left out": ("stablehlo.add %sum1, %p1", "stablehlo.add %sum1, %sum1"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_stay(name: str) -> None:
    text = added()
    changed = text.replace(*OTHERS[name])
    assert changed != text
    assert rewrite(GroupedRows(unit=AVX512), changed)[0] == 0


@pytest.mark.parametrize(("groups", "rows"), [(2, 32), (3, 24)])
def test_products_stay_where_blocks_multiply_no_less(groups: int, rows: int) -> None:
    assert rewrite(GroupedRows(unit=AVX512), added(groups, rows))[0] == 0


def test_blocks_need_a_kernel_that_reads_matrices_where_they_lie() -> None:
    assert rewrite(GroupedRows(unit=None), added())[0] == 0


def test_matrices_that_are_worked_out_stay() -> None:
    """Weights in blocks are codes by scales: each product of a group reads its own codes."""
    text = added().replace("%w: tensor<4x64x128xf32>", "%q: tensor<4x64x128xi8>")
    inner = "stablehlo.convert %q : (tensor<4x64x128xi8>) -> tensor<4x64x128xf32>"
    scaled = "stablehlo.multiply %f, %f : tensor<4x64x128xf32>"
    text = text.replace("  %none =", f"  %f = {inner}\n  %w = {scaled}\n  %none =", 1)
    assert rewrite(GroupedRows(unit=AVX512), text)[0] == 0


LOOKED_UP = f"""
func.func @main(%x: tensor<6xROWSx{K}xf32>, %w: tensor<9x{K}x{N}xf32>, %i: tensor<6xi64>)
    -> tensor<6xROWSx{N}xf32> {{
  %0 = "stablehlo.gather"(%w, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, {K}, {N}>}}>
    : (tensor<9x{K}x{N}xf32>, tensor<6xi64>) -> tensor<6x{K}x{N}xf32>
  %1 = stablehlo.dot_general %x, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<6xROWSx{K}xf32>, tensor<6x{K}x{N}xf32>) -> tensor<6xROWSx{N}xf32>
  return %1 : tensor<6xROWSx{N}xf32>
}}"""


def test_numbers_of_a_byte_are_those_of_more_matrices_than_it_counts() -> None:
    text = LOOKED_UP.replace("ROWS", "1").replace("tensor<9x", "tensor<200x")
    for kind in ("i8", "ui8"):
        assert rewrite(GroupedRows(), text.replace("6xi64", f"6x{kind}"))[0] == 1


@pytest.mark.parametrize("rows", [1, 16])
def test_looked_up_matrices_are_read_where_they_lie(rows: int, tmp_path: Path) -> None:
    """Of vectors in a loop, of more rows by a kernel; numbers out of bounds are the nearest."""
    text = LOOKED_UP.replace("ROWS", str(rows))
    assert rewrite(GroupedRows(unit=AVX512), text)[0] == (rows == 1)
    (tmp_path / "p.mlir").write_text(text)
    options = CompileOptions(output=tmp_path / "p.vmfb", keep_temps=tmp_path, cache=False)
    module = toolchain.compile(tmp_path / "p.mlir", "cpu", options)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, rows, K), np.float32)
    w = rng.standard_normal((9, K, N), np.float32)
    places = np.array([3, 8, 3, 0, 99, -5])
    with load(module) as loaded:
        found = np.asarray(loaded.main(x, w, places))
    np.testing.assert_allclose(found, x @ w[places.clip(0, 8)], rtol=0, atol=1e-4)
    (written,) = tmp_path.glob("*.mlirbc")
    flow = lowered(["--iree-input-type=auto"], written.read_bytes())
    assert f"tensor<6x{K}x{N}xf32>" not in flow


def test_the_compiler_alone_still_copies_looked_up_matrices() -> None:
    """If this fails, the compiler reads them where they lie, and the pass, or a part, may go."""
    flow = lowered([], LOOKED_UP.replace("ROWS", "16").encode())
    assert f"tensor<6x{K}x{N}xf32>" in flow


def lowered(flags: list[str], program: bytes) -> str:
    """The compiler's pieces of work and what goes from one to the next."""
    line = [str(compiler_path()), "-", *compile_flags(find("cpu")), *flags, "--compile-to=flow"]
    done = subprocess.run(line, input=program, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.decode(errors="replace")


def test_webassembly_answers_as_jax_does(tmp_path: Path) -> None:
    need_node()
    write_runtime_once(tmp_path / "edgec-runtime")
    rng = np.random.default_rng(6)
    weights, x = (rng.standard_normal(each, np.float32) for each in ((6, K, N), (48, K)))
    sizes = np.array([20, 0, 7, 1, 16, 2]), np.array([0, 2, 0, 1, 0, 1])

    def ragged(x: jax.Array, many: jax.Array, few: jax.Array) -> tuple[jax.Array, jax.Array]:
        table = jnp.asarray(weights)
        return jax.lax.ragged_dot(x, table, many), jax.lax.ragged_dot(x[:5], table, few)

    inputs = (x, *(each.astype(np.int32) for each in sizes))
    options = CompileOptions(output=tmp_path / "ragged.vmfb", cache=False, check=False)
    toolchain.compile(export(ragged, inputs), "wasm", options)
    found = run_node(
        "const model = await load('ragged.vmfb');\n"
        "const sizes = [Int32Array.from(many), Int32Array.from(few)];\n"
        "const found = await model.main(Float32Array.from(x), ...sizes);\n"
        "print(Array.from(found, (y) => Array.from(y)));",
        tmp_path,
        **dict(
            zip(("x", "many", "few"), (each.flatten().tolist() for each in inputs), strict=True)
        ),
    )
    for actual, right in zip(found, ragged(*inputs), strict=True):
        np.testing.assert_allclose(np.reshape(actual, right.shape), right, rtol=0, atol=1e-4)
