"""`--on`: what `edgec run` and `edgec bench` have in common on another machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgec.cli.session import Session
from edgec.ondevice import Deployment, connect, deploy
from edgec.runtime import Module
from edgec.runtime.device import parse_uri
from edgec.runtime.errors import UsageError

__all__ = ["deployed", "threads_there"]


@contextmanager
def deployed(
    session: Session, module: Module, *, on: str, device: str | None, weights: Path | None
) -> Iterator[Deployment]:
    """The module on another machine; nothing stays there.

    Args:
        session: is told what happens.
        module: the module.
        on: the other machine, as `--on` names it.
        device: what `--device` says: edgert's URI, for a number of threads.
        weights: what `--weights` says.

    Raises:
        UsageError: the flags do not go together.
        EdgecError: see `edgec.ondevice.deploy`.
    """
    threads = threads_there(device)
    with deploy(
        module,
        connect(on),
        weights=weights,
        threads=threads,
        tell=session.detail,
        warn=session.note,
        building=session.say,
    ) as there:
        yield there


def threads_there(device: str | None) -> int | None:
    """How many threads `--device` asks for on another machine; None where it does not.

    Raises:
        UsageError: it is no device of edgert's.
    """
    if device is None:
        return None
    driver, path, threads = parse_uri(device)
    if driver != "edgert" or path not in ("", "cpu"):
        raise UsageError(
            f"--device={device} does not go with --on: there edgert runs the module",
            hint="leave it out, or write --device=edgert://cpu?threads=N",
        )
    return threads
