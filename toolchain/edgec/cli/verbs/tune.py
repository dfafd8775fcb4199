"""`edgec tune`: a program, its device and some time to the settings that make it fastest there."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import complete_target
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.toolchain.tuning.evaluate import Subject
    from edgec.toolchain.tuning.pools import Pool
    from edgec.toolchain.tuning.profile import Profile
    from edgec.toolchain.tuning.search import Tuned

__all__ = ["tune"]

_INTERRUPTED = 130
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SHOWN = 8


def tune(
    session: Session,
    program: Annotated[
        Path,
        typer.Argument(metavar="PROGRAM", help="A .mlirbc or .mlir file.", show_default=False),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="NAME",
            help="What to compile for; its device must be here, or on the cluster.",
            autocompletion=complete_target,
        ),
    ] = "cpu",
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="TIME", help="How long to look: 60s, 10m, 1h."),
    ] = "60s",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The profile (default: NAME.TARGET.tuned.json beside the program). "
            "If it is there, tuning goes on from it.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew where there is a profile already.")
    ] = False,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="NAME",
            help="Which function to measure (default: the first).",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="URI",
            help="Where to measure: cpu?threads=1, vulkan://1 … (default: the target's).",
            show_default=False,
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            "--atol", help="Largest absolute error allowed (default: by type).", show_default=False
        ),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol", help="Largest relative error allowed, on top of --atol.", show_default=False
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            min=1,
            max=256,
            help="How many candidates compile at the same time; measuring is one at a time.",
        ),
    ] = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Spread candidates over the nodes of a Ray cluster (auto, HOST:PORT, local).",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Try ways to compile a program on its device, and keep the fastest that is right."""
    from edgec.cli.program_files import refuse_all_but_programs
    from edgec.cli.tuning_progress import showing
    from edgec.runtime import Tolerance
    from edgec.targets import find
    from edgec.toolchain import load_program
    from edgec.toolchain.tuning.evaluate import Subject
    from edgec.toolchain.tuning.search import tune as search

    refuse_all_but_programs(program)
    seconds = parse_time(budget)
    chosen = find(target)
    if device is not None and not _drives(device, chosen.driver):
        raise UsageError(
            f"{device} does not run modules for {chosen.name}",
            hint=f"name a {chosen.driver} device",
        )
    if ray is not None and jobs > 1:
        raise UsageError("--jobs is for this machine, and --ray for a cluster: choose one")
    tolerance = None
    if atol is not None or rtol is not None:
        tolerance = Tolerance(absolute=atol or 0.0, relative=rtol or 0.0)
    path = output or program.with_name(f"{program.stem}.{chosen.file_name}.tuned.json")
    resume = _resumed(session, path, fresh)
    subject = Subject(
        program=load_program(program),
        target=chosen,
        device=device,
        function=function,
        tolerance=tolerance,
    )
    pool = _pool(subject, jobs, ray)
    try:
        with showing(session, seconds) as tell:
            done = search(subject, pool, path, budget=seconds, resume=resume, tell=tell)
    finally:
        pool.close()
    return _report(session, done, program, path)


def parse_time(text: str) -> float:
    """`90`, `60s`, `10m` or `1h` to seconds.

    Raises:
        UsageError: it is no time, or none at all.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*(s|m|min|h)?", text.strip())
    if found is None:
        raise UsageError(f"--budget={text} is no time", hint="write 60s, 10m or 1h")
    seconds = float(found[1]) * _UNITS[found[2] or ""]
    if seconds <= 0:
        raise UsageError("tuning needs a budget above 0", hint="for example --budget=60s")
    return seconds


def _drives(device: str, driver: str) -> bool:
    named = re.split(r"[:?]", device)[0]
    local = ("cpu", "edgert", "local-task", "local-sync")
    return named == driver or (named in local and driver in local)


def _resumed(session: Session, path: Path, fresh: bool) -> "Profile | None":
    from edgec.toolchain.tuning.profile import Profile

    if fresh or not path.exists():
        return None
    found = Profile.load(path)
    session.note(
        f"going on from {path}, where {len(found.trials)} candidates were tried "
        f"({found.gain:.2f} times as fast so far); --fresh begins anew"
    )
    return found


def _pool(subject: "Subject", jobs: int, ray: str | None) -> "Pool":
    from edgec.toolchain.tuning.pools import LocalPool, RayPool

    return LocalPool(subject, jobs) if ray is None else RayPool(subject, ray)


def _report(session: Session, done: "Tuned", program: Path, path: Path) -> Report:
    profile = done.profile
    command = shlex.join(
        ["edgec", "compile", str(program), f"--target={profile.target}", f"--tuned={path}"]
    )
    if done.interrupted:
        session.note("stopped; the best so far is kept, and the same command goes on from it")
    elif done.tried == 0 and not profile.finished:
        session.note(
            "the budget ended before a candidate could be tried: give more with --budget, "
            "and tuning goes on"
        )
    elif profile.gain == 1.0 and not profile.winner.words() and profile.trials:
        cuts = sum(len(times) - 1 for times in profile.cut_times.values())
        others = f" and {cuts} other cuts of single kernels" if cuts else ""
        session.note(
            f"none of {len(profile.trials)} candidates{others} was clearly faster than the "
            "default: it stays as it is"
            + ("" if profile.finished else "; the same command tries the others")
        )
    elif not profile.finished:
        session.note("the budget ended before all was tried; the same command goes on")
    for remark in done.remarks:
        session.note(remark)
    return Report(
        data={
            "program": program,
            "profile": path,
            "target": profile.target,
            "device": profile.device,
            "function": profile.function,
            "before": profile.before,
            "after": profile.after,
            "gain": profile.gain,
            "winner": profile.winner.to_json(),
            "tried": done.tried,
            "trials": [trial.to_json() for trial in profile.trials],
            "spent": profile.spent,
            "finished": profile.finished,
            "interrupted": done.interrupted,
            "next": command,
        },
        blocks=_blocks(done, path, command),
        exit_code=_INTERRUPTED if done.interrupted else 0,
    )


def _blocks(done: "Tuned", path: Path, command: str) -> tuple[Block, ...]:
    from edgec.cli.amounts import seconds_text

    profile = done.profile
    words = " ".join(profile.winner.words()) or "the default settings"
    times = f"{seconds_text(profile.before)} → {seconds_text(profile.after)}"
    ran = sorted((t for t in profile.trials if t.ratio is not None), key=lambda t: t.ratio or 0.0)
    failed = [trial for trial in profile.trials if trial.ratio is None]
    rows = [(t.name, f"{t.ratio:.3f}", t.reason or t.outcome.value) for t in ran[:_SHOWN]]
    rows += [(t.name, "", f"{t.outcome.value}: {t.reason}") for t in failed[:_SHOWN]]
    blocks: list[Block] = [
        f"{path}: {profile.function} for {profile.target} on {profile.device}",
        f"{times}: {profile.gain:.2f} times as fast with {words}",
    ]
    if rows:
        columns = ("candidate", "time / best", "outcome")
        blocks.append(Grid(columns=columns, rows=tuple(rows), right=frozenset({1})))
    return (*blocks, f"next: {command}")
