"""`edgec doctor`: the environment, with the command that mends each fault."""

from edgec.cli.report import Grid, Report
from edgec.cli.session import Session

__all__ = ["doctor"]


def doctor(session: Session) -> Report:
    """Look at everything edgec needs, and name the command that mends each fault."""
    from edgec.cli.doctor_checks import CHECKS, Verdict

    findings = []
    for name, check in CHECKS.items():
        session.detail(f"looking at {name}")
        findings += list(check())
    faults = [f for f in findings if f.verdict is Verdict.FAULT]
    missing = [f for f in findings if f.verdict is Verdict.MISSING]
    rows = tuple((f.verdict.value, f.name, f.detail, f.mend) for f in findings)
    summary = "edgec is sound here" if not faults else f"{len(faults)} faults break edgec here"
    optional = f"; {len(missing)} optional things are not here" if missing else ""
    return Report(
        data={"sound": not faults, "findings": [f.to_json() for f in findings]},
        blocks=(
            Grid(columns=("", "what", "found", "mend with"), rows=rows),
            "",
            f"{summary}{optional}",
        ),
        exit_code=1 if faults else 0,
    )
