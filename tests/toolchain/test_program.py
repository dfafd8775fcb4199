"""A program's description survives JSON, and its file is written with its golden answers."""

import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, ProgramError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.program import (
    Dialect,
    Function,
    Input,
    Output,
    Parameter,
    Program,
    ProgramInfo,
    Provenance,
    State,
    Weights,
)

X = TensorSpec(name="x", shape=(2,), dtype=DType.F32)
FUNCTION = Function(
    signature=Signature.flat("main", [X], [X]),
    arguments=(Parameter(name="w"), State(name="n"), Input(index=0)),
    results=(State(name="n"), Output(index=0)),
)
INFO = ProgramInfo(
    functions=(FUNCTION,),
    states=(TensorSpec(name="n", shape=(), dtype=DType.I32),),
    weights=Weights(scope="model", file="w.safetensors", names=("w",)),
    provenance=Provenance(framework="jax", versions={"jax": "0.10.2"}, source="model.py:f"),
    dialect=Dialect.TORCH,
)


def test_json_is_lossless() -> None:
    assert ProgramInfo.from_json(INFO.to_json()) == INFO


@pytest.mark.parametrize("key", list(json.loads(INFO.to_json())))
def test_each_missing_key_is_refused(key: str) -> None:
    value = json.loads(INFO.to_json())
    del value[key]
    with pytest.raises(ProgramError):
        ProgramInfo.from_json(json.dumps(value))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', "null"])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ProgramError):
        ProgramInfo.from_json(text)


@pytest.mark.parametrize(
    ("framework", "dtype", "needed"),
    [("torch", DType.F32, False), ("torch", DType.F64, True), ("jax", DType.F32, True)],
)
def test_doubles_count_where_the_author_wrote_them(
    framework: str, dtype: DType, needed: bool
) -> None:
    spec = TensorSpec(name="x", shape=(), dtype=dtype)
    info = ProgramInfo(
        functions=(
            Function(
                signature=Signature.flat("main", [spec], []),
                arguments=(Input(index=0),),
                results=(),
            ),
        ),
        provenance=Provenance(framework=framework, versions={}, source=""),
    )
    assert info.needs_doubles is needed


def test_two_functions_need_two_names() -> None:
    with pytest.raises(ProgramError, match="distinct"):
        ProgramInfo(functions=(FUNCTION, FUNCTION), provenance=INFO.provenance)


def test_saving_without_golden_answers_removes_stale_ones(tmp_path: Path) -> None:
    path = tmp_path / "m.mlirbc"
    one = np.ones(2, np.float32)
    golden = Golden(calls=(GoldenCall(signature="main", inputs=(one,), outputs=(one,)),))
    Program(bytecode=b"1", info=INFO, golden=golden).save(path)
    assert Golden.load(Golden.path_for(path)).calls[0].outputs[0].tolist() == [1, 1]
    saved = Program(bytecode=b"2", info=INFO).save(path)
    assert (saved.path, path.read_bytes()) == (path, b"2")
    assert not Golden.path_for(path).exists()


def _program(*answers: np.ndarray, name: str = "y", code: bytes = b"code") -> Program:
    """A program with these golden answers for its only output."""
    value = TensorSpec(name=name, shape=(2,), dtype=DType.of(answers[0].dtype))
    function = Function(
        signature=Signature.flat("main", [], [value]), arguments=(), results=(Output(index=0),)
    )
    calls = tuple(GoldenCall(signature="main", inputs=(), outputs=(a,)) for a in answers)
    info = ProgramInfo(functions=(function,), provenance=INFO.provenance)
    return Program(bytecode=code, info=info, golden=Golden(calls=calls))


def test_answers_that_prove_little_are_said() -> None:
    one, nothing = np.ones(2, np.float32), np.zeros(2, np.float32)
    assert _program(one, nothing).doubts == ()
    assert "hold NaN in y" in _program(one, np.array([1, np.nan], np.float32)).doubts[0]
    assert "every golden answer of main is 0 in y" in _program(nothing, nothing).doubts[0]
    tiny = np.array([0, 1e-39], np.float32)
    assert "every golden answer of main is denormal in y" in _program(tiny).doubts[0]
    assert _program(np.array([1e-39, 1e-30], np.float32)).doubts == ()
    assert _program(np.zeros(2, np.int32)).doubts == ()  # the first class may well be right
    assert _program(np.array([-np.inf, 0], np.float32)).doubts == ()  # masked out


def test_a_disk_that_is_full_leaves_the_program_and_its_answers_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.mlirbc"
    _program(np.ones(2, np.float32), code=b"old").save(path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before) == 2
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for failing in ("the answers", "the second file"):
        with monkeypatch.context() as patch:
            if failing == "the answers":
                patch.setattr(Golden, "to_bytes", lambda self: (_ for _ in ()).throw(full))
            else:
                patch.setattr("tempfile.mkstemp", _fails_at_the_second(full))
            with pytest.raises(FileError, match="No space left"):
                _program(np.zeros(2, np.float32), code=b"new").save(path)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def _fails_at_the_second(error: OSError) -> Callable[..., tuple[int, str]]:
    made = []
    make = tempfile.mkstemp

    def mkstemp(*args: Any, **kwargs: Any) -> tuple[int, str]:
        if made:
            raise error
        made.append(1)
        return make(*args, **kwargs)

    return mkstemp
