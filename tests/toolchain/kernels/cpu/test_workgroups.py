"""How a kernel's work is cut: enough parts, and none that read the same where there are many."""

import pytest

from edgec.toolchain.kernels.cpu.source import Convolution, Result, VectorUnit, tiling
from edgec.toolchain.kernels.cpu.source.workgroups import beside, even

AVX512 = VectorUnit(lanes=16, registers=32)


@pytest.mark.parametrize("wanted", [1, 2, 5, 16, 33, 64])
def test_parts_of_groups_are_nearly_as_many_as_wanted(wanted):
    for groups in range(1, 100):
        count = groups * beside(groups, wanted)
        assert count >= (wanted if groups < 16 else min(wanted, 2 * wanted / 3))
        assert beside(groups, wanted) == 1 or count < 2 * wanted


def pixels(height, width, channels, outputs):
    result = Result(height=height, width=width, channels=outputs)
    conv = Convolution(height=height, width=width, channels=channels, result=result)
    return tiling(conv, AVX512)


def test_threads_read_parts_of_a_large_image_and_no_thread_all_of_it():
    cut = pixels(28, 28, 896, 256)
    assert cut.split[1] == 1
    assert cut.split[0] >= 32


def test_large_weights_are_cut_and_few_pixels_too():
    assert pixels(7, 7, 2560, 1024).split[1] >= 16
    cut = pixels(28, 2, 64, 640)
    assert cut.split[0] * cut.split[1] >= 2
    assert even(cut.panels, cut.split[1]) == cut.split[1]
