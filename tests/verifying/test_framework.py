"""Which of a program's operations gives which of the framework's values, and what these are."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.exporters import export, export_source
from edgec.runtime import load
from edgec.runtime.errors import CompilerCrash, ProgramError, UsageError
from edgec.runtime.module import Module
from edgec.toolchain import CompileOptions, load_program
from edgec.toolchain.compiling import compile_with_report
from edgec.toolchain.framework_values import FrameworkValue, FrameworkValues
from edgec.toolchain.program import Program
from edgec.verifying import State, Subject, Verdict, judged, look, open_subject
from edgec.verifying.framework import Fate, Matched, beside_framework, matched
from edgec.verifying.reference import Numbered, Reference, numbered, refer
from tests.exporters.tflite_models import Graph


def torch_program() -> tuple[Program, dict[str, np.ndarray]]:
    """A PyTorch model, and what hooks on its modules see."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(64, 3)).eval()
        x = torch.randn(1, 2, 6, 6)
    program = export(model, (x,), values=True)
    seen: dict[str, np.ndarray] = {}
    for name, module in model.named_children():
        module.register_forward_hook(
            lambda _, given, result, name=name: seen.update({name: result.detach().numpy()})
        )
    model(x)
    return program, seen


def jax_function(x):  # type: ignore[no-untyped-def]
    import jax

    def turn(state, row):  # type: ignore[no-untyped-def]
        state = jax.numpy.tanh(0.5 * state + row)
        return state, jax.nn.relu(state)

    last, rows = jax.lax.scan(turn, 0 * x[0], x)
    return rows.sum(0) + jax.lax.cond(last[0] > 100, lambda v: v - 1, lambda v: 3 * v, last)


ROWS = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)


