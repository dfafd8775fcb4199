"""One script on two interpreters: LiteRT's with a `.tflite` file, edgec's with its module."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest

import edgec.runtime.lite as lite
from edgec.runtime.errors import EdgecError
from tests.exporters.tflite_models import Graph

RNG = np.random.default_rng(5)
README = Path(__file__).parents[2] / "README.md"


def dense() -> bytes:
    """`serving_default(x, gain) -> (product, total)` with a dynamic batch, in f32.

    The tensors' names and the order of the inputs are not the signature's.
    """
    graph = Graph()
    gain = graph.tensor("serving_default_gain:0", (1, 3))
    x = graph.tensor("serving_default_x:0", (-1, 4))
    weights = graph.constant("w", RNG.normal(size=(3, 4)).astype(np.float32))
    product = graph.tensor("StatefulPartitionedCall:1", (-1, 3))
    graph.operator("FULLY_CONNECTED", [x, weights, -1], [product], FullyConnectedOptions={})
    total = graph.tensor("StatefulPartitionedCall:0", (-1, 3))
    graph.operator("MUL", [product, gain], [total], MulOptions={})
    return graph.file(
        [x, gain],
        [total, product],
        signature=("serving_default", {"x": x, "gain": gain}, {"product": product, "total": total}),
    )


def quantised() -> bytes:
    """int8 in, uint8 out, no signature, static."""
    graph = Graph()
    x = graph.tensor("x", (2, 6), "int8", quantized=(0.05, 4))
    y = graph.tensor("y", (2, 6), "uint8", quantized=(0.04, 131))
    graph.operator("QUANTIZE", [x], [y], QuantizeOptions={})
    return graph.file([x], [y])


Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """Each model as the file of each interpreter: `.tflite` and `.vmfb`."""
    from edgec import toolchain
    from edgec.exporters import export_source

    folder = tmp_path_factory.mktemp("lite")
    made = {}
    for name, data, dynamic in (
        ("dense", dense(), ["x:0=batch=1..8"]),
        ("quantised", quantised(), []),
    ):
        source, module = folder / f"{name}.tflite", folder / f"{name}.vmfb"
        source.write_bytes(data)
        program = export_source(str(source), dynamic=dynamic).save(folder / f"{name}.mlirbc")
        options = toolchain.CompileOptions(output=module, level=1, check=False, cache=False)
        toolchain.compile(program, "cpu", options)
        made[name] = (source, module)
    return made


Script = Callable[[ModuleType, Path], Any]


def both(script: Script, files: Pair) -> tuple[Any, Any]:
    """What the script gives with LiteRT and its file, and with edgec and its own."""
    return script(litert, files[0]), script(lite, files[1])


def opened(module: ModuleType, path: Path) -> Any:
    interpreter = module.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    return interpreter


def same(one: Any, other: Any) -> None:
    """Equal in structure, types and values."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    else:
        assert one == other


def without_index(details: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in each.items() if k != "index"} for each in details]


# The same script


