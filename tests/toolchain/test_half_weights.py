"""Weights kept as halves on processors: in the file, in kernels and look-ups, and their numbers."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgec.ondevice.standing_in import emulated
from edgec.packaging import PackageOptions, make_package
from edgec.runtime import Golden, GoldenCall, load
from edgec.runtime.errors import CompileError
from edgec.toolchain import Compiled, CompileOptions, compile_with_report
from edgec.toolchain.precision import Precision

ROWS, WIDTH = 400, 160
DRAW = np.random.default_rng(0)
WEIGHTS = (DRAW.standard_normal((WIDTH, WIDTH)) / 12).astype(np.float32)
TABLE = DRAW.standard_normal((ROWS, WIDTH)).astype(np.float32)
X = np.array([3, 399, 7], np.int32)
ADDED = DRAW.standard_normal((3, WIDTH)).astype(np.float32)


def halves(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(np.float32)


Y = halves(TABLE)[X] @ halves(WEIGHTS) + halves(ADDED)
EXACT = TABLE[X] @ WEIGHTS + ADDED


def dense(array: np.ndarray) -> str:
    kind = {"float32": "f32"}[array.dtype.name]
    shape = "x".join(map(str, array.shape))
    return f'dense<"0x{array.tobytes().hex().upper()}"> : tensor<{shape}x{kind}>'


NET = f"""
func.func public @main(%i: tensor<3xi32>) -> tensor<3x{WIDTH}xf32> {{
  %t = stablehlo.constant {dense(TABLE)}
  %w = stablehlo.constant {dense(WEIGHTS)}
  %a = stablehlo.constant {dense(ADDED)}
  %n = stablehlo.reshape %i : (tensor<3xi32>) -> tensor<3x1xi32>
  %0 = "stablehlo.gather"(%t, %n) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, {WIDTH}>}} : (tensor<{ROWS}x{WIDTH}xf32>, tensor<3x1xi32>)
    -> tensor<3x{WIDTH}xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<3x{WIDTH}xf32>, tensor<{WIDTH}x{WIDTH}xf32>) -> tensor<3x{WIDTH}xf32>
  %2 = stablehlo.add %1, %a : tensor<3x{WIDTH}xf32>
  return %2 : tensor<3x{WIDTH}xf32>
}}
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("halves") / "net.mlir"
    path.write_text(NET)
    call = GoldenCall(signature="main", inputs=(X,), outputs=(EXACT,))
    Golden(calls=(call,)).save(Golden.path_for(path))
    return path


def compiled(path: Path, target: str, output: Path) -> Compiled:
    options = CompileOptions(
        output=output, precision=Precision.F16, elsewhere=partial(emulated, tell=print)
    )
    return compile_with_report(path, target, options)


@pytest.fixture(scope="module")
def made(net: Path) -> Compiled:
    return compiled(net, "cpu", net.with_name("half.vmfb"))


@pytest.mark.parametrize("device", ["edgert", "local-sync"])
def test_halves_are_computed_with_in_f32(made: Compiled, device: str) -> None:
    with load(made.module, device=device) as loaded:
        found = np.asarray(loaded.main(X))
    np.testing.assert_allclose(found, Y, rtol=1e-5, atol=2e-6)
    assert np.abs(found - EXACT).max() > 1e-5


def test_the_file_is_half_as_large_and_both_sizes_and_the_error_are_said(
    net: Path, made: Compiled
) -> None:
    whole = compile_with_report(net, "cpu", CompileOptions(output=net.with_name("whole.vmfb")))
    assert whole.module.path is not None
    assert made.module.path is not None
    saved = whole.module.path.stat().st_size - made.module.path.stat().st_size
    assert saved > 0.45 * (TABLE.nbytes + WEIGHTS.nbytes)
    assert made.report.check.startswith("checked")
    error, sizes = made.report.notes
    total = TABLE.nbytes + WEIGHTS.nbytes + ADDED.nbytes
    assert f"{total / 2e6:.1f} MB and not {total / 1e6:.1f}" in sizes
    assert 1e-5 < float(error.split("off by ")[1].split()[0]) < 6.7e-3


