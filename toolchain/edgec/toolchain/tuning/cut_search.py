"""Cuts of edgec's own kernels for the CPU, tried in rounds: each kernel another cut in one module.

Dispatches are timed apart. The cuts that won are then one candidate like any other, and if that one
loses, those of the longest kernels are tried one by one. Rounds are timed in a small program that
has each of the kernels once, where one can be written; a candidate always in the program.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec.runtime.errors import DeviceMissing, EdgecError
from edgec.toolchain.kernels.cpu.source import Cut, vector_unit
from edgec.toolchain.tuning.cuts import split_cuts
from edgec.toolchain.tuning.outlook import FASTER, KernelTimes, Outlook, outlook, worth
from edgec.toolchain.tuning.pools import Work
from edgec.toolchain.tuning.run import Run, text_of

__all__ = ["CutSearch"]

_PROFILED_SECONDS = 2.0
_PROFILED_CALLS = (5, 30)
_MOST_CUTS = 20
_SINGLE_KERNELS = 4


class CutSearch:
    """The cuts of one run's kernels."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._outlook: Outlook | None = None
        self._looked_at = ""
        self._alone: tuple[str, ...] = ()

    def look(self) -> Outlook | None:
        """Where the time of the best so far goes; None for GPUs, or without the time.

        Kernels are timed once more in a small program of their own, where one can be written: it
        compiles in a second or two, and says what the machine can compute, too.
        """
        unit = vector_unit(self._run.subject.target)
        if unit is None:
            return None
        times = self._whole_times({})
        if times is None or self._run.room <= 0:
            return None
        keys = worth(times)
        alone: KernelTimes | None
        (alone,) = self._run.pool.run([("alone_times", (keys, {}, self._run.room))])
        if alone is None:
            return None
        self._outlook = outlook(times, unit, alone)
        tried = tuple(self._outlook.cuts)
        self._alone = keys if tried and set(tried) <= set(alone.own) else ()
        self._run.say(self._outlook.text(), lasting=True)
        return self._outlook

    def all_tried(self) -> bool:
        """Try cuts of edgec's own kernels; whether all were tried."""
        base = self._run.profile.winner.key
        if vector_unit(self._run.subject.target) is None:
            return True
        found = self._outlook
        if found is None or base != self._looked_at:
            found = self.look()
        if found is None:
            return False
        self._note_model(found)
        complete, took, timed = True, 0.0, 0
        while rounds := self._rounds(found.cuts):
            # What won so far is looked at again, and then measured as a whole, even where there is
            # no time for all rounds.
            if self._run.room <= 3 * took + (self._run.attempting if self._alone else 0.0):
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
        if not found.cuts or any(self._run.best_text(key) for key in found.cuts):
            return
        times = [self._run.profile.cut_times.get(key, {}) for key in found.cuts]
        nearest = min(
            (seconds / known[""] for known in times for cut, seconds in known.items() if cut),
            default=1.0,
        )
        self._run.remarks.append(
            f"{found.text()}; none of them was {1 - FASTER:.0%} faster than the model's "
            f"choice, the nearest took {nearest:.2f} of its time"
        )

    def _note_model(self, found: Outlook) -> None:
        """Keep what the kernels take as the model of cost cuts them."""
        times = found.alone if self._alone else found.times
        base = self._run.profile.winner.cuts
        for key in found.cuts:
            cut = "" if self._alone or key not in base else text_of(base[key])
            self._run.note(key, cut, times.own[key])

    def _remark_rounds(self, found: Outlook, timed: int, took: float) -> None:
        """Note how far the rounds came, and what all of them would take."""
        left = max(1, found.rounds - timed)
        each = took or self._run.compiling  # which is at least what a round takes
        needed = left * each / self._run.pool.width + self._run.budget
        tried = f"{timed} of them were tried here, each some {took:.1f} s"
        if not timed:
            tried = "the budget went to compiling and measuring the program as it is"
        self._run.remarks.append(
            f"{found.text()}; {tried}: give --budget={_minutes(needed)} for all"
        )

    def _rounds(self, plan: Mapping[str, Sequence[Cut]]) -> list[dict[str, Cut]]:
        """As many rounds as candidates are tried side by side, each with another cut for every
        kernel that has one left; what won so far is tried with other numbers of workgroups, too.
        """
        rounds: list[dict[str, Cut]] = [{} for _ in range(self._run.pool.width)]
        for key, cuts in plan.items():
            known = self._run.profile.cut_times.get(key, {})
            if len(known) >= _MOST_CUTS:
                continue
            best = self._best_cut(key)
            open_cuts = dict.fromkeys([*cuts, *(split_cuts(best) if best is not None else ())])
            untried = (cut for cut in open_cuts if text_of(cut) not in known)
            for found, cut in zip(rounds, untried, strict=False):
                found[key] = cut
        return [found for found in rounds if found]

    def _time_rounds(self, rounds: list[dict[str, Cut]]) -> bool:
        """Time the kernels of each round; whether there was the time."""
        base = self._run.profile.winner
        works: list[Work] = []
        for cuts in rounds:
            works.append(self._timing({**base.cuts, **cuts}))
        many = "s" if len(rounds[0]) > 1 else ""
        self._run.say(f"other cuts of {len(rounds[0])} kernel{many}")
        try:
            results = self._run.pool.run(works)
        except EdgecError as error:
            if isinstance(error, DeviceMissing):
                raise
            results = [KernelTimes(own={}, call=0.0) for _ in rounds]
        for cuts, times in zip(rounds, results, strict=True):
            if times is None:
                return False
            for key, cut in cuts.items():
                self._run.note(key, text_of(cut), times.own.get(key, float("inf")))
            self._run.tried += 1
        self._run.save()
        return True

    @property
    def _profiled_calls(self) -> int:
        """As many calls as take two seconds, within bounds: the fastest of them counts."""
        least, most = _PROFILED_CALLS
        return max(least, min(most, int(_PROFILED_SECONDS / max(self._run.profile.before, 1e-6))))

    def _timing(self, cuts: dict[str, Cut]) -> Work:
        """The work of timing kernels that are cut so: alone, or in the program itself."""
        if self._alone:
            chosen = {key: cuts[key] for key in self._alone if key in cuts}
            return "alone_times", (self._alone, chosen, self._run.room)
        settings = replace(self._run.profile.winner, cuts=cuts)
        return "kernel_times", (settings, self._profiled_calls, self._run.room)

    def _whole_times(self, cuts: dict[str, Cut]) -> KernelTimes | None:
        """Time the kernels in the program, as the best so far has them; None without the time."""
        if self._run.room <= 0:
            return None
        base = self._run.profile.winner
        self._run.say("timing each kernel")
        settings = replace(base, cuts={**base.cuts, **cuts})
        times: KernelTimes | None
        (times,) = self._run.pool.run(
            [("kernel_times", (settings, self._profiled_calls, self._run.room))]
        )
        self._looked_at = settings.key
        return times

    def _times(self, cuts: dict[str, Cut]) -> bool:
        """Time the kernels once more, and note it; whether there was the time."""
        if self._run.room <= 0:
            return False
        base = self._run.profile.winner
        chosen = {**base.cuts, **cuts}
        self._run.say("timing each kernel")
        times: KernelTimes | None
        (times,) = self._run.pool.run([self._timing(chosen)])
        for key, seconds in (times.own if times is not None else {}).items():
            cut = chosen.get(key)
            self._run.note(key, text_of(cut) if cut is not None else "", seconds)
        return times is not None

    def _best_cut(self, key: str) -> Cut | None:
        """The fastest cut of a kernel, if it is clearly faster than the model's."""
        best = self._run.best_text(key)
        return None if best is None else Cut.from_json(json.loads(best))

    def _merge(self, keys: list[str]) -> bool:
        """Try the cuts that won, together; if that is no gain, the largest of them one by one."""
        winners = self._winners(keys)
        if winners:
            # A second look at both: the fastest of a few runs may have been luck.
            if not self._times(winners) or not self._times({}):
                return False
            winners = self._winners(keys)
        known = {trial.settings.key for trial in self._run.profile.trials}
        offers = [("the best cuts of all kernels", winners)]
        offers += [(f"a cut of {key}", {key: winners[key]}) for key in list(winners)]
        for name, cuts in offers[: 1 + _SINGLE_KERNELS]:
            base = self._run.profile.winner
            settings = replace(base, cuts={**base.cuts, **cuts})
            if settings.key == base.key or settings.key in known:
                continue
            if self._run.room <= 0:
                return False
            (trial,) = self._run.attempt([(name, settings)], longer=True)
            if trial is None:
                return False
            if cuts is winners and (trial.ratio or 1.0) < 1.0:
                return True
        return True

    def _winners(self, keys: list[str]) -> dict[str, Cut]:
        """The cuts that won and that the best so far does not have yet."""
        known = self._run.profile.winner.cuts
        found = {key: self._best_cut(key) for key in keys}
        return {key: cut for key, cut in found.items() if cut and cut != known.get(key)}


def _minutes(seconds: float) -> str:
    """As `--budget` takes it, rounded up."""
    return f"{math.ceil(seconds / 60)}m"
