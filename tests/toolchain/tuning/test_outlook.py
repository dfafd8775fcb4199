"""What tuning can try of a program's kernels, said before it tries."""

import pytest

from edgec.targets import find
from edgec.toolchain.kernels.cpu.source import vector_unit
from edgec.toolchain.tuning.outlook import KernelTimes, outlook, reached

UNIT = vector_unit(find("cpu:x86-64-v3"))
UNKNOWN = KernelTimes(own={}, call=0.0)
LARGE = "edgec_product_1x1_1x128x768x3072"
SMALL = "edgec_product_1x1_1x128x768x768"


def _look(own: dict[str, float], call: float, alone: KernelTimes = UNKNOWN):
    assert UNIT is not None
    return outlook(KernelTimes(own=own, call=call), UNIT, alone)


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
        f"{found.rounds} rounds, each a compile; all else takes 20% of a call"
    )


def test_a_program_without_such_kernels_says_so() -> None:
    found = _look({}, 1.0)
    assert not found.is_mostly_kernels
    assert found.rounds == 0
    assert "no kernel of edgec's own" in found.text()


def test_what_a_kernel_computes_is_a_share_of_what_a_product_does_here() -> None:
    flops = 2 * 128 * 768 * 768
    alone = KernelTimes(own={SMALL: flops / 50e9}, call=1.0, rate=100e9)
    assert reached(SMALL, alone) == pytest.approx(0.5)
    assert reached(LARGE, alone) == 0
    found = _look({SMALL: 0.8}, 1.0, alone)
    assert found.most == pytest.approx(1 / 0.6)
    assert "they do 50% to 50% of what a product does here (100 GFLOP/s)" in found.text()
    assert not found.is_hopeless


def test_winograds_products_are_what_a_convolution_of_two_forms_needs() -> None:
    key = "edgec_convolution_3x3_56x56x64x64"
    flops = 2 * 56 * 56 * 64 * 64 * 9
    alone = KernelTimes(own={key: flops / 150e9}, call=1.0, rate=100e9)
    assert reached(key, alone) == pytest.approx(1.5 / 2.25)


def test_kernels_at_the_machines_rate_are_left_alone_and_that_is_said() -> None:
    flops = 2 * 128 * 768 * 768
    alone = KernelTimes(own={SMALL: flops / 99e9}, call=1.0, rate=100e9)
    found = _look({SMALL: 0.99}, 1.0, alone)
    assert found.cuts == {}
    assert found.is_hopeless
    assert "1 kernel computes as fast as a product of edgec's own does here" in found.text()
    assert not _look({SMALL: 0.8}, 1.0, alone).is_hopeless