@pytest.mark.parametrize(
    "target",
    [
        *("cpu:x86-64", "cpu:arm64"),
        # The C library to prove it with takes a core 45 s.
        pytest.param("cpu:armv7", marks=pytest.mark.slow),
        pytest.param("cpu:riscv64", marks=pytest.mark.slow),  # as x86-64, by whole numbers
    ],
)
def test_other_processors_read_halves_with_an_instruction_or_by_whole_numbers(
    net: Path, target: str, tmp_path: Path
) -> None:
    report = compiled(net, target, tmp_path / "net.vmfb").report
    assert report.check.startswith("checked")


def test_a_package_for_pages_shares_halves_and_proves_itself_in_node(
    net: Path, tmp_path: Path
) -> None:
    options = PackageOptions(
        prove=True,
        targets=("wasm", "wasm:plain"),
        compiling=CompileOptions(precision=Precision.F16),
    )
    made = make_package(net, "web", tmp_path / "web", options)
    assert {proof.outcome for proof in made.proofs} <= {"passed in node"}
    assert made.manifest.weights is not None
    assert made.manifest.weights.size < 0.6 * (TABLE.nbytes + WEIGHTS.nbytes)


def test_every_half_is_widened_exactly_where_no_instruction_does(tmp_path: Path) -> None:
    words = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    every = words.view(np.float16).astype(np.float32)
    every[~np.isfinite(every)] = 1.0
    (tmp_path / "every.mlir").write_text(f"""
    func.func public @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {{
      %w = stablehlo.constant {dense(every)}
      %0 = stablehlo.multiply %x, %w : tensor<256x256xf32>
      return %0 : tensor<256x256xf32>
    }}
    """)
    module = compiled(tmp_path / "every.mlir", "cpu:x86-64", tmp_path / "every.vmfb").module
    with load(module, device="edgert") as loaded:
        found = np.asarray(loaded.main(np.ones_like(every)))
    np.testing.assert_array_equal(found.view(np.uint32), every.view(np.uint32))


@pytest.mark.parametrize(
    "array",
    [
        np.linspace(0.1, 1, 4096, dtype=np.float32),
        np.linspace(0.1, 1e6, 4096, dtype=np.float32).reshape(64, 64),
        np.linspace(1e-9, 1e-8, 4096, dtype=np.float32).reshape(64, 64),
        np.where(np.eye(64) > 0, -np.inf, 0.1 * np.arange(64)).astype(np.float32),
    ],
    ids=["a bias", "too large", "too small", "infinite"],
)
def test_what_halves_do_not_hold_stays_as_it_is(array: np.ndarray, tmp_path: Path) -> None:
    kind = f"tensor<{'x'.join(map(str, array.shape))}xf32>"
    (tmp_path / "net.mlir").write_text(f"""
    func.func public @main(%x: {kind}) -> {kind} {{
      %w = stablehlo.constant {dense(array)}
      %0 = stablehlo.add %x, %w : {kind}
      return %0 : {kind}
    }}
    """)
    made = compiled(tmp_path / "net.mlir", "cpu", tmp_path / "net.vmfb")
    assert "changes nothing: no matrix" in "".join(made.report.notes)
    with load(made.module, device="edgert") as loaded:
        np.testing.assert_array_equal(loaded.main(np.zeros_like(array)), array)


def test_weights_in_a_file_of_their_own_are_refused(net: Path, tmp_path: Path) -> None:
    from edgec.exporters import export

    weights = WEIGHTS

    def apply(x):  # type: ignore[no-untyped-def]
        return x @ weights

    program = export(apply, (ADDED,), external_weights=tmp_path / "w.safetensors")
    program.save(tmp_path / "net.mlirbc")
    with pytest.raises(CompileError, match=r"are in w\.safetensors"):
        compiled(tmp_path / "net.mlirbc", "cpu", tmp_path / "net.vmfb")
