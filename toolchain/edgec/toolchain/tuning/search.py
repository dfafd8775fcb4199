"""Candidates to the fastest settings, greedily.

Where edgec's own kernels take most of a call, other cuts of them come first, and then levels,
passes and flags; elsewhere levels, passes and the likeliest flags, then cuts, then the other flags.
Each candidate is measured in turns with the best so far, and takes its place only if it is clearly
faster and right.

Tiles are tried for all kernels at once: a round gives each kernel another cut in one module, whose
dispatches are timed apart; the cuts that won are then one candidate like any other, and if that
one loses, those of the longest kernels are tried one by one. Rounds are timed in a small program
that has each of the kernels once, where one can be written; a candidate always in the program.

Kernels of a GPU share code between sizes, so that their times cannot be told apart in a program.
There each product and convolution is timed alone, the longest first by the model of cost.
"""

import json
import math
import platform
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgec.runtime.errors import DeviceMissing, EdgecError, UsageError
from edgec.toolchain.compiling import versions
from edgec.toolchain.kernels.cpu.source import Cut, vector_unit
from edgec.toolchain.kernels.gpu.tiles import Tile, parse_key
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.candidates import Move, moves_for
from edgec.toolchain.tuning.cuts import split_cuts
from edgec.toolchain.tuning.evaluate import Subject
from edgec.toolchain.tuning.measure import Measured
from edgec.toolchain.tuning.outlook import KernelTimes, Outlook, outlook
from edgec.toolchain.tuning.pools import Pool, Work
from edgec.toolchain.tuning.profile import Outcome, Profile, Trial, program_key
from edgec.toolchain.tuning.tiles import expected, tiles_for

__all__ = ["News", "Tuned", "tune"]

_MOST_KERNELS = 16
_PROFILED_SECONDS = 2.0
_PROFILED_CALLS = (5, 30)
_MOST_CUTS = 20
_CUT_FASTER = 0.97
_SINGLE_KERNELS = 4


@dataclass(frozen=True, kw_only=True)
class News:
    """How far tuning is.

    Attributes:
        doing: what is at work now.
        tried: how many candidates this run tried.
        before, after: seconds a call by default and with the best so far; 0 before they are known.
        gain: how many times as fast the best is.
        left: seconds of the budget that are left.
        trial: the candidate that was just tried, if one was.
        quiet: whether a line about the trial itself will follow.
    """

    doing: str
    tried: int
    before: float
    after: float
    gain: float
    left: float
    trial: Trial | None = None
    quiet: bool = False


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
    search = _Search(subject=subject, pool=pool, output=output, budget=budget, tell=tell)
    return search.run(name, key, resume)


