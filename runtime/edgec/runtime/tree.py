"""Nested arguments and results: plain containers whose leaves are numbered, and their JSON form.

A skeleton is the structure of a value with each leaf replaced by its index in the flat list:
`{"logits": 0, "states": (1, 2)}`. `None` is an empty branch, as in JAX.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edgec.runtime.errors import InputError, ProgramError

__all__ = [
    "Tree",
    "flatten",
    "from_json",
    "leaf_indices",
    "leaf_names",
    "match",
    "renumber",
    "to_json",
    "unflatten",
]

Tree = int | None | tuple["Tree", ...] | list["Tree"] | dict[str, "Tree"]


def flatten(value: Any, first: int = 0) -> tuple[list[Any], Tree]:
    """Split a nested value of dicts, lists, tuples and None into its leaves and its skeleton.

    Dict entries keep their own order. Named tuples become dicts of their fields.
    """
    leaves: list[Any] = []

    def walk(node: Any) -> Tree:
        if node is None:
            return None
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return {name: walk(getattr(node, name)) for name in node._fields}
        if isinstance(node, Mapping):
            return {str(key): walk(child) for key, child in node.items()}
        if isinstance(node, tuple):
            return tuple(walk(child) for child in node)
        if isinstance(node, list):
            return [walk(child) for child in node]
        leaves.append(node)
        return first + len(leaves) - 1

    skeleton = walk(value)
    return leaves, skeleton


def unflatten(skeleton: Tree, leaves: Sequence[Any]) -> Any:
    """Put leaves back into their structure; the inverse of `flatten`."""
    if skeleton is None:
        return None
    if isinstance(skeleton, int):
        return leaves[skeleton]
    if isinstance(skeleton, dict):
        return {key: unflatten(child, leaves) for key, child in skeleton.items()}
    return type(skeleton)(unflatten(child, leaves) for child in skeleton)


def match(skeleton: Tree, value: Any, name: str) -> dict[int, Any]:
    """Take `value` apart along `skeleton`: leaf index to leaf.

    Lists and tuples stand for each other; a mapping must have exactly the skeleton's keys.

    Raises:
        InputError: the structures differ; the message names the place.
    """
    if skeleton is None:
        if value is not None:
            raise InputError(f"{name} takes None and got {type(value).__name__}")
        return {}
    if isinstance(skeleton, int):
        if value is None or isinstance(value, dict):
            raise InputError(f"{name} takes one array and got {type(value).__name__}")
        return {skeleton: value}
    found: dict[int, Any] = {}
    if isinstance(skeleton, dict):
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            value = value._asdict()
        if not isinstance(value, Mapping):
            raise InputError(f"{name} takes a dict and got {type(value).__name__}")
        given = {str(key) for key in value}
        if given != set(skeleton):
            missing = sorted(set(skeleton) - given)
            unknown = sorted(given - set(skeleton))
            raise InputError(f"{name} has the wrong keys: missing {missing}, unknown {unknown}")
        by_key = {str(key): child for key, child in value.items()}
        for key, child in skeleton.items():
            found |= match(child, by_key[key], f"{name}.{key}")
        return found
    if not isinstance(value, list | tuple):
        raise InputError(
            f"{name} takes a {type(skeleton).__name__} of {len(skeleton)} "
            f"and got {type(value).__name__}"
        )
    if len(value) != len(skeleton):
        raise InputError(f"{name} takes {len(skeleton)} items and got {len(value)}")
    for position, (child, item) in enumerate(zip(skeleton, value, strict=True)):
        found |= match(child, item, f"{name}[{position}]")
    return found


def leaf_indices(skeleton: Tree) -> list[int]:
    """The number of every leaf, in the order of the structure."""
    if skeleton is None:
        return []
    if isinstance(skeleton, int):
        return [skeleton]
    children = skeleton.values() if isinstance(skeleton, dict) else skeleton
    return [index for child in children for index in leaf_indices(child)]


def leaf_names(skeleton: Tree, root: str) -> dict[int, str]:
    """A readable name for every leaf: `params.w1`, `cache[0].k`; the root alone for a bare leaf."""
    if skeleton is None:
        return {}
    if isinstance(skeleton, int):
        return {skeleton: root}
    names: dict[int, str] = {}
    if isinstance(skeleton, dict):
        for key, child in skeleton.items():
            names |= leaf_names(child, f"{root}.{key}" if root else key)
        return names
    for position, child in enumerate(skeleton):
        names |= leaf_names(child, f"{root}[{position}]" if root else str(position))
    return names


def renumber(skeleton: Tree, numbers: Mapping[int, int]) -> Tree:
    """The same structure with other leaf numbers; a leaf without a new number becomes None."""
    if skeleton is None:
        return None
    if isinstance(skeleton, int):
        return numbers.get(skeleton)
    if isinstance(skeleton, dict):
        return {key: renumber(child, numbers) for key, child in skeleton.items()}
    return type(skeleton)(renumber(child, numbers) for child in skeleton)


def to_json(skeleton: Tree) -> Any:
    """The JSON form: a leaf is a number, a container an object with its kind as the only key."""
    if skeleton is None or isinstance(skeleton, int):
        return skeleton
    if isinstance(skeleton, dict):
        return {"dict": {key: to_json(child) for key, child in skeleton.items()}}
    kind = "tuple" if isinstance(skeleton, tuple) else "list"
    return {kind: [to_json(child) for child in skeleton]}


def from_json(value: Any) -> Tree:
    """The inverse of `to_json`.

    Raises:
        ProgramError: the JSON is not a skeleton.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    match value:
        case {"dict": dict() as children, **rest} if not rest:
            return {str(key): from_json(child) for key, child in children.items()}
        case {"tuple": list() as children, **rest} if not rest:
            return tuple(from_json(child) for child in children)
        case {"list": list() as children, **rest} if not rest:
            return [from_json(child) for child in children]
    raise ProgramError(f"damaged signature: {value!r} is no structure of arguments")
