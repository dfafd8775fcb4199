from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import Bundle, Entry, export
from edgec.runtime import check_golden
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ProgramError
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.passes import BindGlobals
from edgec.toolchain.program import (
    Dialect,
    Function,
    Input,
    Output,
    Parameter,
    ProgramInfo,
    Provenance,
    State,
    Weights,
)

X = TensorSpec(name="x", shape=(4,), dtype=DType.F32)
COUNT = TensorSpec(name="n", shape=(), dtype=DType.U8)
WEIGHTS = Weights(scope="model", file="w.safetensors", names=("layer.w",))


def info(
    *functions: Function,
    states: tuple[TensorSpec, ...] = (COUNT,),
    weights: Weights | None = WEIGHTS,
    dialect: Dialect = Dialect.STABLEHLO,
) -> ProgramInfo:
    return ProgramInfo(
        functions=functions,
        states=states,
        weights=weights,
        provenance=Provenance(framework="test", versions={}, source=""),
        dialect=dialect,
    )


MAIN = Function(
    signature=Signature.flat("main", [X], [X]),
    arguments=(Parameter(name="layer.w"), Input(index=0), State(name="n")),
    results=(State(name="n"), Output(index=0)),
)
BEFORE = """
func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>, %n: tensor<ui8>)
    -> (tensor<ui8>, tensor<4xf32>) {
  %0 = stablehlo.multiply %w, %x : tensor<4xf32>
  %1 = stablehlo.add %n, %n : tensor<ui8>
  return %1, %0 : tensor<ui8>, tensor<4xf32>
}
func.func @edgec_initial_state() -> tensor<ui8> {
  %0 = stablehlo.constant dense<3> : tensor<ui8>
  return %0 : tensor<ui8>
}
"""
AFTER = """
util.global private @__parameter.layer.w
  = #flow.parameter.named<"model"::"layer.w"> : tensor<4xf32>
util.global private mutable @__state.n : tensor<i8>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = util.global.load @__parameter.layer.w : tensor<4xf32>
  %bits = util.global.load @__state.n : tensor<i8>
  %n = stablehlo.bitcast_convert %bits : (tensor<i8>) -> tensor<ui8>
  %0 = stablehlo.multiply %w, %x : tensor<4xf32>
  %1 = stablehlo.add %n, %n : tensor<ui8>
  %2 = stablehlo.bitcast_convert %1 : (tensor<ui8>) -> tensor<i8>
  util.global.store %2, @__state.n : tensor<i8>
  return %0 : tensor<4xf32>
}
func.func private @edgec_initial_state() -> tensor<i8> {
  %0 = stablehlo.constant dense<3> : tensor<ui8>
  %1 = stablehlo.bitcast_convert %0 : (tensor<ui8>) -> tensor<i8>
  return %1 : tensor<i8>
}
util.initializer {
  %0 = func.call @edgec_initial_state() : () -> tensor<i8>
  util.global.store %0, @__state.n : tensor<i8>
  util.return
}
func.func @edgec_get_state() -> tensor<ui8> {
  %0 = util.global.load @__state.n : tensor<i8>
  %1 = stablehlo.bitcast_convert %0 : (tensor<i8>) -> tensor<ui8>
  return %1 : tensor<ui8>
}
func.func @edgec_set_state(%n: tensor<ui8>) {
  %0 = stablehlo.bitcast_convert %n : (tensor<ui8>) -> tensor<i8>
  util.global.store %0, @__state.n : tensor<i8>
  return
}
"""
TORCH_BEFORE = """
func.func @main(%w: !torch.vtensor<[4],f32>, %x: !torch.vtensor<[4],f32>,
    %n: !torch.vtensor<[],ui8>) -> (!torch.vtensor<[],ui8>, !torch.vtensor<[4],f32>) {
  %0 = torch.aten.mul.Tensor %w, %x
    : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  return %n, %0 : !torch.vtensor<[],ui8>, !torch.vtensor<[4],f32>
}
func.func @edgec_initial_state() -> tensor<i8> {
  %0 = arith.constant dense<3> : tensor<i8>
  return %0 : tensor<i8>
}
"""
TORCH_AFTER = """
util.global private @__parameter.layer.w
  = #flow.parameter.named<"model"::"layer.w"> : tensor<4xf32>
util.global private mutable @__state.n : tensor<i8>
func.func @main(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %0 = util.global.load @__parameter.layer.w : tensor<4xf32>
  %w = torch_c.from_builtin_tensor %0 : tensor<4xf32> -> !torch.vtensor<[4],f32>
  %1 = util.global.load @__state.n : tensor<i8>
  %n = torch_c.from_builtin_tensor %1 : tensor<i8> -> !torch.vtensor<[],ui8>
  %2 = torch.aten.mul.Tensor %w, %x
    : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %3 = torch_c.to_builtin_tensor %n : !torch.vtensor<[],ui8> -> tensor<i8>
  util.global.store %3, @__state.n : tensor<i8>
  return %2 : !torch.vtensor<[4],f32>
}
func.func private @edgec_initial_state() -> tensor<i8> {
  %0 = arith.constant dense<3> : tensor<i8>
  return %0 : tensor<i8>
}
util.initializer {
  %0 = func.call @edgec_initial_state() : () -> tensor<i8>
  util.global.store %0, @__state.n : tensor<i8>
  util.return
}
func.func @edgec_get_state() -> tensor<i8> {
  %0 = util.global.load @__state.n : tensor<i8>
  return %0 : tensor<i8>
}
func.func @edgec_set_state(%n: tensor<i8>) {
  util.global.store %n, @__state.n : tensor<i8>
  return
}
"""