def test_the_script_of_the_readme_prints_the_same_before_and_after(
    files: dict[str, Pair], tmp_path: Path
) -> None:
    (lines,) = re.findall(r"^```diff\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    for file in files["quantised"]:
        (tmp_path / f"digits{file.suffix}").symlink_to(file)
    printed = []
    for leave_out in "+-":
        kept = [line[1:] for line in lines.splitlines() if not line.startswith(leave_out)]
        assert len([line for line in kept if line]) == 9
        command = [sys.executable, "-c", "\n".join(kept)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert printed[0].count("127") == 12  # 131 less 3.75 steps, rounded


@pytest.mark.parametrize("name", ["dense", "quantised"])
def test_details_are_the_same(name: str, files: dict[str, Pair]) -> None:
    def script(module: ModuleType, path: Path) -> Any:
        interpreter = opened(module, path)
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        known = {d["index"] for d in interpreter.get_tensor_details()}
        assert {d["index"] for d in inputs + outputs} <= known
        assert interpreter.num_subgraphs() == 1
        return without_index(inputs), without_index(outputs)

    same(*both(script, files[name]))


def test_quantised_values_go_in_and_come_out(files: dict[str, Pair]) -> None:
    real = RNG.normal(size=(2, 6)).astype(np.float32)

    def script(module: ModuleType, path: Path) -> Any:
        interpreter = opened(module, path)
        (given,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()
        scale, zero = given["quantization"]
        interpreter.set_tensor(given["index"], (real / scale + zero).round().astype(given["dtype"]))
        interpreter.invoke()
        scale, zero = out["quantization"]
        parameters = out["quantization_parameters"]
        assert parameters["scales"][0] == np.float32(scale)
        return (interpreter.get_tensor(out["index"]).astype(np.float32) - zero) * scale

    one, other = both(script, files["quantised"])
    np.testing.assert_allclose(one, other, atol=0.041)
    np.testing.assert_allclose(other, real, atol=0.05)


def test_inputs_are_resized_where_they_are_dynamic(files: dict[str, Pair]) -> None:
    values = RNG.normal(size=(5, 4)).astype(np.float32)

    def script(module: ModuleType, path: Path) -> Any:
        interpreter = opened(module, path)
        x, gain = (d["index"] for d in interpreter.get_input_details())
        seen = []
        for rows in (1, 5, 3):
            interpreter.resize_tensor_input(x, [rows, 4], strict=True)
            interpreter.allocate_tensors()
            interpreter.set_tensor(x, values[:rows])
            interpreter.set_tensor(gain, np.full((1, 3), 2, np.float32))
            interpreter.invoke()
            details = interpreter.get_output_details()
            seen += [d["shape"] for d in interpreter.get_input_details() + details]
            seen += [interpreter.get_tensor(d["index"]) for d in details]
        return seen

    same(*both(script, files["dense"]))


def test_signatures_are_called_by_name(files: dict[str, Pair]) -> None:
    values = RNG.normal(size=(3, 4)).astype(np.float32)

    def script(module: ModuleType, path: Path) -> Any:
        interpreter = module.Interpreter(model_path=str(path))
        listed = interpreter.get_signature_list()
        names = {k: {side: sorted(v[side]) for side in v} for k, v in listed.items()}
        results = []
        for key in (None, "serving_default"):
            run = interpreter.get_signature_runner(key)
            results.append(run(gain=np.ones((1, 3), np.float32), x=values))
            results.append(run(x=values[:1], gain=np.ones((1, 3), np.float32)))
        inputs = run.get_input_details()
        outputs = run.get_output_details()
        return (
            names,
            [dict(sorted(r.items())) for r in results],
            {k: without_index([inputs[k]]) for k in sorted(inputs)},
            {k: without_index([outputs[k]]) for k in sorted(outputs)},
        )

    same(*both(script, files["dense"]))


def test_tensors_are_filled_and_read_in_place(files: dict[str, Pair]) -> None:
    def script(module: ModuleType, path: Path) -> Any:
        interpreter = opened(module, path)
        inputs = [interpreter.tensor(d["index"]) for d in interpreter.get_input_details()]
        output = interpreter.tensor(interpreter.get_output_details()[0]["index"])
        seen = []
        for number in range(3):
            for tensor in inputs:
                tensor().fill(number)
            interpreter.invoke()
            seen.append(output().copy())
        return seen

    one, other = both(script, files["dense"])
    same(one, other)
    assert np.abs(other[1]).max() > 0


def test_what_get_tensor_gives_is_the_caller_s(files: dict[str, Pair]) -> None:
    def script(module: ModuleType, path: Path) -> Any:
        interpreter = opened(module, path)
        x, gain = (d["index"] for d in interpreter.get_input_details())
        value = np.ones((1, 4), np.float32)
        interpreter.set_tensor(x, value)
        interpreter.set_tensor(gain, np.ones((1, 3), np.float32))
        value[:] = 7
        interpreter.get_tensor(x)[:] = 9
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    same(*both(script, files["dense"]))


def test_a_model_comes_from_bytes_and_threads_are_asked_for(files: dict[str, Pair]) -> None:
    def script(module: ModuleType, path: Path) -> Any:
        interpreter = module.Interpreter(
            model_content=path.read_bytes(),
            num_threads=2,
            experimental_op_resolver_type=module.OpResolverType.BUILTIN,
            experimental_disable_delegate_clustering=True,
        )
        interpreter.reset_all_variables()
        run = interpreter.get_signature_runner()
        return run(x=np.ones((1, 4), np.float32), gain=np.ones((1, 3), np.float32))["total"]

    same(*both(script, files["dense"]))


# The same errors


def caught(action: Callable[[], Any]) -> type[Exception]:
    """Which of the exceptions that scripts catch is raised."""
    try:
        action()
    except (ValueError, RuntimeError) as error:
        assert str(error)
        return ValueError if isinstance(error, ValueError) else RuntimeError
    pytest.fail("nothing was raised")


def _fresh(module: ModuleType, path: Path) -> Any:
    return module.Interpreter(model_path=str(path))


ROW = np.ones((1, 4), np.float32)

MISTAKES: dict[str, Callable[[ModuleType, Path], Any]] = {
    "invoke before allocate": lambda m, p: _fresh(m, p).invoke(),
    "invoke after resize": lambda m, p: (
        i := opened(m, p),
        i.resize_tensor_input(i.get_input_details()[0]["index"], [2, 4]),
        i.invoke(),
    ),
    "set before allocate": lambda m, p: (i := _fresh(m, p)).set_tensor(
        i.get_input_details()[0]["index"], ROW
    ),
    "get before allocate": lambda m, p: (i := _fresh(m, p)).get_tensor(
        i.get_output_details()[0]["index"]
    ),
    "tensor before allocate": lambda m, p: (i := _fresh(m, p)).tensor(
        i.get_output_details()[0]["index"]
    )(),
    "wrong size": lambda m, p: (i := opened(m, p)).set_tensor(
        i.get_input_details()[0]["index"], np.ones((2, 4), np.float32)
    ),
    "wrong rank": lambda m, p: (i := opened(m, p)).set_tensor(
        i.get_input_details()[0]["index"], np.ones(4, np.float32)
    ),
    "wrong type": lambda m, p: (i := opened(m, p)).set_tensor(
        i.get_input_details()[0]["index"], np.ones((1, 4), np.float64)
    ),
    "a list of Python numbers": lambda m, p: (i := opened(m, p)).set_tensor(
        i.get_input_details()[0]["index"], [[1.0, 2.0, 3.0, 4.0]]
    ),
    "set an unknown index": lambda m, p: opened(m, p).set_tensor(99, ROW),
    "set a negative index": lambda m, p: opened(m, p).set_tensor(-1, ROW),
    "get an unknown index": lambda m, p: opened(m, p).get_tensor(99),
    "view an unknown index": lambda m, p: opened(m, p).tensor(99)(),
    "details of an unknown subgraph": lambda m, p: opened(m, p).get_tensor_details(7),
    "no model": lambda m, p: m.Interpreter(),
    "two models": lambda m, p: m.Interpreter(model_path=str(p), model_content=p.read_bytes()),
    "no file": lambda m, p: m.Interpreter(model_path=str(p.with_name("none"))),
    "no model in the bytes": lambda m, p: m.Interpreter(model_content=b"0123456789" * 20),
    "the other one's file": lambda m, p: m.Interpreter(
        model_path=str(p.with_suffix(".vmfb" if m is litert else ".tflite"))
    ),
    "threads of another type": lambda m, p: m.Interpreter(str(p), num_threads="2"),
    "no threads": lambda m, p: m.Interpreter(str(p), num_threads=0),
    "no op resolver": lambda m, p: m.Interpreter(str(p), experimental_op_resolver_type=7),
    "an unknown signature": lambda m, p: _fresh(m, p).get_signature_runner("train"),
    "a missing input": lambda m, p: _fresh(m, p).get_signature_runner()(x=ROW),
    "an unknown input": lambda m, p: _fresh(m, p).get_signature_runner()(x=ROW, z=ROW),
    "too many inputs": lambda m, p: _fresh(m, p).get_signature_runner()(x=ROW, gain=ROW, z=ROW),
    "an input of another type": lambda m, p: _fresh(m, p).get_signature_runner()(
        x=ROW.astype(np.int32), gain=np.ones((1, 3), np.float32)
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_raise_the_same_exceptions(mistake: str, files: dict[str, Pair]) -> None:
    one, other = both(lambda m, p: caught(lambda: MISTAKES[mistake](m, p)), files["dense"])
    assert one is other


def _resized(module: ModuleType, path: Path, index: int, shape: list[int]) -> Any:
    interpreter = opened(module, path)
    indices = [d["index"] for d in interpreter.get_input_details()]
    given = indices[index] if index < len(indices) else index
    return interpreter.resize_tensor_input(given, shape, strict=True)


@pytest.mark.parametrize(
    ("index", "shape"), [(0, [2, 5]), (0, [2, 4, 1]), (0, [-1, 4]), (99, [1, 4])]
)
def test_shapes_that_cannot_be_are_refused(
    index: int, shape: list[int], files: dict[str, Pair]
) -> None:
    with pytest.raises(RuntimeError):
        _resized(litert, files["dense"][0], index, shape)
    with pytest.raises(RuntimeError) as raised:
        _resized(lite, files["dense"][1], index, shape)
    # LiteRT's documents say ValueError.
    assert isinstance(raised.value, ValueError)


# What is edgec's own


def test_errors_are_in_edgec_s_tree_and_say_what_to_do(files: dict[str, Pair]) -> None:
    source, module = files["dense"]
    with pytest.raises(EdgecError) as caught:
        lite.Interpreter(source)
    assert "is a .tflite file" in caught.value.what
    assert "edgec export" in str(caught.value.hint)
    with pytest.raises(EdgecError, match=r"dimension 0 of .* to 9: it is batch=1\.\.8"):
        lite.Interpreter(module).resize_tensor_input(0, [9, 4])
    with pytest.raises(EdgecError, match="no delegates"):
        lite.Interpreter(module, experimental_delegates=[object()])
    with pytest.raises(ValueError, match="no delegates to load, such as libedgetpu"):
        lite.load_delegate("libedgetpu.so.1")
    with pytest.raises(EdgecError, match="keeps no tensors between"):
        lite.Interpreter(module, experimental_preserve_all_tensors=True)
    with pytest.raises(ValueError, match="option that does not exist"):
        lite.Interpreter(module, device="local-sync?threads=2")


def test_a_device_is_chosen_by_its_uri(files: dict[str, Pair]) -> None:
    run = lite.Interpreter(files["dense"][1], device="local-sync").get_signature_runner()
    result = run(x=ROW, gain=np.ones((1, 3), np.float32))
    np.testing.assert_allclose(result["total"], result["product"], rtol=1e-6)


def test_views_may_be_held_during_a_call(files: dict[str, Pair]) -> None:
    interpreter = opened(lite, files["dense"][1])
    held = interpreter.tensor(0)()
    held.fill(1)
    interpreter.invoke()
    assert held is interpreter.tensor(0)()
    assert not interpreter.get_tensor(2).any()  # the gain was left at zero


def test_variables_are_reset(stateful_module: Callable[..., Path]) -> None:
    interpreter = lite.Interpreter(stateful_module())
    step = interpreter.get_signature_runner("step")
    counts = [int(step(x=np.ones(4, np.float32))["counter"]) for _ in range(2)]
    interpreter.reset_all_variables()
    counts.append(int(step(x=np.ones(4, np.float32))["counter"]))
    assert counts == [1, 2, 1]
    assert list(interpreter.get_signature_list()) == ["step", "scale"]
    with pytest.raises(ValueError, match="no signature"):
        interpreter.get_signature_runner()
