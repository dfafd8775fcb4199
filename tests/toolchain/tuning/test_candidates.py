"""What tuning may change exists in this compiler, and changes what it says."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.targets import Backend, catalogue, find
from edgec.toolchain.passes import CATALOGUE, Purpose
from edgec.toolchain.process import compiler_path
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.candidates import FLAGS, OPTIONAL_PASSES, Move, moves_for


@pytest.fixture(scope="module")
def known() -> str:
    done = subprocess.run([compiler_path(), "--help"], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("backend", FLAGS)
def test_the_compiler_knows_each_flag_and_value(
    backend: Backend, known: str, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.mlir"
    empty.write_text("module {}")
    for flag in FLAGS[backend]:
        assert f"  {flag.partition('=')[0]}" in known, flag
        line = [compiler_path(), empty, "--compile-to=input", "-o", "-", flag]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{flag}\n{done.stderr}"


def test_every_code_generator_has_flags() -> None:
    assert {target.backend for target in catalogue()} <= set(FLAGS)


def test_passes_that_are_there_for_speed_may_be_left_out_and_no_others() -> None:
    purposes = {kind.name: kind.purpose for kind in CATALOGUE}
    assert set(OPTIONAL_PASSES) == {n for n, why in purposes.items() if why is Purpose.SPEED}
    assert {"vulkan-kernels", "recurrent-loops", "quantised-kernels"} <= set(OPTIONAL_PASSES)
    assert not {"separate-reductions", "narrow-integers", "annotate"} & set(OPTIONAL_PASSES)


def test_a_flag_takes_the_place_of_one_of_its_name() -> None:
    first = Move(name="", flag="--iree-opt-level=O2").apply(Settings(iree_args=("--other",)))
    second = Move(name="", flag="--iree-opt-level=O3").apply(first)
    assert second.iree_args == ("--other", "--iree-opt-level=O3")


def test_passes_that_did_nothing_are_not_left_out() -> None:
    cpu = find("cpu")
    names = [move.name for move in moves_for(cpu, ["cpu-kernels"], first=True)]
    assert "--disable-pass=cpu-kernels" in names
    assert "--disable-pass=channels-last" not in names


def test_the_first_moves_and_the_rest_are_all_of_them_once() -> None:
    cpu = find("cpu")
    moves = [*moves_for(cpu, [], first=True), *moves_for(cpu, [], first=False)]
    flags = [move.flag for move in moves if move.flag]
    assert sorted(flags) == sorted(FLAGS[Backend.CPU])
    assert {move.level for move in moves} == {None, 1, 3}


def test_a_target_without_data_tiling_does_not_turn_it_off() -> None:
    plain = replace(find("cpu"), data_tiling=False)
    flags = {move.flag for move in moves_for(plain, [], first=True)}
    assert "--iree-opt-data-tiling=false" not in flags
