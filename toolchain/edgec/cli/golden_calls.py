"""Golden calls to their answers: on a device of this machine, or on another machine."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.cli.elsewhere import deployed
from edgec.cli.session import Session
from edgec.ondevice import Place
from edgec.runtime import Module, load
from edgec.runtime.errors import UsageError

__all__ = ["Answered", "Asked", "ask_here", "ask_there", "filled"]

Asked = Sequence[tuple[str, Sequence[np.ndarray]]]
"""Functions and their inputs, in the order in which they are called."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The outputs of every call, the device's URI and name, and the place that `--on` named."""

    results: Sequence[Sequence[np.ndarray]]
    device: str
    name: str
    place: Place | None = None


def ask_here(
    session: Session, module: Module, asked: Asked, *, device: str | None, weights: Path | None
) -> Answered:
    """Make the calls on fresh state; see `edgec.runtime.load` for errors."""
    with load(module, device=device, weights=weights) as loaded:
        chosen = loaded.device
        session.detail(f"{module.path} on {chosen.uri} ({chosen.name}, by {chosen.runtime})")
        results = [
            [np.array(array.numpy()) for array in loaded[name].call_flat(inputs)]
            for name, inputs in asked
        ]
        return Answered(results=results, device=chosen.uri, name=chosen.name)


def filled(answered: Answered) -> str | None:
    """The same device with bits set in memory that nothing has written; None where it has none."""
    kind, question, options = answered.device.partition("?")
    known = answered.place is None and kind == "edgert://cpu"
    return f"{kind}/unwritten{question}{options}" if known else None


def ask_there(
    session: Session,
    module: Module,
    asked: Asked,
    *,
    on: str,
    device: str | None,
    weights: Path | None,
) -> Answered:
    """Make the calls on another machine; see `edgec.ondevice.deploy` for errors.

    Raises:
        UsageError: state would have to be carried from one function to another, which edgert on
            another machine loads the module anew for.
    """
    groups = [
        (name, [inputs for _, inputs in group])
        for name, group in itertools.groupby(asked, lambda call: call[0])
    ]
    if module.facts.states and len(groups) > 1:
        raise UsageError(
            f"{module.path} keeps state between calls of several functions, and --on makes those "
            "of one at a time",
            hint="verify it on this machine",
        )
    results: list[Sequence[np.ndarray]] = []
    threads = 1
    with deployed(session, module, on=on, device=device, weights=weights) as there:
        for name, calls in groups:
            called = there.call(module.signatures[name], calls)
            results += called.results
            threads = called.threads
        return Answered(
            results=results,
            device=f"edgert://cpu?threads={threads}",
            name=there.place.model,
            place=there.place,
        )
