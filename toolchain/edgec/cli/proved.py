"""`edgec run --prove`: a module or package that makes its own golden calls here, to a report."""

from pathlib import Path

from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime import load
from edgec.runtime.errors import UsageError

__all__ = ["prove_here", "refuse_others"]


def prove_here(
    session: Session,
    path: Path,
    *,
    device: str | None,
    weights: Path | None,
    verdicts: Path | None,
    key: str | None,
) -> Report:
    """Load, prove, and say what that needed; see `edgec.runtime.LoadedModule.prove` for errors."""
    with load(path, device=device, weights=weights, key=key) as loaded:
        proof = loaded.prove(verdicts)
        module = loaded.module.path
        session.detail(f"the answers are those of {proof.source}")
        return Report(
            data={"module": module, "device": loaded.device.uri, "proof": proof.to_json()},
            blocks=(f"{module}: {proof}",),
        )


def refuse_others(**given: bool) -> None:
    """Refuse options that say how to call a function, which proving does not ask.

    Raises:
        UsageError: one is there.
    """
    others = [f"--{name}" for name, is_given in given.items() if is_given]
    if others:
        raise UsageError(
            f"--prove makes the calls that the module brings, and {', '.join(others)} says of "
            "other ones",
            hint="leave one out",
        )
