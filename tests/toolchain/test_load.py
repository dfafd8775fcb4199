import hashlib
from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export
from edgec.runtime.errors import CompileError, FileError, ProgramError
from edgec.runtime.golden import Golden
from edgec.toolchain import Program, load_program
from edgec.toolchain.portable import portable_version


def test_text_that_other_tools_wrote_gets_flat_signatures(matmul: Path):
    program = load_program(matmul)
    assert [str(function.signature) for function in program.info.functions] == [
        "main(arg0: f32[4, 16], arg1: f32[16, 8]) -> (out0: f32[4, 8])"
    ]
    assert program.path == matmul
    assert program.golden is None


def test_portable_bytecode_from_jax_is_read(tmp_path: Path):
    jax = pytest.importorskip("jax")
    shape = jax.ShapeDtypeStruct((2, 3), "float32")
    exported = jax.export.export(jax.jit(lambda image: image * 2), platforms=("cpu",))(shape)
    path = tmp_path / "jax.mlirbc"
    path.write_bytes(exported.mlir_module_serialized)
    program = load_program(path)
    assert str(program.info.functions[0].signature) == (
        "main(image: f32[2, 3]) -> (out0: f32[2, 3])"
    )


def test_lapack_in_bytecode_that_cannot_be_read_is_explained(tmp_path: Path):
    jax = pytest.importorskip("jax")
    shape = jax.ShapeDtypeStruct((4, 4), "float32")
    checks = [jax.export.DisabledSafetyCheck.custom_call("lapack_spotrf_ffi")]
    exported = jax.export.export(
        jax.jit(jax.numpy.linalg.cholesky), platforms=("cpu",), disabled_checks=checks
    )(shape)
    path = tmp_path / "cholesky.mlirbc"
    path.write_bytes(exported.mlir_module_serialized)
    with pytest.raises(CompileError, match="Cholesky"):
        load_program(path)


def test_a_second_read_needs_no_child(matmul: Path, monkeypatch: pytest.MonkeyPatch):
    first = load_program(matmul)
    monkeypatch.setattr("edgec.toolchain.load.call", None)
    assert load_program(matmul).info == first.info


def test_answers_of_another_program_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    def exported(factor: float) -> Program:
        return export(lambda image: image * factor, (np.ones((2, 3), np.float32),))

    first, second = tmp_path / "first.mlirbc", tmp_path / "second.mlirbc"
    exported(2.0).save(first)
    exported(3.0).save(second)
    assert load_program(first).golden.program == hashlib.sha256(first.read_bytes()).hexdigest()
    assert not caplog.records
    Golden.path_for(second).replace(Golden.path_for(first))
    load_program(first)
    (said,) = caplog.messages
    assert "first.golden.npz holds answers that were written with another program" in said


def test_the_version_of_portable_bytecode_is_read(tmp_path: Path, matmul: Path):
    jax = pytest.importorskip("jax")
    shape = jax.ShapeDtypeStruct((2, 3), "float32")
    exported = jax.export.export(jax.jit(jax.numpy.tanh), platforms=("cpu",))(shape)
    version = portable_version(exported.mlir_module_serialized)
    assert f"StableHLO_v{version}".encode() in exported.mlir_module_serialized[:40]
    assert all(part.isdigit() for part in version.split("."))
    assert portable_version(matmul.read_bytes()) == ""
    assert portable_version(b"ML\xefR") == ""


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"ML\xefR", b"ML\xefR" + bytes(range(256)), b"func.func @m("]
)
def test_what_is_no_program_is_refused(tmp_path: Path, data: bytes):
    path = tmp_path / "damaged.mlirbc"
    path.write_bytes(data)
    with pytest.raises(ProgramError):
        load_program(path)


def test_a_missing_file_is_an_error(tmp_path: Path):
    with pytest.raises(FileError, match="none"):
        load_program(tmp_path / "none.mlirbc")
