"""An ONNX file as the program takes it: inputs that an export made part of it are constants.

An export fixes what decides shapes or branches, a sampling rate for one, as it is in the example
inputs. The peers get the same value in the same way, so that all compute the same and the golden
answers' inputs are theirs, one for one.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

__all__ = ["without_decided"]


def without_decided(file: Path, names: Sequence[str], inputs: Sequence[np.ndarray]) -> bool:
    """Write the file anew where it takes more than the program does; whether that was so.

    Args:
        file: the ONNX file.
        names: what the program's inputs are called.
        inputs: those of its golden call, in the same order.

    Raises:
        ValueError: the example inputs of today are others than those of the golden call.
    """
    import onnx

    from edgec.exporters.dynamic import Dynamic
    from edgec.exporters.from_onnx.inputs import example_inputs, graph_inputs
    from edgec.exporters.from_onnx.prepare import nothing_empty
    from edgec.exporters.from_onnx.sessions import Answers
    from edgec.exporters.from_onnx.statics import with_constants

    model = onnx.load(file)
    given = graph_inputs(model)
    if all(i.name in names for i in given):
        return False
    examples = example_inputs(
        given,
        Answers(model, file.name),
        Dynamic(),
        lambda shapes: nothing_empty(model, given, shapes),
    )
    values = {i.name: array for i, array in zip(given, examples, strict=True)}
    for name, known in zip(names, inputs, strict=True):
        if not np.array_equal(values[name], known, equal_nan=True):
            raise ValueError(f"{name} is another in the golden call: export the model again")
    onnx.save(
        with_constants(model, {i.own: values[i.name] for i in given if i.name not in names}), file
    )
    return True
