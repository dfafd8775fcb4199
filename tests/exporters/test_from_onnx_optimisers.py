"""Steps of optimisers in ONNX: compared with onnx.reference."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgec.exporters import export
from edgec.toolchain.program import Program

RANDOM = np.random.default_rng(11)
WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "Adagrad": (1, {"decay_factor": 0.1, "epsilon": 1e-3}),
    "Adam": (2, {"alpha": 0.9, "beta": 0.95, "epsilon": 1e-3, "norm_coefficient_post": 0.01}),
    "Momentum": (1, {"alpha": 0.9, "beta": 0.4, "mode": "nesterov"}),
}


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("steps", [0, 3])
def test_a_step_for_two_tensors(replay: Callable[[Program], float], kind: str, steps: int) -> None:
    own, attributes = WAYS[kind]
    shapes = [(2, 3), (4,)] * (own + 2)
    values = [np.abs(RANDOM.standard_normal(shape)).astype(np.float32) for shape in shapes]
    names = [f"t{number}" for number in range(len(values))]
    results = [f"y{number}" for number in range(2 * (own + 1))]
    node = helper.make_node(
        kind,
        ["rate", "steps", *names],
        results,
        domain="ai.onnx.preview.training",
        norm_coefficient=0.1,
        **attributes,
    )
    given = [np.array(0.1, np.float32), np.array(steps, np.int64), *values]
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(["rate", "steps", *names], given, strict=True)
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(results, shapes, strict=False)
    ]
    graph = helper.make_graph([node], "step", inputs, outputs)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("ai.onnx.preview.training", 1)]
    )
    assert replay(export(model, tuple(given))) < 1e-5
