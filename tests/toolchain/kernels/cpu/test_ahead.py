"""What kernels ask memory for, against the lines that they read later."""

import re

import pytest

from edgec.toolchain.kernels.cpu.source.ahead import ahead
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

UNIT = VectorUnit(lanes=16, registers=32)
LINE = 16


def asked(panel: int, steps: int, tiles: int) -> set[int]:
    """The lines that all steps of all tiles ask for, from the next panel's first on."""
    found = ahead(UNIT, panels=10_000, panel=panel, steps=steps, pixels=4, tiles=tiles)
    assert found is not None
    lines = set()
    for tile in range(tiles):
        for step in range(steps):
            start = (tile * steps + step) * found.each
            lines |= {(start + at) // LINE for at in range(0, found.each, LINE)}
    return lines


@pytest.mark.parametrize("panel", [16, 32, 48, 64])
@pytest.mark.parametrize("tiles", [1, 2, 3, 7, 40])
def test_all_of_the_next_panel_is_asked_for(panel: int, tiles: int) -> None:
    steps = 96
    assert asked(panel, steps, tiles) >= set(range(steps * panel // LINE))


def test_a_step_asks_for_as_many_lines_as_its_part_has() -> None:
    found = ahead(UNIT, panels=10_000, panel=64, steps=96, pixels=4, tiles=2)
    assert found is not None
    writer = Writer(name="k", workgroups=(1, 1, 1), sizes=[64, 64])
    text = "\n".join(found.step(writer, 96))
    assert len(re.findall(r"memref\.prefetch %m1", text)) == found.each / LINE == 2


@pytest.mark.parametrize(
    ("unit", "panels", "pixels", "tiles"),
    [
        (VectorUnit(lanes=4, registers=32, by_lane=True), 10_000, 4, 10),
        (UNIT, 10_000, 1, 10),
        (UNIT, 1, 4, 1),
    ],
    ids=["by lane", "single pixels", "what a cache holds"],
)
def test_where_asking_costs_more_nothing_is_asked_for(
    unit: VectorUnit, panels: int, pixels: int, tiles: int
) -> None:
    assert ahead(unit, panels=panels, panel=64, steps=96, pixels=pixels, tiles=tiles) is None
