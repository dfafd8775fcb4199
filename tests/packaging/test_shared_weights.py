"""Variants of a package read what they have alike from one weights file."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.packaging import KINDS, Made, PackageOptions, make_package
from edgec.runtime import Golden, GoldenCall, Module
from edgec.runtime.errors import FileError, ModuleError
from edgec.toolchain import CompileOptions
from edgec.toolchain.compiling import large_constants
from tests.js.node import need_node, run_node, write_runtime_once
from tests.packaging.conftest import need, run

SIZE = 160
WEIGHTS = (np.arange(SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE) % 17 - 8) / 64
TABLE = (np.arange(400 * SIZE, dtype=np.float32).reshape(400, SIZE) % 29 - 14) / 32
X = np.array([3, 399], np.int32)
Y = TABLE[X] @ WEIGHTS


def _text() -> str:
    def dense(array: np.ndarray) -> str:
        return f'dense<"0x{array.tobytes().hex().upper()}"> : tensor<{_shape(array)}>'

    return f"""
func.func public @main(%i: tensor<2xi32>) -> tensor<2x{SIZE}xf32> {{
  %t = stablehlo.constant {dense(TABLE)}
  %w = stablehlo.constant {dense(WEIGHTS)}
  %n = stablehlo.reshape %i : (tensor<2xi32>) -> tensor<2x1xi32>
  %0 = "stablehlo.gather"(%t, %n) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, {SIZE}>}} : (tensor<400x{SIZE}xf32>, tensor<2x1xi32>)
    -> tensor<2x{SIZE}xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<2x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32>) -> tensor<2x{SIZE}xf32>
  return %1 : tensor<2x{SIZE}xf32>
}}
"""


def _shape(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape)) + "xf32"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "net.mlir"
    path.write_text(_text())
    call = GoldenCall(signature="main", inputs=(X,), outputs=(Y,))
    Golden(calls=(call,)).save(Golden.path_for(path))
    return path


@pytest.fixture(scope="module")
def made(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    options = PackageOptions(targets=("cpu:x86-64-v3", "cpu:x86-64", "cpu:arm64"))
    return make_package(program, "c", tmp_path_factory.mktemp("made") / "net-c", options)


PHONES = [target for target in KINDS["android"].targets if target.startswith("cpu:")]


@pytest.mark.parametrize("target", [*PHONES, "wasm"])
def test_every_kind_of_phone_and_a_page_lay_the_weights_out_alike(
    target: str, program: Path, tmp_path: Path
) -> None:
    here = large_constants(program, "cpu:x86-64", CompileOptions(), tmp_path)
    assert set(large_constants(program, target, CompileOptions(), tmp_path)) == set(here)


def test_a_constant_is_called_after_its_bytes(program: Path, tmp_path: Path) -> None:
    found = large_constants(program, "cpu:x86-64", CompileOptions(), tmp_path)
    assert TABLE.nbytes in {constant.size for constant in found.values()}
    again = large_constants(program, "cpu:arm64", CompileOptions(), tmp_path)
    (table,) = set(found) & set(again) & {k for k, c in found.items() if c.size == TABLE.nbytes}
    np.testing.assert_array_equal(found[table].array(tmp_path, table), TABLE)


def test_the_weights_are_in_the_package_once(made: Made) -> None:
    shared = made.manifest.weights
    assert shared is not None
    assert (shared.file, shared.size) == ("modules/net.safetensors", made.files[shared.file])
    assert shared.size >= TABLE.nbytes
    total = sum(made.files.values())
    assert total < 2 * (TABLE.nbytes + WEIGHTS.nbytes) + sum(
        size for file, size in made.files.items() if file.startswith("edgert/")
    )
    for variant in made.manifest.variants:
        facts = Module.read(made.folder / variant.file).facts.weights
        assert facts is not None
        assert facts.file == "net.safetensors"
    on_x86 = [check for target, check in made.checks.items() if "x86" in target]
    assert all(check.startswith("checked") for check in on_x86)


@pytest.mark.parametrize("device", ["edgert", "local-sync"])
def test_python_finds_the_weights_beside_the_modules(made: Made, device: str) -> None:
    with runtime.load(made.folder, device=device) as model:
        np.testing.assert_allclose(model.main(X), Y, rtol=1e-4, atol=1e-3)


def test_the_program_of_a_c_package_holds_them_once(made: Made, tmp_path: Path) -> None:
    need("cc")
    folder = made.folder
    program = tmp_path / "net"
    run(
        *("cc", "-std=c11", "-O0", "-w", "-Iedgert", "-I.", "net.c", "net_modules.S", "main.c"),
        *("edgert/edgert.c", "-lm", "-lpthread", "-o", program),
        cwd=folder,
    )
    assert program.read_bytes().count(TABLE.tobytes()) == 1
    X.tofile(tmp_path / "x.bin")
    said = run(program, tmp_path / "x.bin")
    (line,) = [line for line in said.splitlines() if not line.startswith("variant")]
    numbers = [float(word) for word in line.split()[1:] if word != "..."]
    np.testing.assert_allclose(numbers, Y[0, : len(numbers)], rtol=1e-4, atol=1e-3)


def test_a_page_downloads_what_its_variants_share_and_a_module_of_its_own(
    program: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    need_node()
    write_runtime_once(tmp_path_factory.mktemp("warm"))  # one process at a time compiles edgert
    options = PackageOptions(prove=True, targets=("wasm", "wasm:plain"))
    made = make_package(program, "web", tmp_path / "web", options)
    assert [proof.outcome for proof in made.proofs] == ["passed in node"] * 2
    shared = made.manifest.weights
    assert shared is not None
    assert TABLE.nbytes <= shared.size < TABLE.nbytes + WEIGHTS.nbytes
    (note,) = [note for note in made.notes if note.startswith("wasm:plain lays")]
    assert "0.1 MB" in note
    found, states, alone, given = run_node(
        """
        const states = [];
        const model = await load('manifest.json', { progress: (state) => states.push(state) });
        const [first] = await model.main(i);
        const last = states.at(-1);
        const alone = await load('net.wasm.vmfb').catch((error) => error.message);
        const other = await load('net.wasm.vmfb', { weights: 'net.safetensors' });
        print([Array.from(first), [last.loaded, last.total], alone,
          Array.from((await other.main(i))[Symbol.iterator]().next().value)]);
        """,
        made.folder,
        i=X.tolist(),
    )
    np.testing.assert_allclose(np.reshape(found, Y.shape), Y, rtol=1e-4, atol=1e-3)
    assert given == found
    assert states == [shared.size + made.manifest.variants[0].size] * 2
    assert "in a weights file: give it" in alone


def test_a_package_without_its_weights_or_with_others_is_refused(made: Made) -> None:
    shared = made.manifest.weights
    assert shared is not None
    file = made.folder / shared.file
    data = file.read_bytes()
    try:
        file.write_bytes(data + b"more")
        with pytest.raises(ModuleError, match="not the file that the manifest lists"):
            runtime.load(made.folder)
        file.unlink()
        with pytest.raises(FileError, match="cannot read the weights file"):
            runtime.load(made.folder)
    finally:
        file.write_bytes(data)


def test_one_variant_keeps_its_weights_inside(program: Path, tmp_path: Path) -> None:
    options = PackageOptions(targets=("cpu:x86-64",))
    alone = make_package(program, "c", tmp_path / "alone", options)
    assert alone.manifest.weights is None
    assert not [file for file in alone.files if file.endswith(".safetensors")]
    value = json.loads((tmp_path / "alone" / "manifest.json").read_text())
    assert value["weights"] is None
