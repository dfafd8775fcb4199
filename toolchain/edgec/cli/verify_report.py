"""What the calls of `edgec verify` came to, as its report: a table of outputs and a verdict."""

from pathlib import Path

from edgec.cli.golden_calls import Answered
from edgec.cli.report import Block, Grid, Report
from edgec.cli.signed import Checked
from edgec.verifying import Subject, Verdict

__all__ = ["verdict_report"]


def verdict_report(
    file: Path,
    subject: Subject,
    answered: Answered,
    verdict: Verdict,
    signed: Checked | None,
    again: str | None,
) -> Report:
    """The report of one verdict.

    Args:
        file: what was verified.
        subject: as it was opened.
        answered: what the device gave.
        verdict: on that.
        signed: whose signature it bears, where that was asked.
        again: the device whose unwritten memory was filled; None where there is none.
    """
    place = answered.place
    where = answered.name if place is None else place.name
    calls = len(verdict.calls)
    blocks: list[Block] = [
        f"{file} on {where}: {calls} call{'s' * (calls > 1)}, answers of {subject.source}",
        _grid(verdict),
        *([] if signed is None else [signed.said]),
        *([] if again is None else [_UNWRITTEN[verdict.ok]]),
        f"verdict: {'right' if verdict.ok else 'WRONG'}",
    ]
    return Report(
        data={
            "file": file,
            "kind": "module" if subject.program is None else "program",
            "target": subject.module.facts.target,
            "device": answered.device,
            "on": None if place is None else place.to_json(),
            "source": subject.source,
            "signed_by": None if signed is None else signed.key,
            "ok": verdict.ok,
            "ok_with_unwritten_memory_filled": None if again is None else verdict.ok,
            "calls": [call.to_json() for call in verdict.calls],
        },
        blocks=tuple(blocks),
        error=verdict.failure(f"{file} on {where}"),
    )


_UNWRITTEN = {
    True: "memory that nothing has written was filled with other bits: right as well",
    False: "right as long as memory that nothing has written is 0: a kernel reads what none writes",
}


def _grid(verdict: Verdict) -> Grid:
    rows = []
    for number, call in enumerate(verdict.calls):
        for output in call.outputs:
            near = output.closeness
            rows.append(
                (
                    f"{number + 1}",
                    call.function,
                    output.name,
                    str(output.compared),
                    f"{output.worst:.2e}",
                    "" if near is None else f"{near.relative_l2:.2e}",
                    "" if near is None else f"{near.cosine:.7f}",
                    "" if near is None else f"{near.signal_to_noise:.1f} dB",
                    "right" if output.ok else "WRONG",
                )
            )
    return Grid(
        columns=(
            *("call", "function", "output", "numbers", "worst"),
            *("relative L2", "cosine", "signal to noise", ""),
        ),
        rows=tuple(rows),
        right=frozenset({0, 3, 4, 5, 6, 7}),
    )
