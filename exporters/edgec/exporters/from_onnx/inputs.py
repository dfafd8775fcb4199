"""The inputs of an ONNX graph, and example arrays for them where the file tells only shapes."""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from edgec.exporters.dynamic import Dynamic
from edgec.exporters.examples import example_array
from edgec.exporters.open_sizes import INNER, example_shape
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, InputError, UnsupportedOp
from edgec.runtime.signature import TensorSpec

__all__ = ["OnnxInput", "example_inputs", "graph_inputs", "nonsense", "plain_name"]


@dataclass(frozen=True, kw_only=True)
class OnnxInput:
    """One input: its name in the file, as Python spells it, and its shape.

    An unknown dimension is a string: its name in the file, which stands for one size, or one of
    its own.
    """

    own: str
    name: str
    shape: tuple[int | str, ...]
    dtype: DType


class Answers(Protocol):
    """What runs a model; both raise ExportError where it does not run, UnsupportedOp where it
    never does."""

    def strictly(
        self, given: Sequence[OnnxInput], data: Sequence[np.ndarray]
    ) -> Sequence[np.ndarray]:
        """What the strictest evaluator gives that takes the model."""

    def run(self, given: Sequence[OnnxInput], data: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """What the first evaluator gives that takes the inputs."""


def plain_name(name: str) -> str:
    """A name as Python can spell it: `serving_default_x:0` is `serving_default_x_0`."""
    plain = re.sub(r"\W", "_", name) or "x"
    return f"_{plain}" if plain[0].isdigit() else plain


def graph_inputs(model: Any) -> tuple[OnnxInput, ...]:
    """The inputs that a caller gives; those with an initialiser are weights.

    Raises:
        UnsupportedOp: an input is no tensor, or of an element type that no module can take.
    """
    from onnx import helper

    constants = {t.name for t in model.graph.initializer}
    found: list[OnnxInput] = []
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        try:
            dtype = DType.of(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        except (InputError, KeyError) as error:
            raise UnsupportedOp(
                f"the input {value.name} of the model holds no numbers",
                hint="export the part of the model that works on tensors of numbers",
            ) from error
        shape = tuple(
            dim.dim_value
            if dim.dim_value > 0
            else dim.dim_param.strip("?") or f"{value.name}:{axis}"
            for axis, dim in enumerate(tensor.shape.dim)
        )
        found.append(
            OnnxInput(own=value.name, name=plain_name(value.name), shape=shape, dtype=dtype)
        )
    return tuple(found)


def example_inputs(
    given: Sequence[OnnxInput],
    answers: Answers,
    dynamic: Dynamic,
    sound: Callable[[Sequence[Sequence[int]]], bool] = lambda _: True,
) -> list[np.ndarray]:
    """Example arrays for a model: the leading unknown dimension is 1, others as the model runs.

    Sizes that onnxruntime takes come first, with all other unknown dimensions alike, then with
    some of them 1; what its looser stand-in takes comes last. Inputs whose answers prove something
    are preferred: positive numbers where others give none that are numbers, and sizes at which
    nothing in the model is empty. Others are taken where nothing else comes.

    Args:
        given: the inputs.
        answers: runs the model.
        dynamic: which dimensions are to stay open, and in which range.
        sound: whether nothing in the model is empty for inputs of these shapes.

    Raises:
        UnsupportedOp: it runs with no inputs at all.
        ExportError: it runs with none of the sizes tried.
    """
    last = ""
    poor: list[np.ndarray] | None = None
    leading = [i.shape[0] for i in given if i.shape and isinstance(i.shape[0], str)]
    inner = dict.fromkeys(d for i in given for d in i.shape if isinstance(d, str))
    rest = [name for name in inner if name not in leading]
    for answer, ones in ((answers.strictly, _subsets(rest)), (answers.run, [()])):
        for small, size in [(o, s) for o in ones for s in (INNER if rest else INNER[:1])]:
            leads = [*leading, *small]
            shapes = [example_shape(i.name, i.shape, size, dynamic, leading=leads) for i in given]
            arrays = [
                _lengths(i, given, shapes) if _says_lengths(i) else _example(i, shape)
                for i, shape in zip(given, shapes, strict=True)
            ]
            for tried in (arrays, [_positive(array) for array in arrays]):
                try:
                    why = nonsense(answer(given, tried))
                except UnsupportedOp:
                    raise
                except ExportError as error:
                    last = error.what
                    continue
                if not why and (not rest or sound(shapes)):
                    return tried
                poor = tried if poor is None else poor
        if poor is not None:
            return poor
    sizes = f"{', '.join(rest)} were tried as {', '.join(map(str, INNER))} and 1; " if rest else ""
    raise ExportError(
        f"no example inputs could be made from the model's input shapes: {sizes}{last}",
        hint="give them: --inputs=@FILE.npz, or from Python as (onnx.load(path), example_inputs)",
    )


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """None of the names, then each, then pairs and so on, while they are few."""
    most = len(names) if len(names) <= _MOST_APART else 0
    return [some for count in range(most + 1) for some in combinations(names, count)]


_MOST_APART = 3
"""Unknown dimensions that are tried as sizes of their own."""


def nonsense(answers: Sequence[np.ndarray]) -> str:
    """Why answers prove little: one is empty or not a number; or nothing."""
    for answer in answers:
        if not answer.size:
            return "an answer is empty"
        if answer.dtype.kind == "f" and np.isnan(answer).any():
            return "an answer is not a number"
    return ""


def _positive(array: np.ndarray) -> np.ndarray:
    """Between 0.1 and 1, where roots and logarithms are numbers."""
    if array.dtype.kind != "f":
        return array
    random = np.random.default_rng(array.size)
    return random.uniform(0.1, 1.0, array.shape).astype(array.dtype)


def _says_lengths(given: OnnxInput) -> bool:
    """Whether an input tells, by its name and type, how long each sequence of a batch is."""
    whole = not given.dtype.is_float and given.dtype is not DType.BOOL
    return whole and len(given.shape) == 1 and _LENGTHS.search(given.name) is not None


_LENGTHS = re.compile(r"(^|_)(len|lens|length|lengths)$", re.IGNORECASE)


def _lengths(
    wanted: OnnxInput, given: Sequence[OnnxInput], shapes: Sequence[tuple[int, ...]]
) -> np.ndarray:
    """Sequences as long as there is room for in the inputs beside; else as any whole numbers are.

    Of shorter ones, which a number by chance mostly is, answers may be all zeros.
    """
    own = dict(zip((i.name for i in given), shapes, strict=True))[wanted.name]
    rooms = [
        size
        for beside, shape in zip(given, shapes, strict=True)
        if len(shape) > 1 and shape[0] == own[0]
        for size, said in zip(shape[1:], beside.shape[1:], strict=True)
        if isinstance(said, str)
    ]
    if not rooms:
        return _example(wanted, own)
    return np.full(own, max(rooms), wanted.dtype.numpy)


def _example(given: OnnxInput, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 4 and given.dtype.is_float and {shape[1], shape[3]} & {1, 3}:
        # An image: values between 0 and 1.
        random = np.random.default_rng(zlib.crc32(given.name.encode()))
        return random.random(shape, np.float32).astype(given.dtype.numpy)
    return example_array(TensorSpec(name=given.name, shape=shape, dtype=given.dtype))
