"""A SavedModel folder to entries with example inputs made from the shapes of its signatures."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.examples import example_array
from edgec.exporters.failures import reason_of
from edgec.exporters.from_tensorflow.call import SavedFunction
from edgec.runtime import tree
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, SourceError, UnsupportedOp
from edgec.runtime.signature import Dim, TensorSpec

__all__ = ["open_saved_model"]

_USUAL = "serving_default"
_INNER = 32
"""What an unknown dimension is in example inputs, other than the leading one, which is 1."""


def open_saved_model(path: Path, signatures: tuple[str, ...]) -> Bundle:
    """Open the folder; the entries hold the signatures or functions asked for.

    Args:
        path: the folder.
        signatures: names of signatures or of the model's own functions; empty takes
            `serving_default`, as `main`; else the only one, as `main`; else all there are.

    Raises:
        SourceError: it cannot be opened, or has nothing of this name.
        UnsupportedOp: a signature takes strings.
    """
    try:
        root = _load(path)
    except Exception as error:
        raise SourceError(
            f"TensorFlow cannot open the SavedModel {path}: {reason_of(error)}",
            hint="check that the folder is whole: saved_model.pb and variables/",
        ) from error
    found = _functions(root)
    if not found:
        raise SourceError(
            f"the SavedModel {path} has no signature and no function that was called before saving",
            hint="save it with signatures=, or give a tf.function an input_signature",
        )
    if not signatures:
        served = [name for name in found if name in root.signatures]
        chosen = [_USUAL] if _USUAL in found else served or list(found)
        names = {"main": chosen[0]} if len(chosen) == 1 else {name: name for name in chosen}
    else:
        missing = [name for name in signatures if name not in found]
        if missing:
            raise SourceError(
                f"the SavedModel {path} has no signature {missing[0]}",
                hint=f"it has {', '.join(found)}",
            )
        names = {name: name for name in signatures}
    return Bundle(tuple(_entry(name, found[own], root) for name, own in names.items()))


def _load(path: Path) -> Any:
    import tensorflow as tf

    try:
        return tf.saved_model.load(str(path))
    except AttributeError as error:
        if "add_slot" not in str(error):
            raise
    # Saved by Keras 2 together with its optimizer, which later releases cannot bring back to
    # life. No function needs it: a copy that has forgotten the optimizer's variables opens.
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    for graph in model.meta_graphs:
        for node in graph.object_graph_def.nodes:
            node.ClearField("slot_variables")
    with tempfile.TemporaryDirectory(prefix="edgec-savedmodel-") as name:
        copy = Path(name)
        for own in path.iterdir():
            if own.name not in ("saved_model.pb", "fingerprint.pb"):
                (copy / own.name).symlink_to(own.resolve())
        (copy / "saved_model.pb").write_bytes(model.SerializeToString())
        logger = tf.get_logger()
        level = logger.level
        logger.setLevel("ERROR")  # it would name each of the optimizer's variables
        try:
            return tf.saved_model.load(str(copy))
        finally:
            logger.setLevel(level)


def _functions(root: Any) -> dict[str, Any]:
    """Signatures by name, then the model's own functions that hold a traced graph."""
    found = dict(root.signatures)
    for name in dir(root):
        if name.startswith("_") and name != "__call__":
            continue
        value = getattr(root, name, None)
        if getattr(value, "concrete_functions", None) and name not in found:
            found["call" if name == "__call__" else name] = value
    return found


def _entry(name: str, function: Any, root: Any) -> Entry:
    concrete = getattr(function, "concrete_functions", [function])[0]
    args, kwargs = concrete.structured_input_signature
    examples = {key: _examples(value, key) for key, value in sorted(kwargs.items())}
    if not args:
        # A signature takes its tensors by name only; their order is that of the names.
        saved = SavedFunction(
            function=lambda *values: function(**dict(zip(examples, values, strict=True))),
            root=root,
            names=tuple(examples),
        )
        return Entry(saved, tuple(examples.values()), name=name)
    names = _argument_names(args)
    saved = SavedFunction(function=function, root=root, names=names)
    inputs = tuple(_examples(value, label) for value, label in zip(args, names, strict=True))
    return Entry(saved, inputs, examples or None, name=name)


def _argument_names(args: tuple[Any, ...]) -> tuple[str, ...]:
    names: list[str] = []
    for number, value in enumerate(args):
        own = getattr(value, "name", None)
        plain = isinstance(own, str) and own.isidentifier() and own not in names
        names.append(str(own) if plain else f"x{number}")
    return tuple(names)


def _examples(value: Any, name: str) -> Any:
    """The same nesting, an array for each `tf.TensorSpec`; Python values stay."""
    leaves, skeleton = tree.flatten(value)
    labels = tree.leaf_names(skeleton, name)
    made = [
        _example(leaf, labels[number]) if hasattr(leaf, "shape") else leaf
        for number, leaf in enumerate(leaves)
    ]
    restored = tree.unflatten(skeleton, made)
    return dict(restored) if isinstance(restored, Mapping) else restored


def _example(spec: Any, name: str) -> Any:
    try:
        dtype = DType.of(spec.dtype.as_numpy_dtype)
    except InputError as error:
        raise UnsupportedOp(
            f"the input {name} holds {spec.dtype.name}, which no module can take",
            hint="choose another signature (--signature), one that takes numbers",
        ) from error
    if spec.shape.rank is None:
        raise SourceError(
            f"the input {name} of the SavedModel has no known rank",
            hint="load it in Python and return (function, example_inputs)",
        )
    shape: list[int | Dim] = [
        (1 if axis == 0 else _INNER) if size is None else size
        for axis, size in enumerate(spec.shape)
    ]
    return example_array(TensorSpec(name=name, shape=tuple(shape), dtype=dtype))
