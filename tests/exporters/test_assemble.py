from dataclasses import replace

import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters.assemble import assemble
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError
from edgec.runtime.signature import Dim, Signature, TensorSpec
from edgec.toolchain.program import (
    Dialect,
    Input,
    Output,
    Parameter,
    ProgramInfo,
    Provenance,
    State,
)
from edgec.toolchain.stablehlo import parse_stablehlo

PROVENANCE = Provenance(framework="none", versions={}, source="by hand")
SCALE = """
func.func private @helper(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %x, %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func public @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @helper(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
COUNT = """
func.func @main(%n: tensor<i32>, %x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %0 = stablehlo.add %n, %x : tensor<i32>
  return %0, %0 : tensor<i32>, tensor<i32>
}
"""


def spec(name: str, shape: tuple[int, ...] = (4,), dtype: DType = DType.F32) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype)


TORCH = """
func.func @main(%w: !torch.vtensor<[4],f32>, %n: !torch.vtensor<[],si64>,
                %x: !torch.vtensor<[?],f32>)
    -> (!torch.vtensor<[],si64>, !torch.vtensor<[?],f32>) {
  %one = torch.constant.int 1
  %none = torch.constant.none
  %0 = torch.aten.add.Scalar %n, %one, %one
    : !torch.vtensor<[],si64>, !torch.int, !torch.int -> !torch.vtensor<[],si64>
  %1 = torch.aten.sum %w, %none
    : !torch.vtensor<[4],f32>, !torch.none -> !torch.vtensor<[],f32>
  %2 = torch.aten.mul.Tensor %x, %1
    : !torch.vtensor<[?],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[?],f32>
  %3 = torch.aten.mul.Tensor %2, %n
    : !torch.vtensor<[?],f32>, !torch.vtensor<[],si64> -> !torch.vtensor<[?],f32>
  return %0, %3 : !torch.vtensor<[],si64>, !torch.vtensor<[?],f32>
}
"""


def scale(name: str, weight: np.ndarray, text: str = SCALE) -> TracedFunction:
    x = np.arange(4, dtype=np.float32)
    return TracedFunction(
        module=text,
        dialect=Dialect.STABLEHLO,
        signature=Signature.flat(name, [spec("x")], [spec("y")]),
        arguments=(Parameter(name="w"), Input(index=0)),
        results=(Output(index=0),),
        parameters={"w": weight},
        calls=(TracedCall(inputs=(x,), outputs=(x * weight,)),),
    )


def count(name: str, calls: int = 0) -> TracedFunction:
    scalar = [spec("x", (), DType.I32)]
    one = np.int32(1)
    return TracedFunction(
        module=COUNT,
        dialect=Dialect.STABLEHLO,
        signature=Signature.flat(name, scalar, scalar),
        arguments=(State(name="n"), Input(index=0)),
        results=(State(name="n"), Output(index=0)),
        states={"n": np.array(5, np.int32)},
        calls=(TracedCall(inputs=(np.array(one),), outputs=(np.array(one),)),) * calls,
    )


def text_of(bytecode: bytes) -> str:
    with ir.Context() as context:
        return str(parse_stablehlo(bytecode, context).operation.get_asm())


def test_the_file_is_a_portable_artifact_that_jaxlib_reads() -> None:
    from jaxlib.mlir import ir as jax_ir
    from jaxlib.mlir.dialects import stablehlo

    program = assemble([scale("main", np.ones(4, np.float32))], provenance=PROVENANCE)
    with jax_ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, program.bytecode)
        described = jax_ir.StringAttr(module.operation.attributes["edgec.program"]).value
    assert ProgramInfo.from_json(described) == program.info


def test_a_weight_becomes_a_constant_and_leaves_the_arguments() -> None:
    weight = np.array([0.5, 1.5, 2.5, 3.5], np.float32)
    program = assemble([scale("main", weight)], provenance=PROVENANCE)
    (function,) = program.info.functions
    assert function.arguments == (Input(index=0),)
    text = text_of(program.bytecode)
    assert "dense<[5.000000e-01, 1.500000e+00, 2.500000e+00, 3.500000e+00]>" in text
    assert "@main(%arg0: tensor<4xf32>)" in text


def test_functions_with_equal_private_names_are_merged_apart() -> None:
    other = SCALE.replace("stablehlo.multiply", "stablehlo.subtract")
    weight = np.ones(4, np.float32)
    program = assemble(
        [scale("times", weight), scale("minus", weight, other)], provenance=PROVENANCE
    )
    text = text_of(program.bytecode)
    assert "call @helper(" in text
    assert "call @minus__helper(" in text
    assert [f.signature.name for f in program.info.functions] == ["times", "minus"]
    assert "@main" not in text


def test_a_private_function_may_have_the_signature_s_name() -> None:
    program = assemble([scale("helper", np.ones(4, np.float32))], provenance=PROVENANCE)
    assert "func.func public @helper" in text_of(program.bytecode)
    assert "call @helper__helper(" in text_of(program.bytecode)


def test_code_whose_results_have_other_sizes_than_the_framework_s_is_refused() -> None:
    traced = replace(
        scale("main", np.ones(4, np.float32)),
        signature=Signature.flat("main", [spec("x")], [spec("y", (2, 2))]),
    )
    with pytest.raises(ExportError, match=r"y of main has the shape \(2, 2\).*and \(4,\)"):
        assemble([traced], provenance=PROVENANCE)


def test_a_shared_weight_is_in_the_file_once() -> None:
    weight = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
    text = SCALE.replace("4xf32", "300x300xf32")
    traced = []
    for name in ("first", "second"):
        specs = [spec("x", (300, 300))]
        traced.append(
            TracedFunction(
                module=text,
                dialect=Dialect.STABLEHLO,
                signature=Signature.flat(name, specs, specs),
                arguments=(Parameter(name="w"), Input(index=0)),
                results=(Output(index=0),),
                parameters={"w": weight.copy()},
            )
        )
    program = assemble(traced, provenance=PROVENANCE)
    assert weight.nbytes < len(program.bytecode) < 1.1 * weight.nbytes


def test_external_weights_stay_arguments_and_equal_names_with_other_values_split(tmp_path) -> None:
    from safetensors.numpy import load_file

    one, two = np.ones(4, np.float32), np.full(4, 2, np.float32)
    path = tmp_path / "w.safetensors"
    program = assemble(
        [scale("a", one), scale("b", two)],
        provenance=PROVENANCE,
        external_weights=path,
        folder=tmp_path / "programs",
    )
    assert program.info.weights is not None
    assert program.info.weights.file == "../w.safetensors"
    assert program.info.weights.names == ("w", "b.w")
    assert program.info.functions[1].arguments == (Parameter(name="b.w"), Input(index=0))
    stored = load_file(path)
    np.testing.assert_array_equal(stored["w"], one)
    np.testing.assert_array_equal(stored["b.w"], two)


def test_an_unused_parameter_is_dropped(tmp_path) -> None:
    text = SCALE.replace("call @helper(%x, %w)", "call @helper(%x, %x)")
    program = assemble(
        [scale("main", np.ones(4, np.float32), text)],
        provenance=PROVENANCE,
        external_weights=tmp_path / "w.irpa",
    )
    assert program.info.functions[0].arguments == (Input(index=0),)
    assert program.info.weights is None
    assert not (tmp_path / "w.irpa").exists()


def test_state_has_its_first_value_in_a_function_of_its_own() -> None:
    program = assemble([count("up"), count("again")], provenance=PROVENANCE)
    assert [str(s) for s in program.info.states] == ["n: i32[]"]
    text = text_of(program.bytecode)
    assert "@edgec_initial_state() -> tensor<i32>" in text
    assert "dense<5> : tensor<i32>" in text


@pytest.mark.parametrize("weights", [None, "w.safetensors"])
def test_the_torch_dialect_has_weights_and_state_too(tmp_path, replay, weights) -> None:
    w, x = np.arange(4, dtype=np.float32), np.ones(2, np.float32)
    shape = (Dim(name="n", minimum=1),)
    inputs = [TensorSpec(name="x", shape=shape, dtype=DType.F32)]
    traced = TracedFunction(
        module=TORCH,
        dialect=Dialect.TORCH,
        signature=Signature.flat("main", inputs, inputs),
        arguments=(Parameter(name="w"), State(name="n"), Input(index=0)),
        results=(State(name="n"), Output(index=0)),
        parameters={"w": w},
        states={"n": np.array(3, np.int64)},
        calls=tuple(TracedCall(inputs=(x,), outputs=(x * w.sum() * n,)) for n in (3, 4, 5)),
    )
    file = None if weights is None else tmp_path / weights
    program = assemble([traced], provenance=PROVENANCE, external_weights=file)
    assert program.info.dialect is Dialect.TORCH
    assert (program.info.weights is None) == (weights is None)
    assert replay(program) == 0


def test_golden_calls_of_several_functions_go_in_rounds() -> None:
    program = assemble([count("a", 2), count("b", 3)], provenance=PROVENANCE)
    assert program.golden is not None
    assert [c.signature for c in program.golden.calls] == ["a", "b", "a", "b", "b"]


def test_constants_of_every_dtype_keep_their_bits() -> None:
    # The compiler crashes on complex<f64>.
    dtypes = [dtype for dtype in DType if dtype is not DType.C128]
    values = [(np.arange(6).reshape(2, 3) % 3).astype(dtype.numpy) for dtype in dtypes]
    kinds = [f"tensor<2x3x{dtype.mlir}>" for dtype in dtypes]
    names = [f"w_{dtype.value}" for dtype in dtypes]
    takes = ", ".join(f"%{n}: {k}" for n, k in zip(names, kinds, strict=True))
    gives = ", ".join(kinds)
    returns = ", ".join(f"%{n}" for n in names)
    outputs = [spec(n, (2, 3), d) for n, d in zip(names, dtypes, strict=True)]
    traced = TracedFunction(
        module=f"func.func public @main({takes}) -> ({gives}) {{ return {returns} : {gives} }}",
        dialect=Dialect.STABLEHLO,
        signature=Signature.flat("main", [], outputs),
        arguments=tuple(Parameter(name=n) for n in names),
        results=tuple(Output(index=i) for i in range(len(names))),
        parameters=dict(zip(names, values, strict=True)),
    )
    program = assemble([traced], provenance=PROVENANCE)
    answers = run_with_iree(program.bytecode)
    for dtype, value, answer in zip(dtypes, values, answers, strict=True):
        assert answer.tobytes() == value.tobytes(), dtype


def run_with_iree(bytecode: bytes) -> list[np.ndarray]:
    """The results of `main` without arguments, by IREE alone."""
    import iree.runtime as rt
    from iree.compiler import compile_str

    flags = ["--iree-input-demote-f64-to-f32=false", "--iree-llvmcpu-target-cpu=host"]
    module = compile_str(
        bytecode, input_type="auto", target_backends=["llvm-cpu"], extra_args=flags
    )
    config = rt.Config("local-sync")
    vm = rt.VmModule.copy_buffer(config.vm_instance, module)
    return [np.asarray(r) for r in rt.load_vm_module(vm, config)["main"]()]


def test_roles_that_do_not_fit_the_code_are_refused() -> None:
    traced = scale("main", np.ones(4, np.float32))
    broken = TracedFunction(
        module=traced.module,
        dialect=traced.dialect,
        signature=traced.signature,
        arguments=(Input(index=0),),
        results=traced.results,
    )
    with pytest.raises(ExportError, match="2 arguments and 1 results"):
        assemble([broken], provenance=PROVENANCE)
