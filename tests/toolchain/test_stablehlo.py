"""Portable artifacts, bytecode and text all read back as StableHLO; other bytes are refused."""

import io

import jax
import jax.numpy as jnp
import pytest
from iree.compiler import ir
from jaxlib.mlir.dialects import stablehlo

from edgec.runtime.errors import ProgramError
from edgec.toolchain.stablehlo import parse_stablehlo

TEXT = """
module {
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %a, %a : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def loop(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, v: jnp.sort(v @ jnp.ones((4, 4))), x)


def op_names(module: ir.Module) -> set[str]:
    names: set[str] = set()
    module.operation.walk(lambda op: (names.add(op.name), ir.WalkResult.ADVANCE)[1])
    return names


def test_text_stays_what_it_is() -> None:
    module = parse_stablehlo(TEXT, ir.Context())
    assert "stablehlo.add" in op_names(module)


@pytest.mark.parametrize("version", ["0.9.0", "1.0.0", "1.9.0", "1.17.0"])
def test_artifacts_of_every_age_become_stablehlo(version: str) -> None:
    artifact = stablehlo.serialize_portable_artifact_str(TEXT, version)
    module = parse_stablehlo(artifact, ir.Context())
    assert op_names(module) == {"builtin.module", "func.func", "stablehlo.add", "func.return"}


def test_the_whole_module_is_stablehlo_and_nothing_further() -> None:
    exported = jax.export.export(jax.jit(loop), platforms=("cpu",))(jnp.ones((2, 4)))
    module = parse_stablehlo(exported.mlir_module_serialized, ir.Context())
    names = op_names(module)
    assert {"stablehlo.while", "stablehlo.sort", "stablehlo.dot_general"} <= names
    assert {name.split(".")[0] for name in names} <= {"builtin", "func", "stablehlo", "chlo"}
    assert module.operation.verify()


def test_the_result_is_the_program_that_jaxlib_reads() -> None:
    exported = jax.export.export(jax.jit(loop), platforms=("cpu",))(jnp.ones((2, 4)))
    module = parse_stablehlo(exported.mlir_module_serialized, ir.Context())
    ours = module.operation.get_asm(enable_debug_info=False)
    stream = io.BytesIO(exported.mlir_module().encode())
    theirs = parse_stablehlo(stream.getvalue(), ir.Context())
    assert ours == theirs.operation.get_asm(enable_debug_info=False)


@pytest.mark.parametrize("data", [b"ML\xefR", b"hello", "func.func @x("])
def test_other_bytes_are_refused(data: bytes | str) -> None:
    with pytest.raises(ProgramError, match="no MLIR"):
        parse_stablehlo(data, ir.Context())


@pytest.mark.parametrize("data", [b"", bytes(100)], ids=["nothing", "zeros"])
def test_an_empty_program_is_refused(data: bytes) -> None:
    with pytest.raises(ProgramError, match="empty"):
        parse_stablehlo(data, ir.Context())
