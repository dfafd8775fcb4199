"""What every framework's exporter hands over: one traced function, lifted, with its weights."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.runtime.mesh.plan import Sharding
from edgec.runtime.signature import Signature
from edgec.toolchain.framework_values import FrameworkValue
from edgec.toolchain.program import Dialect, Role

__all__ = ["TracedCall", "TracedFunction", "said_kept"]

_LOG = logging.getLogger("edgec.exporters")


@dataclass(frozen=True, kw_only=True)
class TracedCall:
    """One run in the framework: flat inputs, flat answers, in the signature's order.

    `within` and `open` are those of `GoldenCall`.
    """

    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    within: tuple[float, ...] = ()
    open: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TracedFunction:
    """One function as its framework gave it.

    Attributes:
        module: MLIR (text, bytecode or portable artifact) whose only public function is `main`;
            weights and state are arguments of it, in any order.
        arguments: the role of each argument of `main`.
        results: the role of each result of `main`.
        parameters: the value of each `Parameter` role by name.
        states: the initial value of each `State` role by name.
        constants: arrays that may lie in the code as constants, by the user's names for them.
        cuts: how the model itself cuts parameters along the axes of a mesh, by name.
        calls: the example calls with the framework's answers, in the order they were made.
        values: what was computed on the way in the first of them, where that was asked.
        computed_by: the distribution that computed it.
        kept: why it is in another dialect than StableHLO: what has no form there.
    """

    module: bytes | str
    dialect: Dialect
    signature: Signature
    arguments: tuple[Role, ...]
    results: tuple[Role, ...]
    parameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    states: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    cuts: Mapping[str, Sharding] = field(default_factory=dict)
    calls: tuple[TracedCall, ...] = ()
    values: tuple[FrameworkValue, ...] = ()
    computed_by: str = ""
    kept: str = ""


def said_kept(functions: Sequence[TracedFunction]) -> Sequence[TracedFunction]:
    """The functions; those that have no form in StableHLO are told, and why."""
    for function in functions:
        if function.dialect is not Dialect.STABLEHLO:
            _LOG.warning(
                "%s is in the %s dialect, for this compiler only, in which no kernel of edgec's "
                "own is placed: %s",
                function.signature.name,
                function.dialect.value,
                function.kept,
            )
    return functions
