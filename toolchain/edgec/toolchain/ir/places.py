"""Where in the user's own source an operation comes from."""

import re
from typing import Any

__all__ = ["is_edgecs", "is_packages", "node_name", "source_line"]

# PyTorch names some of its own files as if they lay in the current folder.
_PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]|^torch[/\\]")
_EDGEC = re.compile(
    r"[/\\]edgec[/\\](cli|exporters|kernels|packaging|runtime|toolchain)[/\\]|[/\\]bin[/\\]edgec$"
)


_NAME = re.compile(r'"((?:[^"\\]|\\.)+)"(?!:\d)')
_OWN_NAME = re.compile(r"/?edgec\.(of|value)\.\d+")


def is_packages(file: str) -> bool:
    """Whether a file is an installed package's."""
    return _PACKAGES.search(file) is not None


def is_edgecs(file: str) -> bool:
    """Whether a file is edgec's own, installed or in a checkout; nobody's model is there."""
    return _EDGEC.search(file) is not None


def source_line(op: Any) -> str | None:
    """`file:line` of an operation: the innermost that is not inside a framework."""
    found = re.findall(r'"([^"]+)":(\d+):\d+', str(op.location))
    places = [place for place in found if not is_edgecs(place[0])]
    own = [place for place in places if not is_packages(place[0])]
    return next((f"{file}:{line}" for file, line in own or places), None)


def node_name(op: Any) -> str | None:
    """What the node of a model's own file is called that an operation comes from (ONNX')."""
    names = (_OWN_NAME.sub("", name) for name in _NAME.findall(str(op.location)))
    return next((f"node {name}" for name in names if name), None)
