"""The search on a device that is told what to say: who wins, what is kept, what is repeated."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime.errors import CompileError, ProfileError, UsageError
from edgec.targets import find
from edgec.toolchain.kernels.cpu.source import KernelKey, vector_unit
from edgec.toolchain.tuning import Outcome, Profile, Settings
from edgec.toolchain.tuning.evaluate import Subject
from edgec.toolchain.tuning.search import News, tune
from tests.toolchain.tuning.conftest import KEY, FakePool, Product

SLOWER = (Outcome.SLOWER, 1.1)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "product.tuned.json"


def test_a_faster_candidate_wins_and_the_next_builds_on_it(subject: Subject, output: Path) -> None:
    seen: dict[str, Settings] = {}

    def verdict(name: str, settings: Settings) -> tuple[Outcome, float | None]:
        seen[name] = settings
        return (Outcome.FASTER, 0.5) if name == "-O3" else SLOWER

    done = tune(subject, FakePool(verdict=verdict), output, budget=60)
    assert done.profile.winner == Settings(level=3)
    assert seen["--disable-pass=cpu-kernels"].level == 3
    assert done.profile.finished
    assert Profile.load(output) == done.profile


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.BROKEN, Outcome.REFUSED])
def test_a_candidate_that_fails_never_wins(
    subject: Subject, output: Path, outcome: Outcome
) -> None:
    done = tune(subject, FakePool(verdict=lambda *_: (outcome, None)), output, budget=60)
    assert done.profile.winner == Settings()
    assert done.profile.gain == 1.0
    assert {trial.outcome for trial in done.profile.trials} == {outcome}


def test_a_gain_that_does_not_show_beside_the_default_is_given_up(
    subject: Subject, output: Path
) -> None:
    pool = FakePool(verdict=lambda *_: (Outcome.FASTER, 0.97), final=1.01)
    done = tune(subject, pool, output, budget=60)
    assert done.profile.winner == Settings()
    assert done.profile.gain == 1.0


def test_going_on_repeats_nothing(subject: Subject, output: Path) -> None:
    class Stop(FakePool):
        def _trial(self, *arguments):
            if len(self.names) == 4:
                raise KeyboardInterrupt
            return super()._trial(*arguments)

    first = Stop(verdict=lambda name, _: (Outcome.FASTER, 0.8) if name == "-O1" else SLOWER)
    stopped = tune(subject, first, output, budget=60)
    assert stopped.interrupted
    assert not stopped.profile.finished
    assert stopped.profile.winner == Settings(level=1)
    kept = Profile.load(output)
    assert [trial.name for trial in kept.trials] == first.names[:4]

    second = FakePool(verdict=lambda *_: SLOWER)
    done = tune(subject, second, output, budget=60, resume=kept)
    assert not set(first.names[:4]) & set(second.names)
    assert done.profile.winner == Settings(level=1)
    assert done.profile.finished

    third = FakePool(verdict=lambda *_: SLOWER)
    again = tune(subject, third, output, budget=60, resume=done.profile)
    assert third.names == []
    assert again.tried == 0
    assert again.profile.winner == Settings(level=1)


def test_another_version_tries_all_again_from_the_winner(subject: Subject, output: Path) -> None:
    tune(subject, FakePool(verdict=lambda *_: (Outcome.FASTER, 0.9)), output, budget=60)
    value = json.loads(output.read_text())
    value["versions"]["compiler"] = "0.1"
    output.write_text(json.dumps(value))
    kept = Profile.load(output)
    pool = FakePool(verdict=lambda *_: SLOWER)
    done = tune(subject, pool, output, budget=60, resume=kept)
    assert pool.names
    assert done.profile.winner == kept.winner
    assert done.profile.versions["compiler"] != "0.1"


def test_cuts_are_tried_in_rounds_and_the_best_together(subject: Subject, output: Path) -> None:
    good = []

    def kernel(settings: Settings) -> dict[str, float]:
        cut = settings.cuts.get(KEY)
        if cut is None:
            return {KEY: 1.0, "edgec_product_1x1_1x1x1x1000": 0.001}
        if cut not in good:
            good.append(cut)
        return {KEY: 0.5 if good.index(cut) == 2 else 2.0}

    def verdict(name: str, settings: Settings) -> tuple[Outcome, float | None]:
        return (Outcome.FASTER, 0.6) if settings.cuts else SLOWER

    pool = FakePool(verdict=verdict, kernel=kernel)
    done = tune(subject, pool, output, budget=60)
    assert done.profile.winner.cuts == {KEY: good[2]}
    # Each once; the winner and the model's twice, to be sure.
    assert pool.rounds == len(good) + 3
    # A kernel without a share worth a round gets none.
    assert list(done.profile.cut_times["edgec_product_1x1_1x1x1x1000"]) == [""]
    rounds = pool.rounds
    tune(subject, pool, output, budget=60, resume=done.profile)
    assert pool.rounds == rounds + 1


def test_where_kernels_take_most_of_a_call_their_cuts_come_first(
    subject: Subject, output: Path
) -> None:
    order: list[str] = []

    def kernel(settings: Settings) -> dict[str, float]:
        order.append("cut" if settings.cuts else "model")
        return {KEY: 1.0}

    def verdict(name: str, settings: Settings) -> tuple[Outcome, float | None]:
        order.append(name)
        return SLOWER

    news: list[News] = []
    tune(subject, FakePool(verdict=verdict, kernel=kernel), output, budget=60, tell=news.append)
    assert order[:2] == ["model", "cut"]
    assert order.index("-O3") > max(i for i, what in enumerate(order) if what == "cut")
    assert any(f"take 91% of a call ({KEY} 91%)" in n.doing.replace("takes", "take") for n in news)


def test_what_there_was_no_time_for_is_said(subject: Subject, output: Path) -> None:
    def kernel(settings: Settings) -> dict[str, float]:
        time.sleep(0.5 if settings.cuts else 0)
        return {KEY: 1.0}

    pool = FakePool(verdict=lambda *_: SLOWER, kernel=kernel)
    done = tune(subject, pool, output, budget=3.0)
    (remark,) = done.remarks
    assert KEY in remark
    assert "give --budget=" in remark
    assert "each some 0 s" not in remark
    assert not done.profile.finished


def test_time_is_kept_to_try_what_won_in_the_program(subject: Subject, output: Path) -> None:
    """Also where the program itself came from the cache, and its compile took no time."""
    good = []

    def kernel(settings: Settings) -> dict[str, float]:
        time.sleep(0.2 if settings.cuts else 0)
        good.extend(cut for cut in settings.cuts.values() if cut not in good)
        return {KEY: 0.5 if settings.cuts.get(KEY) in good[:1] else 1.0}

    def verdict(name: str, settings: Settings) -> tuple[Outcome, float | None]:
        return (Outcome.FASTER, 0.6) if settings.cuts else SLOWER

    pool = FakePool(verdict=verdict, kernel=kernel, stands_alone=True, compiling=1.5)
    done = tune(subject, pool, output, budget=5.0)
    assert done.profile.winner.cuts == {KEY: good[0]}
    assert not done.profile.finished
    assert 3 <= pool.alone < 12


def test_cuts_that_crash_are_not_tried_again(subject: Subject, output: Path) -> None:
    def kernel(settings: Settings) -> dict[str, float]:
        if settings.cuts:
            raise CompileError("no such tile")
        return {KEY: 1.0}

    pool = FakePool(verdict=lambda *_: SLOWER, kernel=kernel)
    done = tune(subject, pool, output, budget=60)
    times = Profile.load(output).cut_times[KEY]
    assert min(times.values()) == 1.0
    assert max(times.values()) == np.inf
    assert done.profile.winner == Settings()
    assert done.profile.finished


def test_several_side_by_side_find_the_same(subject: Subject, output: Path) -> None:
    wins = {"--disable-pass=cpu-kernels": 0.7, "-O1": 0.9}

    def verdict(name: str, settings: Settings) -> tuple[Outcome, float | None]:
        return (Outcome.FASTER, wins[name]) if name in wins else SLOWER

    pool = FakePool(verdict=verdict, width=4)
    done = tune(subject, pool, output, budget=60)
    # Both won beside the default: the faster one stays, and the other is tried on top of it.
    assert pool.names.count("-O1") == 2
    assert done.profile.winner == Settings(level=1, disabled=("cpu-kernels",))


def test_the_budget_ends_the_search(subject: Subject, output: Path) -> None:
    pool = FakePool(verdict=lambda *_: SLOWER)
    done = tune(subject, pool, output, budget=0.1)
    assert done.tried == 0
    assert not done.profile.finished
    assert output.exists()
    for budget in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="budget"):
            tune(subject, pool, output, budget=budget)


def test_a_profile_of_another_program_is_not_gone_on_from(
    subject: Subject, product: Product, output: Path, tmp_path: Path
) -> None:
    kept = tune(subject, FakePool(verdict=lambda *_: SLOWER), output, budget=60).profile
    text = product.path.read_text().replace("return %0", "\n  return %0")
    (tmp_path / "other.mlir").write_text(text)
    other = Subject(
        program=Product(path=tmp_path / "other.mlir", x=product.x, answer=product.answer).program,
        target=subject.target,
    )
    with pytest.raises(ProfileError, match="another program"):
        tune(other, FakePool(verdict=lambda *_: SLOWER), output, budget=60, resume=kept)


def test_news_say_how_far_it_is(subject: Subject, output: Path) -> None:
    news: list[News] = []
    pool = FakePool(verdict=lambda name, _: (Outcome.FASTER, 0.5) if name == "-O1" else SLOWER)
    tune(subject, pool, output, budget=60, tell=news.append)
    assert news[0].before == 0
    assert [n.trial.name for n in news if n.trial] == pool.names
    after = next(n for n in news if n.trial and n.trial.name == "-O1")
    assert after.gain == 2.0
    assert 0 < after.left <= 60


def test_this_machine_has_vectors_to_cut_for() -> None:
    assert vector_unit(find("cpu")) is not None


def test_kernels_that_can_stand_alone_are_timed_so_and_the_program_decides(
    subject: Subject, output: Path
) -> None:
    good = []

    def kernel(settings: Settings) -> dict[str, float]:
        cut = settings.cuts.get(KEY)
        if cut is not None and cut not in good:
            good.append(cut)
        return {KEY: 1.0 if cut is None else 0.5 if good.index(cut) == 1 else 2.0}

    pool = FakePool(verdict=lambda *_: SLOWER, kernel=kernel, stands_alone=True)
    done = tune(subject, pool, output, budget=60)
    assert pool.rounds == 1  # where the time goes is looked up in the program
    assert pool.alone == 1 + len(good) + 2
    assert "the best cuts of all kernels" in pool.names
    assert done.profile.winner == Settings()


def test_where_no_cut_is_faster_it_says_how_near_they_came(subject: Subject, output: Path) -> None:
    def kernel(settings: Settings) -> dict[str, float]:
        return {KEY: 1.25 if settings.cuts else 1.0}

    done = tune(subject, FakePool(verdict=lambda *_: SLOWER, kernel=kernel), output, budget=60)
    (remark,) = done.remarks
    assert "none of them was 3% faster than the model's choice" in remark
    assert "the nearest took 1.25 of its time" in remark


def test_where_the_machine_computes_no_faster_nothing_is_tried_and_it_is_said(
    subject: Subject, output: Path
) -> None:
    key = KernelKey.parse(KEY)
    assert key is not None
    pool = FakePool(
        verdict=lambda *_: SLOWER,
        kernel=lambda _: {KEY: key.flops / 1e9},
        stands_alone=True,
        rate=1e9,
        beside=1.01,
    )
    done = tune(subject, pool, output, budget=60)
    assert pool.names == []
    assert done.profile.finished
    assert done.profile.trials == ()
    (remark,) = done.remarks
    assert remark.startswith("there is nothing to win here: 1 kernel")
