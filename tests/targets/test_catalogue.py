import json
import platform
from pathlib import Path

import pytest

from edgec.runtime.errors import TargetError
from edgec.targets import PRESETS, Backend, Target, catalogue, expand, find, for_capability

PROMISED = [
    "cpu",
    "cpu:host",
    "cpu:arm64-v8.2",
    "cpu:arm64",
    "cpu:armv7",
    "cpu:riscv64",
    "cpu:apple-arm64",
    "cpu:x86-64-v3",
    "vulkan",
    "vulkan:adreno",
    "vulkan:mali-g715",
    "vulkan:android",
    "vulkan:nvidia-ada",
    "vulkan:nvidia-ampere",
    "vulkan:nvidia-hopper",
    "vulkan:amd-rdna3",
    "cuda",
    "cuda:sm_80",
    "cuda:sm_86",
    "cuda:sm_89",
    "cuda:sm_90",
    "rocm",
    "rocm:gfx1100",
    "metal",
    "wasm",
    "webgpu",
]


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_name_is_there(name: str):
    assert find(name).summary


def test_names_and_aliases_are_distinct_and_lower_case():
    names = [name for target in catalogue() for name in (target.name, *target.aliases)]
    assert len(set(names)) == len(names)
    assert names == [name.lower() for name in names]
    assert not set(names) & set(PRESETS)


def test_every_target_has_a_note_with_a_source():
    for target in catalogue():
        assert target.notes, target.name
        assert all(note.text and note.source for note in target.notes), target.name


def test_every_driver_is_one_that_the_runtime_knows():
    drivers = {target.driver for target in catalogue()}
    assert drivers == {"local-task", "vulkan", "cuda", "hip", "metal", "wasm", "webgpu"}


def test_a_cpu_target_has_a_stack_limit_and_a_gpu_target_none():
    for target in catalogue():
        assert bool(target.limits.stack) == (target.backend is Backend.CPU), target.name


def test_the_host_carries_the_features_of_this_machine():
    features = find("cpu").required_features
    if platform.machine() == "x86_64":
        assert "sse4.2" in features or "sse3" in features
    assert list(features) == sorted(set(features))


def test_names_are_found_in_any_case_and_with_spaces_around():
    assert find(" CUDA:SM_86 ").name == "cuda:sm_86"


def test_hopper_is_compiled_for_the_nearest_code_the_compiler_has_and_says_so():
    target = find("cuda:sm_90")
    assert target.gpu is not None
    assert target.gpu.target == "sm_89"
    assert any("sm_89" in note.text for note in target.notes)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("vulkan:adren", "vulkan:adreno"),
        ("cpu:arm64-8.2", "cpu:arm64-v8.2"),
        ("cuda:sm90", "cuda:sm_90"),
        ("mali-g715", "vulkan:mali-g715"),
        ("adreno", "vulkan:adreno"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(wrong: str, near: str):
    with pytest.raises(TargetError) as caught:
        find(wrong)
    assert near in (caught.value.hint or "")


def test_a_name_unlike_any_other_points_to_the_list():
    with pytest.raises(TargetError) as caught:
        find("qqqqqq")
    assert caught.value.hint == "`edgec targets` lists them all"


def test_presets_stand_for_targets_that_exist():
    for preset, members in PRESETS.items():
        assert [target.name for target in expand([preset])] == [find(m).name for m in members]


def test_expand_keeps_the_order_and_names_each_target_once():
    names = [target.name for target in expand(["vulkan:android", "android", "cpu", "cpu:host"])]
    assert names == ["vulkan:android", "cpu:arm64", "cpu:arm64-v8.2", "cpu:host"]


def test_a_preset_is_no_single_target():
    with pytest.raises(TargetError, match="several targets"):
        find("android")


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        *((60, "cuda:sm_60"), (62, "cuda:sm_60"), (80, "cuda"), (86, "cuda:sm_86")),
        *((90, "cuda:sm_90"), (121, "cuda:sm_120")),
        (91, "cuda:sm_89"),  # kernels for Hopper's own units run on Hopper alone
    ],
)
def test_a_gpu_gets_the_newest_target_whose_code_it_runs(capability, name):
    assert for_capability(capability).name == name


def test_a_gpu_can_be_too_old():
    with pytest.raises(TargetError, match=r"compute capability 5\.2"):
        for_capability(52)


def test_the_documentation_names_every_target():
    page = Path(__file__).parents[2] / "docs" / "targets.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    for target in catalogue():
        also = ", ".join(f"`{alias}`" for alias in target.aliases)
        assert f"| `{target.name}` | {target.summary} | {also} |" in lines


def test_every_target_survives_the_way_through_json():
    for target in catalogue():
        assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target
