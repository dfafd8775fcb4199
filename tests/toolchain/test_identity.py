"""A language model's word: another for another program or other weights, wherever they lie."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from edgec.runtime import DType, Signature, TensorSpec
from edgec.runtime.module import IDENTITY_WIDTH
from edgec.runtime.text import TextFacts
from edgec.toolchain.compiling.identity import identity_of
from edgec.toolchain.program import Function, Input, Output, Program, ProgramInfo, Provenance
from edgec.toolchain.weights_file import write_weights

TOKEN = TensorSpec(name="token", shape=(), dtype=DType.I32)
PROGRAM = Program(
    bytecode=b"a program",
    info=ProgramInfo(
        functions=(
            Function(
                signature=Signature.flat("decode", [TOKEN], [TOKEN]),
                arguments=(Input(index=0),),
                results=(Output(index=0),),
            ),
        ),
        provenance=Provenance(framework="torch", versions={}, source="hf:net"),
        text=TextFacts(context=8, prefill=(4,), vocabulary=9, stop=(2,), packed=""),
    ),
)


def _weights(path: Path, last: float) -> Path:
    write_weights({"a": np.array([1, 2, last], np.float32)}, path)
    return path


def test_one_weight_that_differs_makes_another_word(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    one = identity_of(PROGRAM, _weights(tmp_path / "a.safetensors", 3))
    same = identity_of(PROGRAM, _weights(tmp_path / "elsewhere" / "b.safetensors", 3))
    other = identity_of(PROGRAM, _weights(tmp_path / "c.safetensors", 4))
    assert one == same != other
    assert len(one) == len(other) == IDENTITY_WIDTH


def test_another_program_makes_another_word() -> None:
    other = replace(PROGRAM, bytecode=b"another program")
    assert identity_of(PROGRAM, None) == identity_of(PROGRAM, None) != identity_of(other, None)


def test_without_weights_or_text_there_is_none(tmp_path: Path) -> None:
    assert identity_of(PROGRAM, tmp_path / "missing.safetensors") == ""
    plain = replace(PROGRAM, info=replace(PROGRAM.info, text=None))
    assert identity_of(plain, None) == ""
