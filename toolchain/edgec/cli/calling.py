"""Calls of a module to their outputs: on a device of this machine, or on another machine."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.cli.calls import Calls
from edgec.cli.elsewhere import deployed
from edgec.cli.session import Session
from edgec.cli.waiting import waiting
from edgec.ondevice import Place
from edgec.runtime import Module, load
from edgec.runtime.signature import Signature

__all__ = ["Called", "call_here", "call_there"]


@dataclass(frozen=True, kw_only=True)
class Called:
    """Outputs of every call, the seconds all of them took, and where they were made.

    `device` is the URI there; `place` is what `--on` named, None for this machine.
    """

    results: Sequence[Sequence[np.ndarray]]
    seconds: float
    device: str
    place: Place | None = None


def call_here(
    session: Session,
    module: Module,
    signature: Signature,
    calls: Calls,
    *,
    device: str | None,
    weights: Path | None,
) -> Called:
    """Call a function on a device of this machine; see `edgec.runtime.load` for errors."""
    with load(module, device=device, weights=weights) as loaded:
        chosen = loaded.device
        session.detail(f"{module.path} on {chosen.uri} ({chosen.name}, by {chosen.runtime})")
        function = loaded[signature.name]
        start = time.perf_counter()
        results = [
            [np.array(array.numpy()) for array in function.call_flat(leaves)]
            for leaves in calls.inputs
        ]
        seconds = time.perf_counter() - start
        return Called(results=results, seconds=seconds, device=loaded.device.uri)


def call_there(
    session: Session,
    module: Module,
    signature: Signature,
    calls: Calls,
    *,
    on: str,
    device: str | None,
    weights: Path | None,
) -> Called:
    """Call a function on another machine; see `edgec.ondevice.deploy` for errors."""
    with (
        waiting(session, f"calling {module.path} on {on}"),
        deployed(session, module, on=on, device=device, weights=weights) as there,
    ):
        called = there.call(signature, calls.inputs)
        return Called(
            results=called.results,
            seconds=called.seconds,
            device=f"edgert://cpu?threads={called.threads}",
            place=there.place,
        )
