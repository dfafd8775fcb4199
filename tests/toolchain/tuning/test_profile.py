"""A profile keeps what tuning found, and is refused where it does not belong."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.runtime.errors import FileError, ProfileError
from edgec.toolchain.kernels.cpu.source import Cut
from edgec.toolchain.tuning import Outcome, Profile, Settings, Trial

WINNER = Settings(
    level=3,
    disabled=("channels-last",),
    iree_args=("--iree-opt-data-tiling=false",),
    cuts={"edgec_product_1x1_1x12x64x96": Cut(columns=4, vectors=2, split=(3, 1))},
)
PROFILE = Profile(
    program="net",
    program_key="abc",
    target="cpu:host",
    device="a CPU",
    machine="x86_64 Linux",
    versions={"edgec": "1", "compiler": "3.13.0", "passes": "7"},
    function="main",
    winner=WINNER,
    before=2e-3,
    after=1e-3,
    gain=2.0,
    trials=(
        Trial(name="-O3", settings=Settings(level=3), outcome=Outcome.FASTER, ratio=0.5, seconds=1),
        Trial(name="-O1", settings=Settings(level=1), outcome=Outcome.WRONG, reason="off by one"),
    ),
    cut_times={"edgec_product_1x1_1x12x64x96": {"": 2e-6, "{}": math.inf}},
    spent=12.5,
)


def test_a_profile_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "net.tuned.json"
    PROFILE.save(path)
    assert Profile.load(path) == PROFILE
    # Strict JSON: other readers know no Infinity.
    json.loads(path.read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"kind": "edgec tuning profile", "schema": 2}',
        '{"kind": "edgec tuning profile", "schema": 1}',
        '{"kind": "something else", "schema": 1}',
        "[" * 100_000,
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"bad\.json is no tuning profile"):
        Profile.load(path)


@pytest.mark.parametrize("key", list(PROFILE.to_json()))
def test_every_key_is_needed_and_has_its_type(tmp_path: Path, key: str) -> None:
    path = tmp_path / "bad.json"
    value = PROFILE.to_json()
    for change in ({k: v for k, v in value.items() if k != key}, value | {key: object}):
        path.write_text(json.dumps(change, default=lambda _: [[1]]))
        if key in ("program", "program_key", "target", "device", "machine", "function"):
            continue  # anything has a text
        if key == "finished" and key in change:
            continue  # and a truth
        with pytest.raises(ProfileError):
            Profile.load(path)


def test_a_cut_of_nothing_is_damage(tmp_path: Path) -> None:
    value = PROFILE.to_json()
    value["winner"]["cuts"]["edgec_product_1x1_1x12x64x96"]["columns"] = 0
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ProfileError, match="at least 1"):
        Profile.load(path)


def test_a_profile_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        Profile.load(tmp_path / "missing.json")


def test_another_program_or_target_is_refused() -> None:
    PROFILE.refuse_other("abc", "net", "cpu:host")
    with pytest.raises(ProfileError, match="made for cpu:host, not for vulkan"):
        PROFILE.refuse_other("abc", "net", "vulkan")
    with pytest.raises(ProfileError, match="another program than other"):
        PROFILE.refuse_other("def", "other", "cpu:host")


def test_other_versions_are_named() -> None:
    assert PROFILE.stale(dict(PROFILE.versions)) == ""
    assert PROFILE.stale({**PROFILE.versions, "compiler": "3.14.0"}) == "compiler 3.13.0 → 3.14.0"


def test_a_profile_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        PROFILE.save(tmp_path / "no-such-folder" / "net.json")
    path = tmp_path / "net.json"
    PROFILE.save(path)
    replace(PROFILE, gain=3.0).save(path)
    assert Profile.load(path).gain == 3.0
    assert [p.name for p in tmp_path.iterdir()] == ["net.json"]
