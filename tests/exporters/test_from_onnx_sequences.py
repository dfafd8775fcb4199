"""Sequences of tensors in ONNX models, whose length is known, are tensors."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Y = -X[:1]


def model(nodes, inputs, output, numbers=(), shape=None):
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs]
    whole = [helper.make_tensor_value_info(n, TensorProto.INT64, np.shape(a)) for n, a in numbers]
    kind, name = output
    found = helper.make_tensor_value_info(name, kind, shape)
    graph = helper.make_graph(nodes, "sequences", [*given, *whole], [found])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def made(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))


CASES = {
    "put in and taken out": (
        [
            made("SequenceEmpty", "", "s0"),
            made("SequenceInsert", "s0 x", "s1"),
            made("SequenceInsert", "s1 y", "s2"),
            made("SequenceInsert", "s2 z at", "s3"),
            made("SequenceErase", "s3", "s4"),
            made("SequenceAt", "s4 from", "out"),
        ],
        ({"at": -1, "from": -1}, lambda x, y: 2 * x),
    ),
    "side by side": (
        [
            made("SequenceConstruct", "x z x", "s"),
            made("ConcatFromSequence", "s", "out", axis=-1),
        ],
        ({}, lambda x, y: np.concatenate([x, 2 * x, x], -1)),
    ),
    "stacked": (
        [
            made("SequenceConstruct", "x z", "s"),
            made("ConcatFromSequence", "s", "out", axis=-1, new_axis=1),
        ],
        ({}, lambda x, y: np.stack([x, 2 * x], -1)),
    ),
    "of single lines": (
        [
            made("SplitToSequence", "z", "s", axis=1, keepdims=0),
            made("SequenceAt", "s from", "out"),
        ],
        ({"from": 2}, lambda x, y: 2 * x[:, 2]),
    ),
    "of parts": (
        [
            made("SplitToSequence", "z sizes", "s", axis=2),
            made("SequenceAt", "s from", "out"),
        ],
        ({"sizes": [1, 3], "from": 1}, lambda x, y: 2 * x[:, :, 1:]),
    ),
    "of parts of one size": (
        [
            made("SplitToSequence", "z sizes", "s", axis=2),
            made("SequenceAt", "s from", "out"),
        ],
        ({"sizes": 3, "from": 1}, lambda x, y: 2 * x[:, :, 3:]),
    ),
    "of constants": (
        [
            constant("a", np.ones((2, 3, 4), np.float32)),
            made("SequenceConstruct", "a a a", "s"),
            made("SequenceAt", "s from", "b"),
            made("Add", "b z", "out"),
        ],
        ({"from": 1}, lambda x, y: 1 + 2 * x),
    ),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize(
    ("case", "held"),
    [*((case, True) for case in CASES), ("put in and taken out", False), ("of parts", False)],
)
def test_a_sequence_of_known_length_is_its_tensors(case: str, held: bool, replay: Replay) -> None:
    nodes, (numbers, expected) = CASES[case]
    numbers = {name: np.array(value, np.int64) for name, value in numbers.items()}
    before = [made("Add", "x x", "z")]
    if held:
        before += [constant(name, value) for name, value in numbers.items()]
    given = {"x": X, "y": Y}
    shape = expected(X, Y).shape
    asked = {} if held else numbers
    whole = model(
        [*before, *nodes], given.items(), (TensorProto.FLOAT, "out"), asked.items(), shape
    )
    program = export(whole, example_kwargs={**given, **asked})
    assert program.golden is not None
    np.testing.assert_array_equal(program.golden.calls[0].outputs[0], expected(X, Y))
    assert replay(program) == 0


def test_how_many_parts_there_are_is_a_number(replay: Replay) -> None:
    nodes = [
        made("SplitToSequence", "x sizes", "s", axis=2),
        made("SequenceLength", "s", "out"),
    ]
    sizes = np.array([1, 1, 2], np.int64)
    whole = model(nodes, [("x", X)], (TensorProto.INT64, "out"), [("sizes", sizes)], ())
    program = export(whole, example_kwargs={"x": X, "sizes": sizes})
    assert program.golden is not None
    assert program.golden.calls[0].outputs[0] == 3
    assert replay(program) == 0


def test_a_sequence_that_a_branch_by_data_takes_is_refused_with_its_node() -> None:
    kind = helper.make_tensor_value_info("one", TensorProto.FLOAT, X.shape)
    taken = [constant("at", 1), made("SequenceAt", "s at", "one")]
    branch = helper.make_graph(taken, "branch", [], [kind])
    nodes = [
        made("SequenceConstruct", "x x", "s"),
        made("ReduceMax", "x", "most", keepdims=0),
        made("Cast", "most", "test", to=TensorProto.BOOL),
        made("If", "test", "out", then_branch=branch, else_branch=branch),
    ]
    whole = model(nodes, [("x", X * 0)], (TensorProto.FLOAT, "out"), (), X.shape)
    with pytest.raises(UnsupportedOp, match="SequenceConstruct") as error:
        export(whole, example_kwargs={"x": X * 0})
    assert error.value.where
