"""Which tap is named as the first wrong one: a network of four operations, each value known."""

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from edgec.toolchain.taps import Tap, Taps
from edgec.verifying import Layers, State, picture
from edgec.verifying.identity import held
from edgec.verifying.layers import compare_layers
from edgec.verifying.reference import Operation, Reference

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
SUM = X + 1
CLIP = np.clip(SUM, 0, 1)
TURNED = CLIP.T
TWICE = 2 * TURNED
VALUES = (SUM, CLIP, TURNED, TWICE)
"""What operations 0 to 3 give; each on a line of its own. Operation 4 is never computed."""


def tap(numbers: Sequence[int], output: int | None, reads: Sequence[int] = ()) -> Tap:
    return Tap(
        kernel="",
        numbers=tuple(numbers[-1:]),
        covers=tuple(numbers),
        line="",
        output=output,
        why="" if output is not None else "laid out otherwise",
        reads=tuple(reads),
        given=() if reads else (0,),
    )


def compared(taps: Sequence[Tap], answers: Sequence[np.ndarray], *, right: bool) -> Layers:
    return compare_layers(
        Taps(taps=tuple(taps), outputs=((len(taps) - 1,),), nested=0),
        [answers[-1], *answers],
        [X],
        [right],
        [
            Operation(
                name=f"op{number}",
                line=f"net.py:{number}",
                function="main",
                depends=True,
                reads=tuple(range(number)[-1:]),
            )
            for number in range(5)
        ],
        Reference(values={i: (value,) for i, value in enumerate(VALUES)}, problem=""),
        "main",
        None,
    )


def states(found: Layers) -> list[State]:
    return [layer.state for layer in found.layers]


def test_what_is_right_is_right_in_any_order_and_with_a_border() -> None:
    bordered = np.pad(CLIP, 1)
    taps = [tap([0, 1], 1), tap([2, 3], 2, [0])]
    assert states(compared(taps, [bordered, TWICE.T.copy()], right=True)) == [State.RIGHT] * 2
    found = compared(taps, [CLIP, TWICE], right=True)
    assert states(found) == [State.RIGHT] * 2
    assert found.first_wrong is None
    assert found.fused == 2


def test_the_first_wrong_value_is_named_and_not_those_behind_it() -> None:
    taps = [tap([0], 1), tap([1], 2, [0]), tap([2, 3], 3, [1])]
    found = compared(taps, [SUM, -CLIP, -TWICE], right=False)
    assert states(found) == [State.RIGHT, State.WRONG, State.AFTER]
    first = found.first_wrong
    assert first is not None
    assert (first.number, first.line, first.name) == (1, "net.py:1", "op1")
    assert first.closeness is not None
    assert first.closeness.cosine == pytest.approx(-1)


def test_a_lost_operation_is_no_earlier_value() -> None:
    taps = [tap([0, 1], 1), tap([2, 3], 2, [0])]
    found = compared(taps, [SUM, 2 * SUM.T], right=False)
    assert states(found) == [State.WRONG, State.AFTER]
    assert found.first_wrong is not None
    assert found.first_wrong.line == "net.py:1"  # the kernel still holds what line 0 gives


def test_what_is_no_value_of_the_model_is_right_where_what_is_made_of_it_is() -> None:
    taps = [tap([0], 1), tap([1], 2, [0]), tap([2, 3], 3, [1])]
    half = CLIP[:, :3].copy()
    assert states(compared(taps, [SUM, half, TWICE], right=True)) == [
        *(State.RIGHT, State.INSIDE, State.RIGHT)
    ]
    found = compared(taps, [SUM, half, 3 * TWICE], right=False)
    assert found.first_wrong is not None
    assert states(found) == [State.RIGHT, State.UNKNOWN, State.WRONG]
    assert found.first_wrong.number == 2


def test_what_cannot_be_seen_hides_nothing_behind_it() -> None:
    taps = [tap([0, 1], None), tap([2, 3], 1, [0])]
    assert states(compared(taps, [TWICE], right=True)) == [State.UNSEEN, State.RIGHT]
    assert states(compared(taps, [-TWICE], right=False)) == [State.UNSEEN, State.WRONG]


def test_what_was_only_turned_is_a_value_that_it_read() -> None:
    taps = [tap([1], 1), tap([3], 2, [0])]
    found = compared([*taps], [X.T.copy(), TWICE], right=True)
    assert states(found) == [State.MOVED, State.RIGHT]
    assert found.layers[0].operation is None  # it is the argument's value, not its operation's
    assert found.layers[1].lines == tuple(f"net.py:{number}" for number in range(4))


