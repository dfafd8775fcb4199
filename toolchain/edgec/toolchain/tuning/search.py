"""Candidates to the fastest settings, greedily.

Where the machine can compute no faster, nothing is tried. Where edgec's own kernels take most of a
call, other cuts of them come first, and then levels, passes and flags; elsewhere levels, passes and
the likeliest flags, then cuts, then the other flags. Each candidate is measured in turns with the
best so far, and takes its place only if it is clearly faster and right.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgec.runtime.errors import UsageError
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.candidates import Move, moves_for
from edgec.toolchain.tuning.cut_search import CutSearch
from edgec.toolchain.tuning.evaluate import Subject
from edgec.toolchain.tuning.pools import Pool
from edgec.toolchain.tuning.profile import Outcome, Profile, program_key
from edgec.toolchain.tuning.run import News, Run
from edgec.toolchain.tuning.tile_search import try_tiles

__all__ = ["News", "Tuned", "tune"]


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What came of a run.

    Attributes:
        profile: what was found.
        tried: how many candidates this run tried.
        interrupted: whether Ctrl-C ended it.
        remarks: what there was to try, and what there was no time for.
    """

    profile: Profile
    tried: int
    interrupted: bool
    remarks: tuple[str, ...] = ()


def tune(
    subject: Subject,
    pool: Pool,
    output: Path,
    *,
    budget: float,
    resume: Profile | None = None,
    tell: Callable[[News], None] = lambda news: None,
) -> Tuned:
    """Look for faster settings until the budget or the candidates end, or Ctrl-C.

    The profile is written after each candidate, so whatever ends the run, the best so far stays.

    Args:
        subject: what is tuned, and where.
        pool: where candidates are tried.
        output: the profile's file.
        budget: seconds; the default itself is always compiled and measured.
        resume: a profile of an earlier run to go on from.
        tell: called with news.

    Raises:
        UsageError: there is no budget.
        ProfileError: `resume` is of another program or target.
        DeviceMissing: the target's device is not here.
        EdgecError: the program as it is does not compile, is wrong, or does not run.
    """
    if not budget > 0:
        raise UsageError("tuning needs a budget above 0", hint="for example --budget=60s")
    path = subject.program.path
    name = path.stem if path is not None else subject.called
    key = program_key(subject.program)
    if resume is not None:
        resume.refuse_other(key, name, subject.target.name)
    run = Run(subject=subject, pool=pool, output=output, budget=budget, tell=tell)
    run.start(name, key, resume)
    interrupted = False
    try:
        finished = all(phase() for phase in _phases(run))
        run.confirm()
        run.save(finished=finished)
    except KeyboardInterrupt:
        interrupted = True
        run.save()
    return Tuned(
        profile=run.profile,
        tried=run.tried,
        interrupted=interrupted,
        remarks=tuple(run.remarks),
    )


def _phases(run: Run) -> list[Callable[[], bool]]:
    """What is tried in which order; each says whether it had the time for all of it."""
    cuts = CutSearch(run)
    kernels: list[Callable[[], bool]] = [cuts.all_tried, partial(try_tiles, run)]
    broad, rest = (partial(_try_moves, run, first=first) for first in (True, False))
    found = cuts.look()
    if found is not None and found.is_hopeless:
        run.remarks.append(f"there is nothing to win here: {found.text()}")
        return []
    if found is not None and found.is_mostly_kernels:
        return [*kernels, broad, rest]
    return [broad, *kernels, rest]


def _try_moves(run: Run, *, first: bool) -> bool:
    """Try changes of the whole program, those of most promise or the rest; whether all were."""
    tried = {trial.name for trial in run.profile.trials}
    known = {trial.settings.key for trial in run.profile.trials} | {Settings().key}
    effective: list[str] = []
    if first:
        (effective,) = run.pool.run([("effective_passes", ())])
    moves = moves_for(run.subject.target, effective, first=first)
    queue = deque(move for move in moves if move.name not in tried)
    while queue:
        if run.room <= 0:
            return False
        batch: list[tuple[Move, Settings]] = []
        while queue and len(batch) < run.pool.width:
            move = queue.popleft()
            settings = move.apply(run.profile.winner)
            if settings.key not in known:
                batch.append((move, settings))
        trials = run.attempt([(move.name, settings) for move, settings in batch])
        if None in trials:
            return False
        known |= {settings.key for _, settings in batch}
        winners = sorted(
            (trial.ratio or 0.0, number)
            for number, trial in enumerate(trials)
            if trial is not None and trial.outcome is Outcome.FASTER
        )
        # Those that were faster than the best of before may add to the one that won.
        queue.extendleft(batch[number][0] for _, number in winners[1:])
    return True
