"""One run of tuning: what is known so far, what is left of the budget, and what is told of it."""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.runtime.errors import EdgecError
from edgec.toolchain.compiling import versions
from edgec.toolchain.kernels.cpu.source import Cut
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.evaluate import Subject
from edgec.toolchain.tuning.measure import Measured
from edgec.toolchain.tuning.outlook import FASTER
from edgec.toolchain.tuning.pools import Pool
from edgec.toolchain.tuning.profile import Outcome, Profile, Trial

__all__ = ["News", "Run", "text_of"]

_MOST_KEPT = 0.4
_LONGER = 3.0


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
        lasting: whether it is worth reading after what comes next, too.
    """

    doing: str
    tried: int
    before: float
    after: float
    gain: float
    left: float
    trial: Trial | None = None
    quiet: bool = False
    lasting: bool = False


class Run:
    """One run; `profile` is the state, and what is on disk.

    Attributes:
        subject: what is tuned, and where.
        pool: where candidates are tried.
        profile: what was found so far.
        budget: seconds for all of it.
        tried: how many candidates this run tried.
        remarks: what there was to try, and what there was no time for.
        compiling: seconds that a compile takes.
    """

    profile: Profile
    compiling = 0.0

    def __init__(
        self,
        *,
        subject: Subject,
        pool: Pool,
        output: Path,
        budget: float,
        tell: Callable[[News], None],
    ) -> None:
        self.subject = subject
        self.pool = pool
        self._output = output
        self._begin = time.monotonic()
        self.budget = budget
        self._tell = tell
        self.tried = 0
        self._spent = 0.0
        self.remarks: list[str] = []
        self._seconds = min(3.0, max(0.4, budget / 50))

    @property
    def _left(self) -> float:
        return self.budget - (time.monotonic() - self._begin)

    @property
    def attempting(self) -> float:
        """Seconds to keep for a candidate: a compile, and to be measured longer beside the best.

        A compile that took most of the budget, as on a machine that was busy, may take less now.
        """
        return min(self.compiling, _MOST_KEPT * self.budget) + _LONGER * self._seconds

    @property
    def room(self) -> float:
        """Seconds left for candidates: the last measurement is kept for the end."""
        return self._left - self._seconds - 1.0

    def start(self, name: str, key: str, resume: Profile | None) -> None:
        """Build and measure the default, or the winner of the run before."""
        device: str
        (device,) = self.pool.run([("find_device", ())])
        self.say("compiling the program as it is")
        (self.compiling,) = self.pool.run([("prepare", ())])
        self.say("measuring the program as it is")
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
        self.profile = Profile(
            program=name,
            program_key=key,
            target=self.subject.target.name,
            device=device,
            machine=f"{platform.machine()} {platform.system()}, {_processor()}",
            versions=versions(),
            function=self.subject.called,
            winner=best,
            before=measured.base,
            after=measured.candidate if best.key != Settings().key else measured.base,
            gain=gain,
            trials=kept.trials if kept is not None else (),
            cut_times=kept.cut_times if kept is not None else {},
            spent=self._spent,
            finished=False,
        )
        self.save()

    def attempt(
        self, batch: list[tuple[str, Settings]], *, longer: bool = False
    ) -> list[Trial | None]:
        """Try candidates side by side; the fastest of those that won becomes the best.

        Args:
            batch: candidates and their names.
            longer: measure for longer, where much speaks for a candidate that wins little.
        """
        if not batch:
            return []
        base = self.profile.winner
        self.say(", ".join(name for name, _ in batch), quiet=True)
        seconds = _LONGER * self._seconds if longer else self._seconds
        works = [
            ("trial", (name, base, settings, seconds, max(0.0, self.room)))
            for name, settings in batch
        ]
        trials: list[Trial | None] = self.pool.run(works)
        done = [trial for trial in trials if trial is not None]
        faster = [trial for trial in done if trial.outcome is Outcome.FASTER]
        if faster:
            best = min(faster, key=lambda trial: trial.ratio or 1.0)
            self.profile = replace(
                self.profile,
                winner=best.settings,
                after=best.seconds or self.profile.after,
                gain=self.profile.gain / (best.ratio or 1.0),
            )
        self.profile = replace(self.profile, trials=(*self.profile.trials, *done))
        self.tried += len(done)
        self.save()
        for trial in done:
            self.say(trial.name, trial)
        return trials

    def confirm(self) -> None:
        """Measure the winner beside the default once more; the default stays where it is as good.

        Gains of candidates, each beside the best before it, need not add up.
        """
        winner = self.profile.winner
        if winner.key == Settings().key or self._left <= 0:
            return
        self.say("measuring the best beside the default")
        measured = self._measure(Settings(), winner)
        good = measured.ratio < 1
        self.profile = replace(
            self.profile,
            winner=winner if good else Settings(),
            before=measured.base,
            after=measured.candidate if good else measured.base,
            gain=1 / measured.ratio if good else 1.0,
        )

    def _measure(self, base: Settings, candidate: Settings) -> Measured:
        (measured,) = self.pool.run([("measure", (base, candidate, self._seconds))])
        result: Measured = measured
        return result

    def note(self, key: str, cut: str, seconds: float) -> None:
        """Keep what a kernel took with a cut or a tile; of several times, the least."""
        known = self.profile.cut_times
        times = known.get(key, {})
        seconds = min(seconds, times.get(cut, seconds))
        self.profile = replace(self.profile, cut_times={**known, key: {**times, cut: seconds}})

    def best_text(self, key: str) -> str | None:
        """The fastest cut or tile of a kernel in JSON, if it is clearly faster than the model's."""
        times = self.profile.cut_times.get(key, {})
        if "" not in times or len(times) < 2:
            return None
        best = min(times, key=lambda cut: times[cut])
        slower = best == "" or times[best] > FASTER * times[""]
        return None if slower else best

    def save(self, *, finished: bool = False) -> None:
        """Write the profile."""
        spent = self._spent + time.monotonic() - self._begin
        self.profile = replace(self.profile, spent=spent, finished=finished)
        self.profile.save(self._output)

    def say(
        self,
        doing: str,
        trial: Trial | None = None,
        *,
        quiet: bool = False,
        lasting: bool = False,
    ) -> None:
        """Tell what is at work now, and the candidate that was just tried."""
        known = getattr(self, "profile", None)
        self._tell(
            News(
                doing=doing,
                tried=self.tried,
                before=known.before if known is not None else 0.0,
                after=known.after if known is not None else 0.0,
                gain=known.gain if known is not None else 1.0,
                left=max(0.0, self._left),
                trial=trial,
                quiet=quiet,
                lasting=lasting,
            )
        )


def text_of(cut: Cut | Tile) -> str:
    """A cut or a tile in JSON, as a profile names it."""
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