def test_a_wrong_value_that_was_turned_is_no_right_one() -> None:
    taps = [tap([0], 1), tap([1], 2, [0]), tap([1], 3, [1]), tap([2, 3], 4, [2])]
    wrong = CLIP[::-1] + 1
    found = compared(taps, [SUM, wrong, wrong.T.copy(), 3 * TWICE], right=False)
    assert states(found) == [State.RIGHT, State.WRONG, State.MOVED, State.AFTER]
    assert found.first_wrong is not None
    assert found.first_wrong.line == "net.py:1"


def test_values_that_are_no_numbers_are_as_far_off_as_can_be() -> None:
    taps = [tap([0], 1), tap([1], 2, [0])]
    found = compared(taps, [SUM, np.full_like(CLIP, np.nan)], right=False).layers[1]
    assert (found.state, found.error) == (State.WRONG, np.inf)
    assert found.closeness is not None
    assert (found.closeness.relative_l2, found.closeness.cosine) == (np.inf, 0)


def test_the_picture_has_a_point_a_value_and_the_first_wrong_ones_line() -> None:
    taps = [tap([0], 1), tap([1], 2, [0]), tap([2, 3], 3, [1])]
    found = compared(taps, [SUM, -CLIP, -TWICE], right=False)
    drawn = ElementTree.fromstring(picture(found, "a < b"))
    name = "{http://www.w3.org/2000/svg}"
    points = drawn.findall(f"{name}circle")
    assert len(points) == 3
    heights = [float(point.get("cy", "nan")) for point in points]
    assert heights[0] > heights[1]  # an error of nothing lies at the foot
    (marks,) = drawn.findall(f"{name}path")
    assert (marks.get("d") or "").count("M") == 3
    texts = [each.text for each in drawn.iter(f"{name}text")]
    assert texts[0] == "a < b"
    assert {"net.py:0", "net.py:1", "first wrong: net.py:1"} <= set(texts)


def test_a_border_that_is_no_number_is_the_fault_of_who_left_it_where_it_is_read() -> None:
    taps = [tap([0, 1], 1), tap([2, 3], 2, [0])]
    bordered = np.pad(CLIP, 1, constant_values=np.nan)
    assert states(compared(taps, [bordered, TWICE], right=True)) == [State.RIGHT] * 2
    wrong = TWICE.copy()
    wrong[0] = np.nan
    found = compared(taps, [bordered, wrong], right=False)
    assert states(found) == [State.WRONG, State.AFTER]
    assert found.first_wrong is not None
    assert "not written" in found.first_wrong.why
    found = compared(taps, [np.pad(CLIP, 1), wrong], right=False)
    assert states(found) == [State.RIGHT, State.WRONG]


def test_a_wrong_value_of_a_loop_is_named_with_all_of_the_loop() -> None:
    taps = [tap([0], 1), tap([1], 2, [0]), tap([2], 3, [1]), tap([3], 4, [2])]
    taps[1], taps[2] = replace(taps[1], loop=1), replace(taps[2], loop=1)
    found = compared(taps, [SUM, CLIP, -TURNED, -TWICE], right=False)
    assert states(found) == [State.RIGHT, State.RIGHT, State.WRONG, State.AFTER]
    assert found.first_wrong is not None
    assert found.first_wrong.lines == ("net.py:1", "net.py:2")


def test_a_branch_that_is_not_taken_is_not_seen() -> None:
    taps = [tap([0], 1), replace(tap([4], 2, [0]), loop=1), tap([1, 2, 3], 3, [0])]
    found = compared(taps, [SUM, np.zeros_like(SUM), TWICE], right=True)
    assert states(found) == [State.RIGHT, State.UNSEEN, State.RIGHT]
    assert "does not go through" in found.layers[1].why


def test_single_numbers_are_compared_too() -> None:
    found = held(np.array(2.0, np.float32), np.array(3.0, np.float32), None)
    assert found is not None
    assert not found.comparison.ok
    assert held(np.array([np.inf]), np.array([np.inf]), None).comparison.ok  # type: ignore[union-attr]


def test_a_dispatch_may_go_further_than_it_says() -> None:
    taps = [tap([0], 1), tap([2, 3], 2, [0])]
    found = compared(taps, [CLIP, TWICE], right=True)
    assert states(found) == [State.RIGHT] * 2
    assert found.layers[0].operation == 1
