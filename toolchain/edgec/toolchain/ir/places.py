"""Where in the user's own source an operation comes from."""

import functools
import re
from typing import Any

__all__ = [
    "is_edgecs",
    "is_packages",
    "last_step",
    "node_name",
    "place_of",
    "source_line",
    "step",
    "written_out",
]

# PyTorch names some of its own files as if they lay in the current folder.
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]|^torch[/\\]")
_JIT = re.compile(r"^(jit\([^)]*\)/)+")
"""What JAX puts before the name of everything in a traced function."""
_EDGEC = re.compile(
    r"[/\\]edgec[/\\](cli|exporters|kernels|packaging|runtime|toolchain)[/\\]|[/\\]bin[/\\]edgec$"
)
_FILE = re.compile(r'"([^"]+)":(\d+):\d+')
_NAME = re.compile(r'"((?:[^"\\]|\\.)+)"')
_STEP = "edgec.step"
_LAST_STEP = "edgec.last_step."
_OWN_NAME = re.compile(r"/?edgec\.((of|value)\.\d+|step|last_step\.[a-z0-9_.]+)")
_LAST_STEP_OF = re.compile(rf'"{re.escape(_LAST_STEP)}([a-z0-9_.]+)"')


@functools.lru_cache(maxsize=4096)
def is_packages(file: str) -> bool:
    """Whether a file is an installed package's."""
    return _PACKAGES.search(file) is not None


@functools.lru_cache(maxsize=4096)
def is_edgecs(file: str) -> bool:
    """Whether a file is edgec's own, installed or in a checkout; nobody's model is there."""
    return _EDGEC.search(file) is not None


def source_line(op: Any) -> str | None:
    """`file:line` of an operation: the innermost that is not inside a framework.

    What called edgec is no part of a model; a framework that edgec called is not one's, either.
    """
    found = _FILE.findall(str(op.location))
    edgecs = [place for place, (file, _) in enumerate(found) if is_edgecs(file)] or [len(found)]
    own = [
        place for place in found[: edgecs[-1]] if not (is_edgecs(place[0]) or is_packages(place[0]))
    ]
    return next((f"{file}:{line}" for file, line in own or found[: edgecs[0]]), None)


def node_name(op: Any) -> str | None:
    """What the node of a model's own file is called that an operation comes from (ONNX')."""
    # Files first: what lies between two of them in quotes is no name.
    location = _FILE.sub("", str(op.location))
    names = (_OWN_NAME.sub("", _JIT.sub("", name)) for name in _NAME.findall(location))
    return next((f"node {name}" for name in names if name), None)


def place_of(op: Any) -> str | None:
    """As `source_line`; `node NAME` of a model that has no lines but names, as ONNX files do."""
    return source_line(op) or node_name(op)


def step(op: Any) -> Any:
    """The place (an `ir.Location`) of what is written for an operation in more than one step."""
    from iree.compiler import ir

    return ir.Location.name(_STEP, op.location)


def last_step(op: Any, value: Any) -> None:
    """Mark what makes `value` as the step that an operation's result comes from.

    Nothing is marked where `value` was there before the operation's steps.
    """
    from iree.compiler import ir

    if not isinstance(value.owner, ir.Block) and value.owner.location == step(op):
        value.owner.operation.location = ir.Location.name(_LAST_STEP + op.name, op.location)


def written_out(op: Any) -> str | None:
    """Of a step that a pass wrote in an operation's place, the operation's name.

    It is empty for all steps but the last, and None for what was not written so.
    """
    location = str(op.location)
    if f'"{_STEP}"' in location:
        return ""
    found = _LAST_STEP_OF.findall(location)
    return found[-1] if found else None