@functools.cache
def onnx_program() -> Program:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["x"], ["size"], name="size"),
            helper.make_node("Relu", ["x"], ["positive"], name="relu"),
            helper.make_node("Split", ["positive"], ["left", "right"], name="halves", axis=1),
            helper.make_node("Sub", ["left", "right"], ["apart"], name="apart"),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 8])],
        [helper.make_tensor_value_info("apart", TensorProto.FLOAT, [5, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return export(model, (ROWS,), values=True)


def values_file(program: Program) -> FrameworkValues:
    assert program.values is not None
    return program.values


def values(program: Program) -> tuple[FrameworkValue, ...]:
    return values_file(program).values


def computed(program: Program) -> tuple[Numbered, Reference]:
    numbers = numbered(program)
    assert program.golden is not None
    return numbers, refer(numbers, program.golden, 0)


def found(program: Program, numbers: Numbered, reference: Reference) -> Matched:
    return matched(values(program), numbers.operations, reference, "main", None)


def test_what_pytorch_computes_is_what_its_modules_give_and_each_is_in_the_program() -> None:
    program, seen = torch_program()
    owned = [value for value in values(program) if value.name.rpartition(".")[0] in seen]
    last = {value.name.rpartition(".")[0]: value for value in owned}
    assert sorted(last) == sorted(seen)
    for name, value in last.items():
        np.testing.assert_allclose(value.arrays[0], seen[name], rtol=1e-5, atol=1e-6)
    numbers, reference = computed(program)
    matches = found(program, numbers, reference)
    assert all(place is not None for _, place, _ in matches.places)
    places = {value.name: place for value, place, _ in matches.places}
    (output,) = (place for name, place in places.items() if name == last["3"].name)
    told = beside_framework("torch", matches, [output], numbers.operations)
    fates = [told.count(fate) for fate in (Fate.COMPARED, Fate.INSIDE, Fate.ABSENT)]
    assert fates == [1, len(values(program)) - 1, 0]


def test_loops_and_branches_of_jax_are_kept_turn_by_turn() -> None:
    program = export(jax_function, (ROWS,), values=True)
    (tanh,) = (value for value in values(program) if value.operation == "tanh")
    state, states = np.zeros(8, np.float32), []
    for row in ROWS:
        state = np.tanh(np.float32(0.5) * state + row)
        states.append(state)
    np.testing.assert_allclose(np.stack(tanh.arrays), np.stack(states), rtol=1e-5)
    assert tanh.line.partition(":")[0] == __file__
    (relu,) = (value for value in values(program) if value.operation == "max")
    assert (len(relu.arrays), relu.line.partition(":")[0]) == (5, __file__)
    operations = [value.operation for value in values(program)]
    assert operations.count("sub") == 0  # the branch that was not taken
    matches = found(program, *computed(program))
    placed = {value.operation: by_place for value, _, by_place in matches.places}
    assert placed["tanh"]
    assert placed["max"]
    assert placed["reduce_sum"]


def test_what_onnxruntime_computes_is_found_by_the_names_of_nodes() -> None:
    program = onnx_program()
    by_name = {value.name: value for value in values(program)}
    positive = np.maximum(ROWS, 0)
    assert sorted(by_name) == ["apart", "left", "positive", "right"]  # not what sizes alone decide
    np.testing.assert_array_equal(by_name["right"].arrays[0], positive[:, 4:])
    np.testing.assert_allclose(by_name["apart"].arrays[0], positive[:, :4] - positive[:, 4:])
    assert by_name["left"].line == "node halves"
    matches = found(program, *computed(program))
    assert all(by_place for _, _, by_place in matches.places)


def test_the_frameworks_numbers_are_the_reference_and_another_programs_first_is_named() -> None:
    program = onnx_program()
    numbers, reference = computed(program)
    matches = found(program, numbers, reference)
    (place,) = (place for value, place, _ in matches.places if value.name == "positive")
    assert place is not None
    assert reference.values[place][0].dtype == matches.reference.values[place][0].dtype
    np.testing.assert_array_equal(matches.reference.values[place][0], np.maximum(ROWS, 0))
    off = [
        replace(value, arrays=(value.arrays[0] + 1,)) if value.name != "positive" else value
        for value in values(program)
    ]
    wrong = replace(program, values=replace(values_file(program), values=tuple(off)))
    problem = replace(reference, problem="all are off")
    told = beside_framework("onnx", found(wrong, numbers, problem), [place], numbers.operations)
    assert told.first_other is not None
    assert told.first_other.name == "left"
    assert told.count(Fate.ABSENT) == 3
    assert told.count(Fate.COMPARED) == 1


def test_values_are_read_as_they_were_written(tmp_path: Path) -> None:
    program = onnx_program().save(tmp_path / "net.mlirbc")
    read = FrameworkValues.load(tmp_path / "net.values.npz")
    assert read.program == load_program(tmp_path / "net.mlirbc").digest
    assert read.framework.startswith("onnxruntime ")
    for one, other in zip(read.values, values(program), strict=True):
        assert (one.name, one.number, one.line) == (other.name, other.number, other.line)
        np.testing.assert_array_equal(one.arrays[0], other.arrays[0])
    replace(program, values=None).save(tmp_path / "net.mlirbc")
    assert not (tmp_path / "net.values.npz").exists()
    (tmp_path / "net.values.npz").write_bytes(b"no zip")
    with pytest.raises(ProgramError, match="is no file of a framework's values"):
        FrameworkValues.load(tmp_path / "net.values.npz")


def ask(
    module: Module, calls: Sequence[tuple[str, tuple[np.ndarray, ...]]]
) -> Sequence[Sequence[np.ndarray]]:
    with load(module.path, device="local-sync") as loaded:
        return [
            [result.numpy() for result in loaded[name].call_flat(given)] for name, given in calls
        ]


def opened(program: Program, folder: Path) -> tuple[Subject, CompileOptions, Verdict]:
    program.save(folder / "net.mlirbc")
    options = CompileOptions(output=folder / "net.vmfb", check=False)
    subject = open_subject(
        folder / "net.mlirbc", is_program=True, target=None, golden=None, options=options
    )
    return subject, options, judged(subject, ask(subject.module, subject.asked))


def test_verify_compares_layers_with_them(tmp_path: Path) -> None:
    program = onnx_program()
    subject, options, verdict = opened(program, tmp_path)
    looked = look(subject, target="cpu", options=options, verdict=verdict, ask=ask)
    told = looked.layers.framework
    assert told is not None
    assert (told.count(Fate.ABSENT), told.first_other) == (0, None)
    assert told.count(Fate.COMPARED) + told.count(Fate.INSIDE) == 4
    assert [each.fate for each in told.found][-1] is Fate.COMPARED
    assert looked.layers.layers[-1].line.startswith("node ")
    other = replace(values_file(program), program="0")
    FrameworkValues.path_for(tmp_path / "net.mlirbc").write_bytes(other.to_bytes())
    with pytest.raises(ProgramError, match="holds values of another program"):
        look(subject, target="cpu", options=options, verdict=verdict, ask=ask)


def looping(x):  # type: ignore[no-untyped-def]
    import jax

    def turn(carried):  # type: ignore[no-untyped-def]
        number, state = carried
        return number + 1, jax.numpy.tanh(state * 1.5) + 0.1 * state[::-1]

    _, state = jax.lax.while_loop(lambda c: c[0] < x.shape[0] * 20, turn, (0, x))
    return jax.lax.cond(state[0, 0] > 100, lambda v: v.sum(0) - 1, lambda v: v[0] * 3, state)


def test_values_in_loops_and_branches_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, options, verdict = opened(export(looping, (ROWS,), values=True), tmp_path)
    looked = look(subject, target="cpu", options=options, verdict=verdict, ask=ask)
    layers = looked.layers
    assert looked.verdict.ok
    assert layers.nested == 0
    inside = [each for each in layers.layers if math.prod(each.shape) == ROWS.size]
    assert State.RIGHT in {each.state for each in inside}
    assert {State.RIGHT, State.UNSEEN, State.INSIDE} >= {each.state for each in layers.layers}
    unseen = [each.why for each in layers.layers if each.state is State.UNSEEN]
    assert any("does not go through" in why for why in unseen)

    def refusing(*given: Any) -> Any:
        if given[-1].tap_loops:
            raise CompilerCrash("the compiler died of a loop with more results")
        return compile_with_report(*given)

    monkeypatch.setattr("edgec.verifying.looking.compile_with_report", refusing)
    outside = look(subject, target="cpu", options=options, verdict=verdict, ask=ask)
    assert outside.verdict.ok
    assert outside.layers.nested > 0  # and said so


def looping_file() -> bytes:
    """Three turns of `v = tanh(v + v)`, then a product with quantised numbers."""
    graph = Graph()
    number, v = graph.tensor("i", (1,), "int32"), graph.tensor("v", (4, 8))
    more = graph.tensor("more", (1,), "bool")
    graph.operator("LESS", [number, graph.constant("most", np.int32([3]))], [more], LessOptions={})
    after, twice, bent = (
        graph.tensor(name, shape, kind)
        for name, shape, kind in (
            ("after", (1,), "int32"),
            ("twice", (4, 8), "float32"),
            ("bent", (4, 8), "float32"),
        )
    )
    graph.operator("ADD", [number, graph.constant("one", np.int32([1]))], [after], AddOptions={})
    graph.operator("ADD", [v, v], [twice], AddOptions={})
    graph.operator("TANH", [twice], [bent])
    start, x = graph.constant("start", np.int32([0])), graph.tensor("x", (4, 8))
    ended, last = graph.tensor("ended", (1,), "int32"), graph.tensor("last", (4, 8))
    graph.operator(
        "WHILE",
        [start, x],
        [ended, last],
        WhileOptions={"condSubgraphIndex": 1, "bodySubgraphIndex": 2},
    )
    whole = graph.tensor("whole", (4, 8), "int8", quantized=(0.01, 3))
    graph.operator("QUANTIZE", [last], [whole], QuantizeOptions={})
    inner = [(0, 1, [number, v], [more]), (1, 4, [number, v], [after, bent])]
    return graph.file([x], [whole], inner=inner)


def test_what_litert_computes_is_kept_turn_by_turn_and_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(looping_file())
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    program = export_source(str(tmp_path / "net.tflite"), inputs={"arr_0": x}, values=True)
    assert values_file(program).framework.startswith("ai-edge-litert ")
    by_name = {value.name: value for value in values(program)}
    turns = [np.tanh(2 * x)]
    turns += [np.tanh(2 * turns[0])]
    turns += [np.tanh(2 * turns[1])]
    np.testing.assert_allclose(np.stack(by_name["bent"].arrays), np.stack(turns), rtol=1e-5)
    assert [bool(each[0]) for each in by_name["more"].arrays] == [True, True, True, False]
    np.testing.assert_array_equal(by_name["last"].arrays[0], by_name["bent"].arrays[2])
    assert by_name["whole"].within >= 1  # LiteRT's kernels may round another way
    assert by_name["bent"].line == "node bent"
    placed = {v.name: by_place for v, _, by_place in found(program, *computed(program)).places}
    assert sorted(placed) == ["after", "bent", "ended", "last", "more", "twice", "whole"]
    assert all(placed[name] for name in ("bent", "twice", "last", "more", "whole"))


def test_a_value_may_be_off_by_as_much_as_its_framework_is_of_itself() -> None:
    value = replace(values(onnx_program())[0], within=0.0)
    numbers, reference = computed(onnx_program())
    for within, is_found in ((0.0, False), (1.0, True)):
        off = replace(value, arrays=(value.arrays[0] + 0.2,), within=within)
        ((_, place, _),) = matched([off], numbers.operations, reference, "main", None).places
        assert (place is not None) is is_found


def test_what_is_no_framework_has_no_values(tmp_path: Path) -> None:
    onnx_program().save(tmp_path / "net.mlirbc")
    with pytest.raises(UsageError, match="no framework's model"):
        export_source(str(tmp_path / "net.mlirbc"), values=True)
