"""Programs that `edgec split` has cut on the command line: run and proved."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.cli.folder_reports import called_report, proved_report
from edgec.cli.report import Report
from edgec.cli.session import Session

if TYPE_CHECKING:
    from edgec.runtime.split_folder import SplitFolder

__all__ = ["run_split", "split_text"]


def run_split(
    session: Session,
    path: Path,
    *,
    inputs: Sequence[str],
    expected: Sequence[str],
    each: bool,
    output: Path | None,
) -> Report:
    """Run a program that `edgec split` has cut; without inputs, its golden calls, as a proof.

    With `each` the rows of the inputs are a stream of calls.

    Raises:
        As `edgec.runtime.split.load_split` and a call.
    """
    from edgec.runtime.split import load_split

    with load_split(path) as loaded:
        for note in loaded.notes:
            session.note(note)
        folder = loaded.folder
        data: dict[str, object] = {
            "folder": path,
            "devices": list(folder.devices),
            "stages": [[place.device for place in step.places] for step in folder.steps],
            "in_flight": folder.in_flight,
        }
        where = f"{path}: {split_text(folder)}"
        if not (inputs or expected or each or output):
            return proved_report(path, loaded.check, where, data)
        return called_report(
            session,
            path,
            loaded.signature,
            lambda calls: list(loaded.stream(calls)),
            inputs=inputs,
            expected=expected,
            each=each,
            output=output,
            where=where,
            about=data,
        )


def split_text(folder: "SplitFolder") -> str:
    """`2 modules on cpu, vulkan`; of a stream, how many calls are under way, too."""
    places = [" + ".join(folder.devices[p.device] for p in step.places) for step in folder.steps]
    count = len(places)
    said = f"{count} module{'s' if count > 1 else ''} on {', '.join(places)}"
    return said if folder.in_flight == 1 else f"{said}; {folder.in_flight} calls under way"
