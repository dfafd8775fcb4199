"""Sizes and choices that an ONNX file leaves open: what is taken, and what is said."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export, export_source
from edgec.exporters.open_sizes import with_guesses
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain import run_passes
from edgec.toolchain.program import Dialect, Program

Replay = Callable[[Program], float]
F, N, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def saved(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    output: onnx.ValueInfoProto,
    **constants: np.ndarray,
) -> str:
    values = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "test", inputs, [output], values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = folder / "model.onnx"
    onnx.save(model, path)
    return str(path)


def value(name: str, kind: int, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def test_a_nameless_size_that_must_be_another_one_is(tmp_path: Path) -> None:
    """The state's batch is the sound's, which NumPy's broadcasting would forgive."""
    nodes = [
        helper.make_node("Gather", ["state", "first"], ["row"], axis=0),
        helper.make_node("Concat", ["row", "x"], ["joined"], axis=1),
        helper.make_node("ReduceSum", ["joined", "along"], ["y"], keepdims=0),
    ]
    path = saved(
        tmp_path,
        nodes,
        [value("x", F, None, None), value("state", F, 2, None, 4)],
        value("y", F, None),
        first=np.array(0),
        along=np.array([1]),
    )
    (function,) = export_source(path).info.functions
    assert [spec.shape for spec in function.signature.inputs] == [(1, 64), (2, 1, 4)]


def test_sizes_at_which_something_inside_is_empty_are_not_taken(tmp_path: Path) -> None:
    """The sum of nothing is 0, which proves nothing of what comes before it."""
    nodes = [
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["late"]),
        helper.make_node("ReduceSum", ["late", "axis"], ["y"], keepdims=0),
    ]
    path = saved(
        tmp_path,
        nodes,
        [value("x", F, 1, "length")],
        value("y", F, 1),
        start=np.array([100]),
        end=np.array([10**6]),
        axis=np.array([1]),
    )
    (function,) = export_source(path).info.functions
    assert function.signature.inputs[0].shape == (1, 128)


def test_where_the_file_fixes_all_sizes_something_inside_may_be_empty(
    tmp_path: Path, replay: Replay
) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "zero", "all", "axis"], ["turned"]),
        helper.make_node("Slice", ["x", "all", "far", "axis"], ["rest"]),
        helper.make_node("Neg", ["turned"], ["negative"]),
        helper.make_node("Concat", ["negative", "rest"], ["y"], axis=1),
    ]
    numbers = {"zero": 0, "all": 5, "far": 10**6, "axis": 1}
    constants = {name: np.array([number]) for name, number in numbers.items()}
    path = saved(tmp_path, nodes, [value("x", F, 2, 5)], value("y", F, 2, 5), **constants)
    assert replay(export_source(path)) == 0


def branch(name: str, shape: str) -> onnx.GraphProto:
    nodes = [
        helper.make_node("Reshape", ["x", shape], [f"{name}_parts"]),
        helper.make_node("ReduceMax", [f"{name}_parts"], [name], keepdims=0),
    ]
    return helper.make_graph(nodes, name, [], [value(name, F)])


def test_a_choice_between_branches_of_other_sizes_is_made_and_said(
    tmp_path: Path, replay: Replay, caplog: pytest.LogCaptureFixture
) -> None:
    """No sound has a length that both branches take, so the rate is part of the program."""
    nodes = [
        helper.make_node("Less", ["rate", "hundred"], ["slow"]),
        helper.make_node(
            "If",
            ["slow"],
            ["y"],
            then_branch=branch("halves", "two"),
            else_branch=branch("fifths", "five"),
        ),
    ]
    path = saved(
        tmp_path,
        nodes,
        [value("x", F, 1, 128), value("rate", N)],
        value("y", F),
        hundred=np.array(100),
        two=np.array([2, 64]),
        five=np.array([5, 20]),
    )
    with caplog.at_level(logging.WARNING):
        program = export_source(path)
    assert [spec.name for spec in program.info.functions[0].signature.inputs] == ["x"]
    assert "rate of main decide shapes or branches" in caplog.text
    assert replay(program) < 1e-6


def test_a_refusal_says_which_sizes_were_guessed() -> None:
    error = UnsupportedOp("no", hint="do this")
    said = str(with_guesses(error, {"x": (1, "length", None)}, {"x": (1, 64, 7)}).hint)
    assert said.startswith("do this; sizes were guessed (x:1 as 64, x:2 as 7)")
    assert "--inputs" in said
    assert with_guesses(UnsupportedOp("no", hint="h"), {}, {"x": (1,)}).hint == "h"


def test_a_program_in_another_dialect_says_what_kept_it_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "test",
        [value("x", F, "n", 4)],
        [value("y", F, "n", 4)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    with caplog.at_level(logging.WARNING):
        program = export(model, (np.ones((2, 4), np.float32),), dynamic="x:0=n=1..8", chunk=0)
    assert program.info.dialect is Dialect.TORCH
    assert "no kernel of edgec's own is placed: sizes are open" in caplog.text
    (note,) = run_passes(program, "cpu").notes
    assert "in the torch dialect" in note
    assert "mends nothing that the compiler is known to get wrong" in note
    assert "sizes are open" in note


def test_sequences_are_as_long_as_there_is_room(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["sound_lens", "last"], ["lens"]),
        helper.make_node("Less", ["steps", "lens"], ["inside"]),
        helper.make_node("Where", ["inside", "sound", "zero"], ["y"]),
    ]
    path = saved(
        tmp_path,
        nodes,
        [value("sound", F, "batch", "n"), value("sound_lens", N, "batch")],
        value("y", F, "batch", "n"),
        last=np.array([1]),
        steps=np.arange(64)[None],
        zero=np.float32(0),
    )
    golden = export_source(path).golden
    assert golden is not None
    (call,) = golden.calls
    assert call.inputs[1].tolist() == [64]
    np.testing.assert_array_equal(call.outputs[0], call.inputs[0])