class _Search:
    """One run. `_profile` is the state, and what is on disk."""

    _profile: Profile
    _outlook: Outlook | None = None
    _looked_at = ""
    _alone: tuple[str, ...] = ()
    _compiling = 0.0

    def __init__(
        self,
        *,
        subject: Subject,
        pool: Pool,
        output: Path,
        budget: float,
        tell: Callable[[News], None],
    ) -> None:
        self._subject = subject
        self._pool = pool
        self._output = output
        self._begin = time.monotonic()
        self._budget = budget
        self._tell = tell
        self._tried = 0
        self._spent = 0.0
        self._remarks: list[str] = []
        self._seconds = min(3.0, max(0.4, budget / 50))

    def run(self, name: str, key: str, resume: Profile | None) -> Tuned:
        """Tune; the caller has checked that `resume` fits."""
        self._start(name, key, resume)
        interrupted = False
        try:
            finished = all(phase() for phase in self._phases())
            self._confirm()
            self._save(finished=finished)
        except KeyboardInterrupt:
            interrupted = True
            self._save()
        return Tuned(
            profile=self._profile,
            tried=self._tried,
            interrupted=interrupted,
            remarks=tuple(self._remarks),
        )

    def _phases(self) -> list[Callable[[], bool]]:
        """What is tried in which order; each says whether it had the time for all of it."""
        kernels = [self._kernels, self._tiles]
        broad, rest = (partial(self._moves, first=first) for first in (True, False))
        found = self._look()
        if found is not None and found.is_mostly_kernels:
            return [*kernels, broad, rest]
        return [broad, *kernels, rest]

    def _look(self) -> Outlook | None:
        """Where the time of the best so far goes; None for GPUs, or without the time."""
        unit = vector_unit(self._subject.target)
        if unit is None:
            return None
        times = self._whole_times({})
        if times is None:
            return None
        self._outlook = outlook(times, unit)
        self._say(self._outlook.text())
        return self._outlook

    @property
    def _left(self) -> float:
        return self._budget - (time.monotonic() - self._begin)

    @property
    def _room(self) -> float:
        """Seconds left for candidates: the last measurement is kept for the end."""
        return self._left - self._seconds - 1.0

    def _start(self, name: str, key: str, resume: Profile | None) -> None:
        """Build and measure the default, or the winner of the run before."""
        self._say("compiling the program as it is")
        begin = time.monotonic()
        (device,) = self._pool.run([("prepare", ())])
        self._compiling = time.monotonic() - begin
        self._say("measuring the program as it is")
        best = resume.winner if resume is not None else Settings()
        stale = resume is not None and bool(resume.stale(versions()))
        try:
            measured = self._measure(Settings(), best)
        except EdgecError:
            if not stale:
                raise
            best = Settings()  # what won with another version may be refused by this one
            measured = self._measure(Settings(), best)
        if resume is None or stale:
            best = best if measured.is_faster else Settings()
            gain = 1 / measured.ratio if measured.is_faster else 1.0
        else:
            gain = resume.gain
        kept = resume if resume is not None and not stale else None
        self._spent = kept.spent if kept is not None else 0.0
        self._profile = Profile(
            program=name,
            program_key=key,
            target=self._subject.target.name,
            device=device,
            machine=f"{platform.machine()} {platform.system()}, {_processor()}",
            versions=versions(),
            function=self._subject.called,
            winner=best,
            before=measured.base,
            after=measured.candidate if best.key != Settings().key else measured.base,
            gain=gain,
            trials=kept.trials if kept is not None else (),
            cut_times=kept.cut_times if kept is not None else {},
            spent=self._spent,
            finished=False,
        )
        self._save()

    def _moves(self, *, first: bool) -> bool:
        """Try changes of the whole program, those of most promise or the rest; whether all were."""
        tried = {trial.name for trial in self._profile.trials}
        known = {trial.settings.key for trial in self._profile.trials} | {Settings().key}
        effective: list[str] = []
        if first:
            (effective,) = self._pool.run([("effective_passes", ())])
        moves = moves_for(self._subject.target, effective, first=first)
        queue = deque(move for move in moves if move.name not in tried)
        while queue:
            if self._room <= 0:
                return False
            batch: list[tuple[Move, Settings]] = []
            while queue and len(batch) < self._pool.width:
                move = queue.popleft()
                settings = move.apply(self._profile.winner)
                if settings.key not in known:
                    batch.append((move, settings))
            trials = self._try([(move.name, settings) for move, settings in batch])
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

    def _kernels(self) -> bool:
        """Try cuts of edgec's own kernels; whether all were tried."""
        base = self._profile.winner.key
        if vector_unit(self._subject.target) is None:
            return True
        found = self._outlook
        if found is None or base != self._looked_at:
            found = self._look()
        if found is None:
            return False
        if not self._note_model(found):
            return False
        complete, took, timed = True, 0.0, 0
        while rounds := self._rounds(found.cuts):
            # What won so far is measured as a whole, even where there is no time for all rounds.
            if self._room <= 2 * took + (self._compiling if self._alone else 0.0):
                self._remark_rounds(found, timed, took)
                complete = False
                break
            start = time.monotonic()
            if not self._time_rounds(rounds):
                self._remark_rounds(found, timed, time.monotonic() - start)
                return False
            timed += len(rounds)
            took = time.monotonic() - start
        if complete:
            self._remark_best(found)
        return self._merge(list(found.cuts)) and complete

    def _remark_best(self, found: Outlook) -> None:
        """Note how near other cuts came, where none was clearly faster than the model's choice."""
        if not found.cuts or any(self._best_text(key) for key in found.cuts):
            return
        times = [self._profile.cut_times.get(key, {}) for key in found.cuts]
        nearest = min(
            (seconds / known[""] for known in times for cut, seconds in known.items() if cut),
            default=1.0,
        )
        self._remarks.append(
            f"{found.text()}; none of them was {1 - _CUT_FASTER:.0%} faster than the model's "
            f"choice, the nearest took {nearest:.2f} of its time"
        )

    def _note_model(self, found: Outlook) -> bool:
        """Time the kernels as the model of cost cuts them; whether there was the time.

        They are timed in a small program of their own, where one can be written, since that
        compiles in a second or two; else in the program itself.
        """
        keys = tuple(found.cuts)
        if not keys:
            return True
        if self._room <= 0:
            return False
        alone: KernelTimes | None
        (alone,) = self._pool.run([("alone_times", (keys, {}, self._room))])
        if alone is None:
            return False
        self._alone = keys if set(keys) <= set(alone.own) else ()
        times = alone if self._alone else found.times
        base = self._profile.winner.cuts
        for key, seconds in times.own.items():
            self._note_cut(key, "" if self._alone or key not in base else _text(base[key]), seconds)
        return True

    def _remark_rounds(self, found: Outlook, timed: int, took: float) -> None:
        """Note how far the rounds came, and what all of them would take."""
        left = max(1, found.rounds - timed)
        self._remarks.append(
            f"{found.text()}; {timed} of them were tried here, each some {took:.0f} s: "
            f"give --budget={_minutes(left * took / self._pool.width + self._budget)} for all"
        )

    def _tiles(self) -> bool:
        """Try tiles of a GPU's kernels, each kernel alone in a module; whether all were tried."""
        counts: dict[str, int]
        (counts,) = self._pool.run([("tiled", ())])
        target = self._subject.target
        keys = {text: found for text in counts if (found := parse_key(text)) is not None}
        longest = sorted(keys, key=lambda text: -counts[text] * expected(keys[text], target))
        complete = True
        for text in longest[:_MOST_KERNELS]:
            known = self._profile.cut_times.get(text, {})
            # The first is the model's own choice.
            others = tiles_for(keys[text], target)[1:]
            candidates = [None, *others] if others else []
            for tile in candidates:
                name = "" if tile is None else _text(tile)
                if name in known:
                    continue
                if self._room <= 0:
                    complete = False
                    break
                if not self._time_tile(text, tile, name):
                    return False
        return self._merge_tiles(longest) and complete

    def _time_tile(self, key: str, tile: Tile | None, name: str) -> bool:
        """Time one tile; whether there was the time."""
        self._say(f"a tile of {key}")
        seconds: float | None
        try:
            (seconds,) = self._pool.run([("tile_time", (key, tile, self._room))])
        except DeviceMissing:
            raise
        except EdgecError:
            seconds = float("inf")
        if seconds is None:
            return False
        self._note_cut(key, name, seconds)
        self._tried += 1
        self._save()
        return True

    def _merge_tiles(self, keys: list[str]) -> bool:
        """Try the tiles that won, together, in the program itself."""
        best = {key: text for key in keys if (text := self._best_text(key)) is not None}
        winners = {key: Tile.from_json(json.loads(text)) for key, text in best.items()}
        base = self._profile.winner
        settings = replace(base, tiles={**base.tiles, **winners})
        known = {trial.settings.key for trial in self._profile.trials}
        if settings.key == base.key or settings.key in known:
            return True
        if self._room <= 0:
            return False
        (trial,) = self._try([("the best tiles of all kernels", settings)])
        return trial is not None

    def _rounds(self, plan: Mapping[str, Sequence[Cut]]) -> list[dict[str, Cut]]:
        """As many rounds as candidates are tried side by side, each with another cut for every
        kernel that has one left; what won so far is tried with other numbers of workgroups, too.
        """
        rounds: list[dict[str, Cut]] = [{} for _ in range(self._pool.width)]
        for key, cuts in plan.items():
            known = self._profile.cut_times.get(key, {})
            if len(known) >= _MOST_CUTS:
                continue
            best = self._best_cut(key)
            open_cuts = dict.fromkeys([*cuts, *(split_cuts(best) if best is not None else ())])
            untried = (cut for cut in open_cuts if _text(cut) not in known)
            for found, cut in zip(rounds, untried, strict=False):
                found[key] = cut
        return [found for found in rounds if found]

    def _time_rounds(self, rounds: list[dict[str, Cut]]) -> bool:
        """Time the kernels of each round; whether there was the time."""
        base = self._profile.winner
        works: list[Work] = []
        for cuts in rounds:
            works.append(self._timing({**base.cuts, **cuts}))
        many = "s" if len(rounds[0]) > 1 else ""
        self._say(f"other cuts of {len(rounds[0])} kernel{many}")
        try:
            results = self._pool.run(works)
        except EdgecError as error:
            if isinstance(error, DeviceMissing):
                raise
            results = [KernelTimes(own={}, call=0.0) for _ in rounds]
        for cuts, times in zip(rounds, results, strict=True):
            if times is None:
                return False
            for key, cut in cuts.items():
                self._note_cut(key, _text(cut), times.own.get(key, float("inf")))
            self._tried += 1
        self._save()
        return True

    @property
    def _profiled_calls(self) -> int:
        """As many calls as take two seconds, within bounds: the fastest of them counts."""
        least, most = _PROFILED_CALLS
        return max(least, min(most, int(_PROFILED_SECONDS / max(self._profile.before, 1e-6))))

    def _timing(self, cuts: dict[str, Cut]) -> Work:
        """The work of timing kernels that are cut so: alone, or in the program itself."""
        if self._alone:
            chosen = {key: cuts[key] for key in self._alone if key in cuts}
            return "alone_times", (self._alone, chosen, self._room)
        settings = replace(self._profile.winner, cuts=cuts)
        return "kernel_times", (settings, self._profiled_calls, self._room)

    def _whole_times(self, cuts: dict[str, Cut]) -> KernelTimes | None:
        """Time the kernels in the program, as the best so far has them; None without the time."""
        if self._room <= 0:
            return None
        base = self._profile.winner
        self._say("timing each kernel")
        settings = replace(base, cuts={**base.cuts, **cuts})
        times: KernelTimes | None
        (times,) = self._pool.run([("kernel_times", (settings, self._profiled_calls, self._room))])
        self._looked_at = settings.key
        return times

    def _times(self, cuts: dict[str, Cut]) -> bool:
        """Time the kernels once more, and note it; whether there was the time."""
        if self._room <= 0:
            return False
        base = self._profile.winner
        chosen = {**base.cuts, **cuts}
        self._say("timing each kernel")
        times: KernelTimes | None
        (times,) = self._pool.run([self._timing(chosen)])
        for key, seconds in (times.own if times is not None else {}).items():
            cut = chosen.get(key)
            self._note_cut(key, _text(cut) if cut is not None else "", seconds)
        return times is not None

    def _note_cut(self, key: str, cut: str, seconds: float) -> None:
        known = self._profile.cut_times
        times = known.get(key, {})
        seconds = min(seconds, times.get(cut, seconds))
        self._profile = replace(self._profile, cut_times={**known, key: {**times, cut: seconds}})

    def _best_cut(self, key: str) -> Cut | None:
        """The fastest cut of a kernel, if it is clearly faster than the model's."""
        best = self._best_text(key)
        return None if best is None else Cut.from_json(json.loads(best))

    def _best_text(self, key: str) -> str | None:
        """The same in JSON, of a cut or a tile."""
        times = self._profile.cut_times.get(key, {})
        if "" not in times or len(times) < 2:
            return None
        best = min(times, key=lambda cut: times[cut])
        slower = best == "" or times[best] > _CUT_FASTER * times[""]
        return None if slower else best

    def _merge(self, keys: list[str]) -> bool:
        """Try the cuts that won, together; if that is no gain, the largest of them one by one."""
        winners = self._winners(keys)
        if winners:
            # A second look at both: the fastest of a few runs may have been luck.
            if not self._times(winners) or not self._times({}):
                return False
            winners = self._winners(keys)
        known = {trial.settings.key for trial in self._profile.trials}
        offers = [("the best cuts of all kernels", winners)]
        offers += [(f"a cut of {key}", {key: winners[key]}) for key in list(winners)]
        for name, cuts in offers[: 1 + _SINGLE_KERNELS]:
            base = self._profile.winner
            settings = replace(base, cuts={**base.cuts, **cuts})
            if settings.key == base.key or settings.key in known:
                continue
            if self._room <= 0:
                return False
            (trial,) = self._try([(name, settings)])
            if trial is None:
                return False
            if cuts is winners and (trial.ratio or 1.0) < 1.0:
                return True
        return True

    def _winners(self, keys: list[str]) -> dict[str, Cut]:
        """The cuts that won and that the best so far does not have yet."""
        known = self._profile.winner.cuts
        found = {key: self._best_cut(key) for key in keys}
        return {key: cut for key, cut in found.items() if cut and cut != known.get(key)}

    def _try(self, batch: list[tuple[str, Settings]]) -> list[Trial | None]:
        """Try candidates side by side; the fastest of those that won becomes the best."""
        if not batch:
            return []
        base = self._profile.winner
        self._say(", ".join(name for name, _ in batch), quiet=True)
        works = [
            ("trial", (name, base, settings, self._seconds, max(0.0, self._room)))
            for name, settings in batch
        ]
        trials: list[Trial | None] = self._pool.run(works)
        done = [trial for trial in trials if trial is not None]
        faster = [trial for trial in done if trial.outcome is Outcome.FASTER]
        if faster:
            best = min(faster, key=lambda trial: trial.ratio or 1.0)
            self._profile = replace(
                self._profile,
                winner=best.settings,
                after=best.seconds or self._profile.after,
                gain=self._profile.gain / (best.ratio or 1.0),
            )
        self._profile = replace(self._profile, trials=(*self._profile.trials, *done))
        self._tried += len(done)
        self._save()
        for trial in done:
            self._say(trial.name, trial)
        return trials

    def _confirm(self) -> None:
        """Measure the winner beside the default once more; the default stays where it is as good.

        Gains of candidates, each beside the best before it, need not add up.
        """
        winner = self._profile.winner
        if winner.key == Settings().key or self._left <= 0:
            return
        self._say("measuring the best beside the default")
        measured = self._measure(Settings(), winner)
        good = measured.ratio < 1
        self._profile = replace(
            self._profile,
            winner=winner if good else Settings(),
            before=measured.base,
            after=measured.candidate if good else measured.base,
            gain=1 / measured.ratio if good else 1.0,
        )

    def _measure(self, base: Settings, candidate: Settings) -> Measured:
        (measured,) = self._pool.run([("measure", (base, candidate, self._seconds))])
        result: Measured = measured
        return result

    def _save(self, *, finished: bool = False) -> None:
        spent = self._spent + time.monotonic() - self._begin
        self._profile = replace(self._profile, spent=spent, finished=finished)
        self._profile.save(self._output)

    def _say(self, doing: str, trial: Trial | None = None, *, quiet: bool = False) -> None:
        known = getattr(self, "_profile", None)
        self._tell(
            News(
                doing=doing,
                tried=self._tried,
                before=known.before if known is not None else 0.0,
                after=known.after if known is not None else 0.0,
                gain=known.gain if known is not None else 1.0,
                left=max(0.0, self._left),
                trial=trial,
                quiet=quiet,
            )
        )


def _minutes(seconds: float) -> str:
    """As `--budget` takes it, rounded up."""
    return f"{math.ceil(seconds / 60)}m"


def _text(cut: Cut | Tile) -> str:
    return json.dumps(cut.to_json(), sort_keys=True)


def _processor() -> str:
    """The processor's name, as Linux knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"
