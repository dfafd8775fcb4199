"""What no target runs is refused before the compiler runs, with its place and the next step."""

import dataclasses
from pathlib import Path

import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.runtime.errors import CompileError, ProgramError
from edgec.toolchain.early_refusals import OPERATIONS
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.places import source_line
from edgec.toolchain.stablehlo import parse_stablehlo

SUM = """({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }}) {{{attributes}}} : (tensor<4x4xf32>) -> tensor<4x4xf32>"""
CALL = "stablehlo.custom_call @{name}(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>"
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
REFUSED = {
    "all_reduce": ('"stablehlo.all_reduce"(%x) ' + SUM.format(attributes=GROUPS), "other devices"),
    "all_gather": (
        f'"stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, {GROUPS}}} '
        ": (tensor<4x4xf32>) -> tensor<4x4xf32>",
        "other devices",
    ),
    "permute": (
        '"stablehlo.collective_permute"(%x) '
        "{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} "
        ": (tensor<4x4xf32>) -> tensor<4x4xf32>",
        "other devices",
    ),
    "cholesky": ("stablehlo.cholesky %x, lower = true : tensor<4x4xf32>", "factorisation"),
    "triangular_solve": (
        '"stablehlo.triangular_solve"(%x, %x) {left_side = true, lower = true, '
        "unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} "
        ": (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>",
        "solver",
    ),
    "lapack": (CALL.format(name="lapack_sgeev_ffi"), "needs an eigendecomposition"),
    "callback": (CALL.format(name="xla_ffi_python_cpu_callback"), "calls back into Python"),
    "sharding": (CALL.format(name="Sharding"), "split over several devices"),
    "foreign": (CALL.format(name="my_kernel"), "calls my_kernel"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name_with_its_line_before_the_compiler_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = REFUSED[name]
    program = tmp_path / "refused.mlir"
    program.write_text(
        "func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
        f"  %0 = {code}\n"
        "  return %0 : tensor<4x4xf32>\n}"
    )
    monkeypatch.setattr(
        "edgec.toolchain.compiling.steps.run_compiler", lambda *_, **__: pytest.fail("it ran")
    )
    with pytest.raises(CompileError, match=said) as caught:
        toolchain.compile(program, "cpu")
    assert caught.value.where == f"{program}:2"
    assert caught.value.hint
    assert "%" not in caught.value.what


@pytest.mark.parametrize("name", ["exponential", "floor", "cbrt", "sine"])
def test_functions_of_f64_are_refused_on_32_bit_arm_alone(name: str, tmp_path: Path) -> None:
    program = tmp_path / "wide.mlir"
    program.write_text(
        "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {\n"
        f"  %0 = stablehlo.{name} %x : tensor<4xf64>\n"
        "  return %0 : tensor<4xf64>\n}"
    )
    options = toolchain.CompileOptions(output=tmp_path / "m.vmfb", check=False)
    with pytest.raises(CompileError, match="of f64 has no code for cpu:armv7") as caught:
        toolchain.compile(program, "cpu:armv7", options)
    assert caught.value.where == f"{program}:2"
    program.write_text(program.read_text().replace("f64", "f32"))
    toolchain.compile(program, "cpu:armv7", options)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_are_refused_where_no_engine_takes_their_code_and_no_pass_widens_them(
    kind: str, tmp_path: Path
) -> None:
    program = tmp_path / "halves.mlir"
    program.write_text(
        f"""
func.func public @main(%a: tensor<8x{kind}>, %b: tensor<8x{kind}>) -> tensor<4x{kind}> {{
  %0 = stablehlo.multiply %a, %b : tensor<8x{kind}>
  %1 = stablehlo.slice %0 [0:4] : (tensor<8x{kind}>) -> tensor<4x{kind}>
  return %1 : tensor<4x{kind}>
}}
"""
    )
    options = toolchain.CompileOptions(output=tmp_path / "halves.vmfb")
    toolchain.compile(program, "wasm", options)
    plain = dataclasses.replace(options, disabled=("half-floats",))
    if kind == "bf16":
        toolchain.compile(program, "wasm", plain)
        return
    with pytest.raises(CompileError, match="multiply of f16 has no code for wasm") as caught:
        toolchain.compile(program, "wasm", plain)
    assert caught.value.where == f"{program}:3"
    assert "f32" in (caught.value.hint or "")


def test_the_place_is_the_innermost_that_is_the_users_own() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(
            """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @f(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(
    "call"(callsite("/env/site-packages/flax/linen.py":8:3 at "model.py":12:4)))
  return %0 : tensor<4xf32>
}""",
            context,
        )
        (call,) = (op for op in inside(module.operation) if op.name == "stablehlo.custom_call")
        assert source_line(call) == "model.py:12"


def test_every_refusal_says_why_and_what_next() -> None:
    assert all(why and hint for why, hint in OPERATIONS.values())


def test_an_element_type_without_a_counterpart_names_those_with_one(tmp_path: Path) -> None:
    program = tmp_path / "refused.mlir"
    program.write_text("func.func @main(%x: tensor<4xf8E5M2>) { return }")
    with pytest.raises(ProgramError, match="f8E5M2") as caught:
        toolchain.compile(program, "cpu")
    assert "bf16" in (caught.value.hint or "")
