"""Compiling with a profile: right answers, other code, and the user has the last word."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import load
from edgec.runtime.errors import ProfileError
from edgec.toolchain import CompileOptions, command, compile, compile_with_report
from edgec.toolchain.compiling import versions
from edgec.toolchain.kernels.cpu.source import Cut
from edgec.toolchain.tuning import Profile, Settings
from edgec.toolchain.tuning.evaluate import Evaluator, Subject
from edgec.toolchain.tuning.pools import LocalPool
from edgec.toolchain.tuning.profile import Outcome, program_key
from edgec.toolchain.tuning.search import News, tune
from tests.toolchain.tuning.conftest import KEY, Product
from tests.toolchain.tuning.test_profile import PROFILE

WINNER = Settings(
    level=3,
    disabled=("channels-last",),
    iree_args=("--iree-opt-data-tiling=false",),
    cuts={KEY: Cut(columns=3, vectors=1, split=(2, 1))},
)


@pytest.fixture
def profile(product: Product) -> Profile:
    key = program_key(product.program)
    return replace(PROFILE, program_key=key, winner=WINNER, versions=versions())


def test_a_tuned_module_is_right_and_says_so(product: Product, profile: Profile) -> None:
    made = compile_with_report(product.path, "cpu", CompileOptions(tuned=profile))
    assert made.report.check.startswith("checked on")
    note, *_ = made.report.notes
    assert "2.00 times as fast" in note
    assert "-O3" in note
    with load(made.module.path) as module:
        np.testing.assert_allclose(module.main(product.x), product.answer, rtol=1e-4, atol=1e-4)


def test_the_cache_tells_tuned_modules_apart(product: Product, profile: Profile) -> None:
    plain = compile_with_report(product.path)
    tuned = compile_with_report(product.path, "cpu", CompileOptions(tuned=profile))
    other = replace(profile, winner=replace(WINNER, cuts={}))
    untiled = compile_with_report(product.path, "cpu", CompileOptions(tuned=other))
    assert not (plain.report.cached or tuned.report.cached or untiled.report.cached)
    again = compile_with_report(product.path, "cpu", CompileOptions(tuned=profile))
    assert again.report.cached
    assert again.report.notes == tuned.report.notes
    assert plain.module.path.read_bytes() != tuned.module.path.read_bytes()


def test_what_the_user_asks_for_wins(product: Product, profile: Profile) -> None:
    mine = CompileOptions(
        tuned=profile,
        level=1,
        disabled=("cpu-kernels",),
        iree_args=("--iree-opt-data-tiling",),
        cuts={KEY: Cut(columns=1, split=(1, 1))},
    ).settings
    assert mine.level == 1
    assert mine.disabled == ("channels-last", "cpu-kernels")
    assert mine.iree_args == ("--iree-opt-data-tiling=false", "--iree-opt-data-tiling")
    assert mine.cuts[KEY].columns == 1
    line = command(product.path, "cpu", CompileOptions(tuned=profile, level=1))
    assert "--iree-opt-level=O1" in line
    assert "--iree-opt-level=O3" not in line


def test_another_programs_profile_is_refused(product: Product, profile: Profile) -> None:
    foreign = replace(profile, program_key="of another program")
    with pytest.raises(ProfileError, match="another program"):
        compile(product.path, "cpu", CompileOptions(tuned=foreign))
    with pytest.raises(ProfileError, match="not for vulkan"):
        compile(product.path, "vulkan", CompileOptions(tuned=profile))


def test_another_versions_profile_is_used_with_a_note(product: Product, profile: Profile) -> None:
    old = replace(profile, versions={**profile.versions, "compiler": "3.12.0"})
    notes = compile_with_report(product.path, "cpu", CompileOptions(tuned=old)).report.notes
    assert any("compiler 3.12.0 →" in note for note in notes)


def test_tuning_on_this_machine_finds_what_compile_uses(subject: Subject, tmp_path: Path) -> None:
    """The whole way: two candidates are compiled side by side and measured, then Ctrl-C."""

    def tell(news: News) -> None:
        if news.trial is not None and news.tried == 2:
            raise KeyboardInterrupt

    pool = LocalPool(subject, jobs=2)
    path = tmp_path / "product.tuned.json"
    try:
        done = tune(subject, pool, path, budget=100, tell=tell)
    finally:
        pool.close()
    found = Profile.load(path)
    assert done.interrupted
    assert found.before > 0
    trials = {trial.name: trial for trial in found.trials}
    assert trials["-O1"].ratio is not None
    compiled = compile_with_report(
        subject.program, "cpu", CompileOptions(tuned=found, output=tmp_path / "tuned.vmfb")
    )
    assert compiled.report.check.startswith("checked on")


def test_a_wrong_candidate_is_found_out_by_the_device(subject: Subject) -> None:
    """A flag that rounds weights to f16 is faster perhaps, and answers otherwise."""
    flags = (
        "--iree-global-opt-demote-contraction-inputs-type=f16",
        "--iree-global-opt-demote-contraction-inputs-operations=matmul",
    )
    rough = Settings(level=1, iree_args=flags)
    evaluator = Evaluator(subject)
    try:
        evaluator.prepare()
        wrong = evaluator.trial("rough", Settings(), rough, 0.1, 60)
        refused = evaluator.trial("?", Settings(), Settings(iree_args=("--no-flag",)), 0.1, 60)
        assert evaluator.trial("late", Settings(), Settings(level=0), 0.1, 0.0) is None
    finally:
        evaluator.close()
    assert wrong is not None
    assert wrong.outcome is Outcome.WRONG
    assert "should be" in wrong.reason
    assert refused is not None
    assert refused.outcome is Outcome.REFUSED
