import pytest

from edgec.runtime.errors import UsageError
from edgec.toolchain import CompileOptions, run_passes
from edgec.toolchain.passes import CATALOGUE, ESSENTIAL, Purpose, refuse_unknown
from edgec.toolchain.passes.simplify.half_precision import HalfPrecision

ADD = """func.func @main(%x: tensor<4xi8>, %y: tensor<4x4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xf32>
  %1 = stablehlo.dot_general %0, %y, contracting_dims = [0] x [0]
    : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "add.mlir"
    path.write_text(ADD)
    return path


def test_every_pass_has_its_own_name_and_says_why_it_exists():
    names = [kind.name for kind in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(len((kind.__doc__ or "").split()) > 20 for kind in CATALOGUE)
    assert set(names) >= ESSENTIAL


def test_what_makes_programs_right_and_what_makes_them_fast_stand_apart():
    folders = {kind: kind.__module__.split(".passes.")[1].partition(".")[0] for kind in CATALOGUE}
    for kind, folder in folders.items():
        if folder in ("legalise", "place"):
            expected = Purpose.RIGHT if folder == "legalise" else Purpose.SPEED
            assert kind.purpose is expected, kind.name


def test_a_pass_runs_only_where_its_target_needs_it(program):
    assert "separate-bytes" not in run_passes(program, "cpu").changes
    assert run_passes(program, "vulkan").changes["separate-bytes"] == 1


def test_a_disabled_pass_does_not_run(program):
    every = set(run_passes(program, "vulkan").changes)
    left = set(run_passes(program, "vulkan", CompileOptions(disabled=("separate-bytes",))).changes)
    assert left == every - {"separate-bytes"}
    # What is not asked for does not run, essential or not.
    assert left >= ESSENTIAL - {HalfPrecision.name}


@pytest.mark.parametrize(
    ("name", "what"),
    [("no-such", "there is no pass"), ("annotate", "cannot be left out")],
)
def test_a_name_that_cannot_be_disabled_is_refused(name, what):
    with pytest.raises(UsageError, match=what):
        refuse_unknown([name])
