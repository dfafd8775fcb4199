"""Loops and branches of ONNX as loops and branches of StableHLO, compared with onnxruntime."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.toolchain.program import Dialect, Program

Replay = Callable[[Program], float]
F, N, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def value(name: str, kind: int, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        inputs,
        [helper.make_tensor_value_info(name, F, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def running_sum(weight: str) -> onnx.GraphProto:
    """The body of a scan: a state and a slice to the new state, and what it gives."""
    return helper.make_graph(
        [
            helper.make_node("MatMul", ["state", weight], ["carried"]),
            helper.make_node("Add", ["carried", "slice"], ["after"]),
            helper.make_node("Tanh", ["after"], ["given"]),
        ],
        "body",
        [value("state", F, 2, 4), value("slice", F, 2, 4)],
        [value("after", F, 2, 4), value("given", F, 2, 4)],
    )


def halves() -> onnx.GraphProto:
    """The body of a loop that goes on while the largest element is above one."""
    return helper.make_graph(
        [
            helper.make_node("Mul", ["old", "half"], ["new"]),
            helper.make_node("ReduceMax", ["new"], ["largest"], keepdims=0),
            helper.make_node("Greater", ["largest", "one"], ["again"]),
        ],
        "body",
        [value("turn", N), value("going", B), value("old", F, 2, 4)],
        [value("again", B), value("new", F, 2, 4)],
    )


def branch(kind: str) -> onnx.GraphProto:
    return helper.make_graph(
        [helper.make_node(kind, ["every", "scale"], [kind])], kind, [], [value(kind, F, 2, 6, 4)]
    )


def test_loops_and_branches_stay_what_they_are(replay: Replay) -> None:
    """A scan from the end, a loop ended by data, and a branch that data choose, one on another."""
    nodes = [
        helper.make_node(
            "Scan",
            ["first", "x"],
            ["last", "every"],
            body=running_sum("w"),
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=[1],
            scan_input_directions=[1],
            scan_output_directions=[1],
        ),
        helper.make_node("Abs", ["last"], ["start"]),
        helper.make_node("Add", ["start", "five"], ["far"]),
        helper.make_node("Loop", ["most", "yes", "far"], ["small"], body=halves()),
        helper.make_node("ReduceSum", ["small"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "limit"], ["which"]),
        helper.make_node(
            "If", ["which"], ["y"], then_branch=branch("Mul"), else_branch=branch("Add")
        ),
        helper.make_node("Not", ["which"], ["other"]),
        helper.make_node(
            "If", ["other"], ["z"], then_branch=branch("Mul"), else_branch=branch("Add")
        ),
    ]
    inputs = [value("first", F, 2, 4), value("x", F, 2, 6, 4), value("limit", F)]
    constants = {
        "w": 0.3 * normal(4, 4),
        "half": np.float32(0.5),
        "one": np.float32(1),
        "five": np.float32(5),
        "scale": np.float32(3),
        "most": np.array(20, np.int64),
        "yes": np.array(True),
    }
    constants = {name: np.asarray(array) for name, array in constants.items()}
    model = model_of(nodes, inputs, ["last", "small", "y", "z"], constants)
    program = export(model, (normal(2, 4), normal(2, 6, 4), np.array(3, np.float32)))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-5


def test_a_loop_collects_what_its_turns_give(replay: Replay) -> None:
    """Seven turns are a loop, two are written one after another; the turn's number is read."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["turn"], ["number"], to=F),
            helper.make_node("Add", ["old", "number"], ["new"]),
            helper.make_node("Identity", ["going"], ["again"]),
            helper.make_node("Mul", ["new", "x"], ["row"]),
        ],
        "body",
        [value("turn", N), value("going", B), value("old", F, 3)],
        [value("again", B), value("new", F, 3), value("row", F, 3)],
    )
    nodes = [
        helper.make_node("Loop", ["seven", "", "x"], ["end", "rows"], body=body),
        helper.make_node("Loop", ["two", "", "end"], ["unread", "more"], body=body),
    ]
    constants = {"seven": np.array(7, np.int64), "two": np.array(2, np.int64)}
    model = model_of(nodes, [value("x", F, 3)], ["end", "rows", "more"], constants)
    program = export(model, (normal(3),))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-4


def test_a_loop_whose_state_grows_is_still_written_out(replay: Replay) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["old", "x"], ["new"], axis=0),
            helper.make_node("Identity", ["going"], ["again"]),
        ],
        "body",
        [value("turn", N), value("going", B), helper.make_tensor_value_info("old", F, None)],
        [value("again", B), helper.make_tensor_value_info("new", F, None)],
    )
    nodes = [helper.make_node("Loop", ["three", "", "x"], ["y"], body=body)]
    model = model_of(nodes, [value("x", F, 2)], ["y"], {"three": np.array(3, np.int64)})
    program = export(model, (normal(2),))
    assert program.golden is not None
    assert program.golden.calls[0].outputs[0].shape == (8,)
    assert replay(program) < 1e-6
