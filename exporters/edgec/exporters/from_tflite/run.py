"""A `.tflite` file run by LiteRT: the answers that a module must give, and how exactly.

LiteRT has two sets of kernels, XNNPACK's and its reference. Of a quantised model they give answers
that differ by some steps of the grid; a module may be off by one step more than twice that.
LiteRT ends the process where a kernel finds something wrong, so it runs in a child.

Weights of 8 bits for activations of 32 (dynamic-range quantisation) are made 32-bit ones before a
run: LiteRT would quantise the activations, too, while it runs, which a module does not.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.conditioning import conditioned, nearby
from edgec.exporters.from_tflite.call import dequantized
from edgec.exporters.from_tflite.model import TfliteModel, TfliteSubgraph, TfliteTensor
from edgec.exporters.traced import TracedCall
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError
from edgec.runtime.tolerance import Tolerance

__all__ = ["OWN", "REFERENCE", "LiteRt", "allowed"]

_USUAL, REFERENCE, OWN = "AUTO", "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
"""Members of LiteRT's OpResolverType."""
_WITH_WEIGHTS = {
    "BATCH_MATMUL",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "EMBEDDING_LOOKUP",
    "FULLY_CONNECTED",
    "TRANSPOSE_CONV",
}


class LiteRt:
    """One subgraph of a model in LiteRT.

    Args:
        data: the file.
        model: the same, read.
        subgraph: which.
        key: the signature that runs it, or empty for the first subgraph.
        name: what messages call it.
    """

    def __init__(self, data: bytes, model: TfliteModel, subgraph: int, key: str, name: str) -> None:
        self._data = _with_wide_weights(data, model)
        self._graph = model.subgraphs[subgraph]
        self._name = name
        chosen = [s for s in model.signatures if s.key == key]
        self._plan: dict[str, Any] = {
            "key": key if chosen else "",
            "subgraph": subgraph,
            "inputs": [chosen[0].inputs[i] if chosen else i for i in self._graph.inputs],
            "outputs": [chosen[0].outputs[i] if chosen else i for i in self._graph.outputs],
        }

    def calls(
        self, data: Sequence[Sequence[np.ndarray]], *, stateful: bool = False
    ) -> tuple[TracedCall, ...]:
        """Run it on each set of inputs, one after the other from the first state on.

        Raises:
            ExportError: LiteRT refuses, or dies.
        """
        tensors = [self._graph.tensors[i] for o in self._graph.operators for i in o.outputs]
        if not any(map(_is_quantized, tensors)):
            beside = [nearby(given) or given for given in data]
            sets = [data, beside] if stateful else [[*data, *beside]]
            answers = [answer for each in sets for answer in self._run(each, _USUAL)]
            return tuple(
                conditioned(given, one, [other], name=self._name)
                for given, one, other in zip(
                    data, answers[: len(data)], answers[len(data) :], strict=True
                )
            )
        answers = self._run(data, _USUAL)
        try:
            others = self._run(data, REFERENCE)
        except ExportError:  # the reference takes fewer forms
            others = answers
        return tuple(
            TracedCall(
                inputs=tuple(given),
                outputs=tuple(one),
                within=tuple(map(self._allowed, self._graph.outputs, one, other)),
            )
            for given, one, other in zip(data, answers, others, strict=True)
        )

    def noted(self, given: Sequence[np.ndarray], kernels: str) -> dict[str, np.ndarray]:
        """What `on_the_way` notes while it runs the subgraph, by kernels of LiteRT's own.

        Raises:
            ExportError: LiteRT refuses, or dies.
        """
        with (
            self._ran([given], kernels, f"{__package__}.on_the_way") as answers,
            np.load(answers, allow_pickle=False) as archive,
        ):
            return dict(archive)

    def _allowed(self, index: int, one: np.ndarray, other: np.ndarray) -> float:
        return allowed(self._graph, index, one, other)

    def _run(self, data: Sequence[Sequence[np.ndarray]], kernels: str) -> list[list[np.ndarray]]:
        """The answers to each set of inputs."""
        with self._ran(data, kernels, __name__) as answers:
            return _loaded(answers, len(data), len(self._graph.outputs))

    @contextmanager
    def _ran(
        self, data: Sequence[Sequence[np.ndarray]], kernels: str, module: str
    ) -> Iterator[Path]:
        """The file of answers to sets of inputs, from a process of its own."""
        with tempfile.TemporaryDirectory(prefix="edgec-tflite-") as folder:
            home = Path(folder)
            (home / "model.tflite").write_bytes(self._data)
            plan = {**self._plan, "kernels": kernels, "calls": len(data)}
            (home / "plan.json").write_text(json.dumps(plan))
            _save(home / "inputs.npz", data)
            child = subprocess.run(
                [sys.executable, "-m", module, folder],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if child.returncode == 0:
                yield home / "outputs.npz"
                return
        said = [line for line in child.stderr.strip().splitlines() if line.strip()][-1:] or [""]
        how = f"died of signal {-child.returncode}" if child.returncode < 0 else said[0]
        raise ExportError(
            f"LiteRT cannot run {self._name} on the example inputs: {how}",
            hint="check that the file runs in ai_edge_litert's Interpreter",
        )


def allowed(graph: TfliteSubgraph, index: int, one: np.ndarray, other: np.ndarray) -> float:
    """How far a tensor may be off: a step, and twice what LiteRT itself differs by."""
    distance = np.abs(one.astype(np.float64) - other.astype(np.float64))
    usual = Tolerance.of(DType.of(one.dtype)).absolute
    return max(usual, _step(graph, index)) + 2 * float(np.max(distance, initial=0.0))


def _step(graph: TfliteSubgraph, index: int) -> float:
    """A step of a tensor's grid: 1 for integers, the scale where they were made real."""
    tensor = graph.tensors[index]
    if _is_quantized(tensor):
        return 1.0
    for operator in graph.operators:
        if index in operator.outputs and operator.kind == "DEQUANTIZE":
            given = graph.tensors[operator.inputs[0]].quantization
            return 0.0 if given is None else max(given.scales)
    return 0.0


def _is_quantized(tensor: TfliteTensor) -> bool:
    return tensor.quantization is not None and tensor.dtype.itemsize <= 2


def _with_wide_weights(data: bytes, model: TfliteModel) -> bytes:
    """The file with f32 weights where activations are f32; the same bytes if there are none."""
    narrow = [
        (number, index)
        for number, graph in enumerate(model.subgraphs)
        for index in sorted(_narrow_weights(graph))
    ]
    if not narrow:
        return data
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    file = schema.ModelT.InitFromPackedBuf(data, 0)
    for number, index in narrow:
        tensor = model.subgraphs[number].tensors[index]
        wide = np.asarray(dequantized(tensor.data, tensor), np.float32)
        made = file.subgraphs[number].tensors[index]
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(wide.tobytes(), np.uint8)
        file.buffers.append(buffer)
        made.buffer = len(file.buffers) - 1
        made.type = schema.TensorType.FLOAT32
        made.quantization = None
    builder = flatbuffers.Builder(len(data))
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _narrow_weights(graph: TfliteSubgraph) -> set[int]:
    """Quantised constants that operators with f32 results take as weights."""
    return {
        index
        for operator in graph.operators
        if operator.kind in _WITH_WEIGHTS and graph.tensors[operator.outputs[0]].dtype == np.float32
        for index in operator.inputs
        if index >= 0
        and graph.tensors[index].data is not None
        and _is_quantized(graph.tensors[index])
    }


def _save(path: Path, calls: Sequence[Sequence[np.ndarray]]) -> None:
    arrays = {f"{n}/{i}": a for n, call in enumerate(calls) for i, a in enumerate(call)}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _loaded(path: Path, calls: int, count: int) -> list[list[np.ndarray]]:
    with np.load(path, allow_pickle=False) as archive:
        return [[archive[f"{n}/{i}"] for i in range(count)] for n in range(calls)]


def _child(home: Path) -> None:
    """The child's part: `inputs.npz` to `outputs.npz`."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plan = json.loads((home / "plan.json").read_text())
    interpreter = Interpreter(
        str(home / "model.tflite"), experimental_op_resolver_type=OpResolverType[plan["kernels"]]
    )
    answers = []
    for data in _loaded(home / "inputs.npz", plan["calls"], len(plan["inputs"])):
        given = dict(zip(plan["inputs"], data, strict=True))
        if plan["key"]:
            results = interpreter.get_signature_runner(plan["key"])(**given)
            answers.append([results[name] for name in plan["outputs"]])
            continue
        for index, value in given.items():
            interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        for index, value in given.items():
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        answers.append([interpreter.get_tensor(index) for index in plan["outputs"]])
    _save(home / "outputs.npz", answers)


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