def rewritten(text: str, program: ProgramInfo) -> str:
    module = ir.Module.parse(text, ir.Context())
    BindGlobals(info=program).run(module)
    assert module.operation.verify()
    return str(module)


def test_parameters_and_state_become_globals():
    assert rewritten(BEFORE, info(MAIN)) == str(ir.Module.parse(AFTER, ir.Context()))


def test_torch_tensors_are_cast_at_the_globals():
    program = info(MAIN, dialect=Dialect.TORCH)
    assert rewritten(TORCH_BEFORE, program) == str(ir.Module.parse(TORCH_AFTER, ir.Context()))


def test_a_program_of_inputs_and_outputs_stays_as_it_is():
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    plain = Function(
        signature=Signature.flat("main", [X], [X]),
        arguments=(Input(index=0),),
        results=(Output(index=0),),
    )
    expected = str(ir.Module.parse(text, ir.Context()))
    assert rewritten(text, info(plain, states=(), weights=None)) == expected


def test_functions_share_one_global_a_parameter():
    two = """
    func.func @a(%w: tensor<4xf32>) -> tensor<4xf32> { return %w : tensor<4xf32> }
    func.func @b(%w: tensor<4xf32>) -> tensor<4xf32> { return %w : tensor<4xf32> }
    """
    functions = [
        Function(
            signature=Signature.flat(name, [], [X]),
            arguments=(Parameter(name="layer.w"),),
            results=(Output(index=0),),
        )
        for name in "ab"
    ]
    text = rewritten(two, info(*functions, states=()))
    assert text.count("util.global private") == 1
    assert text.count("util.global.load") == 2


@pytest.mark.parametrize(
    ("text", "program", "words"),
    [
        (BEFORE.replace("@main", "@other"), info(MAIN), "function main"),
        (BEFORE.replace("@edgec_initial_state", "@other"), info(MAIN), "edgec_initial_state"),
        (BEFORE, info(MAIN, weights=None), "weights file"),
        (BEFORE, info(MAIN, states=()), "does not declare"),
        (BEFORE, info(MAIN, states=(COUNT, X)), "1 values for 2 states"),
        (
            BEFORE,
            info(
                Function(
                    signature=MAIN.signature,
                    arguments=MAIN.arguments[:2],
                    results=MAIN.results,
                )
            ),
            "3 arguments and 2 results",
        ),
    ],
)
def test_code_that_does_not_fit_its_description_is_refused(
    text: str, program: ProgramInfo, words: str
):
    with pytest.raises(ProgramError, match=words):
        rewritten(text, program)


def test_states_that_begin_alike_are_not_one_memory(tmp_path: Path) -> None:
    """Both are updated in place, and the compiler keeps equal constants once."""
    import jax

    def step(state, row, at):
        first = jax.lax.dynamic_update_slice(state["first"], row, (at, 0))
        second = jax.lax.dynamic_update_slice(state["second"], 2 * row, (at, 0))
        return {"first": first, "second": second}, first.sum(0) + second.sum(0)

    zeros, row = np.zeros((64, 64), np.float32), np.ones((1, 64), np.float32)
    program = export(
        Bundle(
            (Entry(step, (row, np.int32(3)), name="step", updates_state=True),),
            state={"first": zeros, "second": zeros},
        )
    )
    assert program.golden is not None
    path = tmp_path / "two.vmfb"
    module = compile(program, "cpu", CompileOptions(output=path, check=False))
    assert b"step_dispatch" in path.read_bytes()
    assert b"initializer" not in path.read_bytes()  # filled, and by no kernel
    assert check_golden(module, program.golden).ok
