"""Candidates on a Ray cluster of this machine alone; without Ray it is one error."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.runtime.errors import DeviceMissing, MissingExtra
from edgec.toolchain.tuning import Outcome, Profile, Settings
from edgec.toolchain.tuning.evaluate import Subject
from edgec.toolchain.tuning.pools import RayPool
from edgec.toolchain.tuning.search import News, tune


def test_without_ray_the_extra_is_named(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="Ray is not installed") as caught:
        RayPool(subject, "auto")
    assert caught.value.hint == "pip install 'edgec[ray]'"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_tries_candidates(subject: Subject, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(DeviceMissing, match="no Ray cluster answers"):
        RayPool(subject, "127.0.0.1:1")

    def tell(news: News) -> None:
        if news.trial is not None and news.tried == 2:
            raise KeyboardInterrupt

    path = tmp_path / "product.tuned.json"
    pool = RayPool(subject, "local")
    try:
        assert pool.width == 1
        late, refused = pool.run(
            [
                ("trial", ("late", Settings(), Settings(level=0), 0.1, 0.0)),
                ("trial", ("?", Settings(), Settings(iree_args=("--no-flag",)), 0.1, 60.0)),
            ]
        )
        assert late is None
        assert refused.outcome is Outcome.REFUSED
        elsewhere = RayPool(replace(subject, device="metal"), "local")
        with pytest.raises(DeviceMissing, match="metal"):
            elsewhere.run([("find_device", ())])
        elsewhere.close()
        done = tune(subject, pool, path, budget=200, tell=tell)
    finally:
        pool.close()
    assert done.interrupted
    assert [trial.name for trial in Profile.load(path).trials][:2] == ["-O3", "-O1"]
    assert all(trial.ratio for trial in done.profile.trials)
