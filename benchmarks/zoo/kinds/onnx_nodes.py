"""The ONNX project's own tests of its operators, with their inputs and answers.

Left out are those that need strings, sequences or optional values, or sizes that depend on data;
`python -m benchmarks.zoo.kinds.onnx_nodes` counts them. The others are unpacked into the layout
that the project ships its other tests in: `model.onnx` with `test_data_set_0` beside it.
"""

import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage.process import ROOT
from benchmarks.zoo.subject import Built
from edgec.exporters.from_onnx.narrow import carried

__all__ = ["arrays", "build", "counted", "names"]

_FOLDER = ROOT / "build" / "zoo" / "onnx-node-tests"
_BY_DATA = {"Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "Unique"}
"""Operations whose results are as large as the data say."""

_SUBJECT = "subjects"


def names() -> list[str]:
    return sorted(path.name for path in _unpacked().iterdir())


def build(name: str) -> Built:
    """The file; its inputs lie beside it, and the answers are the test's own."""
    folder = _unpacked() / name
    data = folder / "test_data_set_0"
    return Built(
        model=str(folder / "model.onnx"), proof=(arrays(data, "input"), arrays(data, "output"))
    )


def counted() -> Counter[str]:
    """How many tests there are, by why they are no subjects."""
    return Counter(_left_for(case.model) or _SUBJECT for case in _cases())


def _left_for(model: Any) -> str:
    """Why a test is no subject; empty if it is one."""
    import onnx

    kinds = [value.type for value in (*model.graph.input, *model.graph.output)]
    if not all(kind.HasField("tensor_type") for kind in kinds):
        return "sequences, optional values or maps"
    if any(kind.tensor_type.elem_type == onnx.TensorProto.STRING for kind in kinds):
        return "strings"
    if _BY_DATA & {node.op_type for node in model.graph.node}:
        return "sizes that depend on data"
    return ""


def _cases() -> Iterable[Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its data divide by zero on purpose
        yield from load_model_tests(kind="node")


def _unpacked() -> Path:
    import onnx

    unpacked = _FOLDER / f"{onnx.__version__}-{'-'.join(sorted(_BY_DATA))}"
    if not unpacked.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER.parent) as folder:
            part = Path(folder) / "tests"
            _unpack(part)
            _name(part, unpacked)
    return unpacked


def _name(part: Path, folder: Path) -> None:
    """Give a folder its name, unless another process did meanwhile: it has the same in it."""
    try:
        part.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _unpack(folder: Path) -> None:
    import onnx

    for case in _cases():
        if _left_for(case.model):
            continue
        data = folder / case.name / "test_data_set_0"
        data.mkdir(parents=True)
        onnx.save(case.model, folder / case.name / "model.onnx")
        inputs, outputs = case.data_sets[0]
        for what, arrays, specs in (
            ("input", inputs, case.model.graph.input),
            ("output", outputs, case.model.graph.output),
        ):
            for number, (array, spec) in enumerate(zip(arrays, specs, strict=True)):
                (data / f"{what}_{number}.pb").write_bytes(_tensor(array, spec.name))


def _tensor(array: Any, name: str) -> bytes:
    import onnx

    if isinstance(array, onnx.TensorProto):
        return bytes(array.SerializeToString())
    return bytes(onnx.numpy_helper.from_array(np.asarray(array), name).SerializeToString())


def arrays(folder: Path, what: str) -> list[np.ndarray]:
    """The inputs or outputs of a test, from its files."""
    import onnx

    found = []
    for number in range(len(list(folder.glob(f"{what}_*.pb")))):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / f"{what}_{number}.pb").read_bytes())
        found.append(carried(np.asarray(onnx.numpy_helper.to_array(tensor))))
    return found


if __name__ == "__main__":
    for why, count in counted().most_common():
        print(f"{count:5} {why}")
