"""What tuning can try of a program's kernels, said before it tries."""

import pytest

from edgec.targets import find
from edgec.toolchain.kernels.cpu.source import vector_unit
from edgec.toolchain.tuning.outlook import KernelTimes, outlook

UNIT = vector_unit(find("cpu:x86-64-v3"))
LARGE = "edgec_product_1x1_1x128x768x3072"
SMALL = "edgec_product_1x1_1x128x768x768"


def _look(own: dict[str, float], call: float):
    assert UNIT is not None
    return outlook(KernelTimes(own=own, call=call), UNIT)


def test_the_longest_kernel_comes_first_and_the_least_are_left_out() -> None:
    found = _look({SMALL: 0.2, LARGE: 0.6, "edgec_product_1x1_1x1x1x1000": 0.001}, 1.0)
    assert list(found.cuts) == [LARGE, SMALL]
    assert found.share == pytest.approx(0.8)
    assert found.is_mostly_kernels
    assert found.rounds == max(len(cuts) for cuts in found.cuts.values())


def test_the_text_has_the_kernels_their_shares_and_how_many_cuts() -> None:
    found = _look({SMALL: 0.2, LARGE: 0.6}, 1.0)
    cuts = sum(len(cuts) for cuts in found.cuts.values())
    assert found.text() == (
        f"2 kernels take 80% of a call ({LARGE} 60%, {SMALL} 20%): {cuts} other cuts in "
        f"{found.rounds} rounds, each a compile"
    )


def test_a_program_without_such_kernels_says_so() -> None:
    found = _look({}, 1.0)
    assert not found.is_mostly_kernels
    assert found.rounds == 0
    assert "no kernel of edgec's own" in found.text()
