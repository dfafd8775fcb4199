from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export, export_source
from edgec.runtime.errors import FileError, ProgramError, SourceError, UsageError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.program import Input, Parameter

WEIGHT = np.arange(512, dtype=np.float32)
TEXT = f"""
func.func private @add(%x: tensor<512xf32>) -> tensor<512xf32> {{
  %w = stablehlo.constant dense<"0x{WEIGHT.tobytes().hex()}"> : tensor<512xf32>
  %0 = stablehlo.add %x, %w : tensor<512xf32>
  return %0 : tensor<512xf32>
}}
func.func @plus(%x: tensor<512xf32>) -> tensor<512xf32> {{
  %0 = call @add(%x) : (tensor<512xf32>) -> tensor<512xf32>
  return %0 : tensor<512xf32>
}}
func.func @minus(%x: tensor<512xf32>) -> tensor<512xf32> {{
  %0 = stablehlo.negate %x : tensor<512xf32>
  return %0 : tensor<512xf32>
}}
"""


@pytest.fixture
def mlir(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    return path


def answered(program):
    """The program with answers computed by numpy."""
    x = np.linspace(0, 1, 512, dtype=np.float32)
    answers = {"plus": x + WEIGHT, "minus": -x}
    calls = tuple(
        GoldenCall(signature=f.signature.name, inputs=(x,), outputs=(answers[f.signature.name],))
        for f in program.info.functions
    )
    return replace(program, golden=Golden(calls=calls))


def test_text_becomes_a_portable_program(mlir: Path, replay) -> None:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    program = export_source(str(mlir))
    assert [f.signature.name for f in program.info.functions] == ["plus", "minus"]
    assert program.golden is None
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        assert stablehlo.deserialize_portable_artifact(context, program.bytecode)
    assert replay(answered(program)) == 0


def test_a_program_of_edgec_stays_what_it_is(tmp_path: Path) -> None:
    program = export(lambda x: {"y": x * 2}, (np.ones(3, np.float32),), name="twice")
    program.save(tmp_path / "twice.mlirbc")
    again = export_source(str(tmp_path / "twice.mlirbc"))
    assert again.info == program.info
    assert again.bytecode == program.bytecode
    assert again.golden is not None
    np.testing.assert_array_equal(again.golden.calls[0].outputs[0], [2, 2, 2])


def test_constants_of_a_finished_program_can_move_out(mlir: Path, tmp_path: Path, replay) -> None:
    from safetensors.numpy import load_file

    path = tmp_path / "w.safetensors"
    program = export_source(str(mlir), external_weights=path)
    plus, minus = program.info.functions
    assert plus.arguments == (Input(index=0), Parameter(name="w0"))
    assert minus.arguments == (Input(index=0),)
    np.testing.assert_array_equal(load_file(path)["w0"], WEIGHT)
    assert replay(answered(program)) == 0


def test_one_signature_can_be_kept(mlir: Path) -> None:
    program = export_source(str(mlir), signatures=("minus",))
    assert [f.signature.name for f in program.info.functions] == ["minus"]
    with pytest.raises(SourceError, match="has no signature times"):
        export_source(str(mlir), signatures=("times",))


def test_dimensions_of_a_finished_program_stay(mlir: Path) -> None:
    with pytest.raises(UsageError, match="is a program already"):
        export_source(str(mlir), dynamic=("batch=1..8",))


@pytest.mark.parametrize("content", ["", "hello", "func.func @f() -> tensor<2xf32> { return }"])
def test_what_is_no_program_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(content)
    with pytest.raises(ProgramError):
        export_source(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nothing"):
        export_source(str(tmp_path / "nothing.mlir"))
