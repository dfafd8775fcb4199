"""ONNX' encoders (`ai.onnx.ml`) in its usual operations, where numbers alone are told apart: what
maps strings has no form here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["imputer", "label_encoder", "one_hot_encoder"]


def imputer(work: Rewriting, node: Any) -> bool:
    """What stands for a missing value, or is none, is replaced."""
    given = work.attributes(node)
    kind = work.kinds.get(node.input[0])
    if kind is None:
        return False
    whole = np.dtype(kind).kind in "iu"
    values = given.get("imputed_value_int64s" if whole else "imputed_value_floats")
    missing = given.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    if not values:
        return False
    value = node.input[0]
    if not whole and np.isnan(missing):
        test = work.node("IsNaN", value)
    else:
        test = work.node("Equal", value, work.constant(np.array(missing, kind)))
    work.node("Where", test, work.constant(np.array(values, kind)), value, output=node.output[0])
    return True


def one_hot_encoder(work: Rewriting, node: Any) -> bool:
    """One and zeros along a new last axis; zeros alone for what is no category."""
    given = work.attributes(node)
    categories = given.get("cats_int64s")
    if not categories or not given.get("zeros", 1) or not _is_number(work, node.input[0]):
        return False
    found = _found(work, node.input[0], np.array(categories, np.int64))
    work.node("Cast", found, output=node.output[0], to=_number(np.dtype(np.float32)))
    return True


def label_encoder(work: Rewriting, node: Any) -> bool:
    """The value of the key that is found, or the default."""
    given = work.attributes(node)
    keys, values = _table(given, "keys"), _table(given, "values")
    if keys is None or values is None or not _is_number(work, node.input[0]):
        return False
    name = {"f": "default_float", "i": "default_int64"}[values.dtype.kind]
    default = given.get(name, -0.0 if values.dtype.kind == "f" else -1)
    if "default_tensor" in given:
        from onnx import numpy_helper

        default = numpy_helper.to_array(given["default_tensor"]).ravel()[0]
    found = _found(work, node.input[0], keys)
    place = work.node("ArgMax", _whole(work, found), axis=-1, keepdims=0)
    value = work.node("Gather", work.constant(values), place, axis=0)
    # ReduceMax takes its axes in different ways; of zeros and ones the sum says the same.
    count = work.node("ReduceSum", _whole(work, found), work.numbers(-1), keepdims=0)
    some = work.node("Greater", count, work.constant(np.array(0, np.int64)))
    other = work.constant(np.array(default, values.dtype))
    work.node("Where", some, value, other, output=node.output[0])
    return True


def _table(given: Mapping[str, Any], name: str) -> np.ndarray | None:
    """Keys or values, in the type that they were given in; None where they are strings."""
    if given.get(f"{name}_floats"):
        return np.array(given[f"{name}_floats"], np.float32)
    if given.get(f"{name}_int64s"):
        return np.array(given[f"{name}_int64s"], np.int64)
    if f"{name}_tensor" in given:
        from onnx import numpy_helper

        found = numpy_helper.to_array(given[f"{name}_tensor"])
        return found if found.dtype.kind in "fi" else None
    return None


def _found(work: Rewriting, value: str, keys: np.ndarray) -> str:
    """Which of the keys each element is, along a new last axis; NaN is one, too."""
    apart = work.node("Unsqueeze", value, work.numbers(-1))
    if work.kinds.get(value) != keys.dtype:
        apart = work.node("Cast", apart, to=_number(keys.dtype))
    found = work.node("Equal", apart, work.constant(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        nan = work.node("And", work.node("IsNaN", apart), work.constant(np.isnan(keys)))
        found = work.node("Or", found, nan)
    return found


def _whole(work: Rewriting, value: str) -> str:
    return work.node("Cast", value, to=_number(np.dtype(np.int64)))


def _is_number(work: Rewriting, value: str) -> bool:
    kind = work.kinds.get(value)
    return kind is not None and np.dtype(kind).kind in "fiu"


def _number(dtype: np.dtype) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))
