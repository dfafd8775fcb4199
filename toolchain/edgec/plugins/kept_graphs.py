"""Modules of graphs that were compiled and proved before, by all that they depend on."""

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgec import exporters
from edgec.runtime import Module
from edgec.targets import Target
from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.compiling.task import versions
from edgec.toolchain.fingerprint import digest

__all__ = ["module_of"]


def module_of(
    graph: Any,
    inputs: Sequence[Any],
    still: Sequence[int],
    target: Target,
    make: Callable[[], Module],
    last: Sequence[int] = (),
) -> Module:
    """A graph's module, from the cache where the very same was made before.

    Args:
        graph: the `torch.fx.GraphModule`.
        inputs: its inputs, tensors and sizes.
        still: which of them are constants of the module, by whose values it is known, too.
        target: what the module is for.
        make: export, compile and prove it.
        last: results that the module gives with their channels last.
    """
    key = _key(graph, inputs, still, target, last)
    cache = Cache.default()
    found = None if key is None else cache.get(key)
    if found is not None:
        return Module.read(found.payload)
    made = make()
    if key is not None:
        cache.put(key, made.path.read_bytes(), {})
    return made


def _key(
    graph: Any, inputs: Sequence[Any], still: Sequence[int], target: Target, last: Sequence[int]
) -> str | None:
    """All that a module depends on, or None where a graph holds more than its code says."""
    import torch

    constants = []
    for node in graph.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            value = functools.reduce(getattr, node.target.split("."), graph)
            if not isinstance(value, torch.Tensor):
                return None
            constants.append(value)
    kinds = [
        (list(value.shape), list(value.stride()), str(value.dtype))
        if isinstance(value, torch.Tensor)
        else repr(value)
        for value in inputs
    ]
    values = [inputs[index] for index in still] + constants
    return key_of(
        "torch graph",
        graph.code,
        json.dumps([kinds, list(still), list(last)]),
        json.dumps(target.to_json(), sort_keys=True),
        json.dumps([versions(), torch.__version__, _exporters()], sort_keys=True),
        *(_digest(value) for value in values),
    )


def _digest(tensor: Any) -> str:
    import torch

    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{tuple(tensor.shape)} {tensor.dtype} {hashlib.sha256(flat).hexdigest()}"


@functools.cache
def _exporters() -> str:
    """The digest of what makes a program of a graph."""
    root = Path(exporters.__file__ or "").parent
    here = Path(__file__).parent
    return digest(root.rglob("*.py"), root) + digest(here.glob("*.py"), here)
