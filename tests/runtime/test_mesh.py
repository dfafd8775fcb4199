"""Plans, shards and collectives of several devices, compared with NumPy on whole arrays."""

import numpy as np
import pytest

from edgec.runtime.errors import InputError, ProgramError, UsageError
from edgec.runtime.mesh.collectives import collect
from edgec.runtime.mesh.plan import Call, Collective, Mesh, Plan, Route
from edgec.runtime.mesh.shards import cut, join
from edgec.runtime.signature import Signature

MESH = Mesh.parse("x=2,y=3")
ROWS = ((0, 1, 2), (3, 4, 5))
RANDOM = np.random.default_rng(0)


def test_devices_are_numbered_row_by_row():
    assert MESH.devices == 6
    assert [MESH.place(d) for d in (0, 2, 3, 5)] == [
        {"x": 0, "y": 0},
        {"x": 0, "y": 2},
        {"x": 1, "y": 0},
        {"x": 1, "y": 2},
    ]


@pytest.mark.parametrize("text", ["", "x", "x=0", "x=2,x=2", "2=x", "x=2;y=2"])
def test_a_text_that_is_no_mesh_is_refused(text):
    with pytest.raises(UsageError, match="no mesh"):
        Mesh.parse(text)


@pytest.mark.parametrize(
    "sharding", [((), ()), (("x",), ("y",)), (("y",), ()), (("x", "y"), ()), (("y", "x"), ())]
)
def test_shards_join_to_the_array_they_were_cut_of(sharding):
    whole = RANDOM.standard_normal((12, 6))
    shards = cut(whole, sharding, MESH)
    np.testing.assert_array_equal(join(shards, sharding, MESH), whole)


def test_the_first_axis_of_two_is_the_outer_one():
    shards = cut(np.arange(6), (("x", "y"),), MESH)
    assert [int(shard[0]) for shard in shards] == [0, 1, 2, 3, 4, 5]
    shards = cut(np.arange(6), (("y", "x"),), MESH)
    assert [int(shard[0]) for shard in shards] == [0, 2, 4, 1, 3, 5]


def test_an_axis_that_does_not_divide_is_refused():
    with pytest.raises(InputError, match="4 cannot be cut into 3 equal parts"):
        cut(np.zeros(4), (("y",),), MESH)


def step(kind, **more):
    return Collective(kind=kind, input=0, output=1, groups=more.pop("groups", ROWS), **more)


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [("add", np.sum), ("maximum", np.max), ("minimum", np.min), ("multiply", np.prod)],
)
def test_a_reduction_is_over_the_devices_of_a_group(operation, wanted):
    arrays = RANDOM.standard_normal((6, 4, 2))
    found = collect(step("all_reduce", operation=operation), list(arrays))
    for device in range(6):
        row = arrays[:3] if device < 3 else arrays[3:]
        np.testing.assert_allclose(found[device], wanted(row, axis=0))


def test_halves_are_summed_in_f32():
    arrays = [np.full(3, value, np.float16) for value in (2048, 1, 1, 0, 0, 0)]
    found = collect(step("all_reduce", operation="add"), arrays)
    assert found[0].dtype == np.float16
    assert float(found[0][0]) == 2050


def test_gathering_scattering_and_exchanging_move_pieces_along_their_axes():
    arrays = list(RANDOM.standard_normal((6, 3, 6)))
    row = arrays[3:]
    gathered = collect(step("all_gather", axis=1), arrays)
    np.testing.assert_array_equal(gathered[4], np.concatenate(row, axis=1))
    scattered = collect(step("reduce_scatter", operation="add", axis=1), arrays)
    np.testing.assert_allclose(scattered[4], sum(row)[:, 2:4])
    exchanged = collect(step("all_to_all", axis=1, onto=0), arrays)
    np.testing.assert_array_equal(exchanged[4], np.concatenate([a[:, 2:4] for a in row]))
    sent = collect(step("collective_broadcast"), arrays)
    np.testing.assert_array_equal(sent[5], arrays[3])


def test_whom_nobody_gives_something_has_zeros():
    arrays = list(RANDOM.standard_normal((3, 2)))
    found = collect(step("collective_permute", groups=((0, 1), (1, 2))), arrays)
    np.testing.assert_array_equal(found[1], arrays[0])
    np.testing.assert_array_equal(found[2], arrays[1])
    assert not found[0].any()


def test_groups_that_leave_devices_out_are_refused():
    with pytest.raises(ProgramError, match="leaves devices out"):
        collect(step("all_gather", groups=((0, 1),)), [np.zeros(2)] * 3)


def plan(*steps):
    route = Route(
        signature=Signature.flat("main", [], []), inputs=(), outputs=((0, ()),), steps=steps
    )
    return Plan(mesh=MESH, routes={"main": route}, weights={"w": (("x",), ())})


def test_a_plan_is_read_as_it_was_written():
    call = Call(function="main_part0", inputs=(), outputs=(0,), numbered=True)
    made = plan(call, step("all_reduce", operation="add", where="net.py:3"))
    assert Plan.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (step("all_gather"), "too early"),
        (step("all_gather", groups=((0, 7),)), "outside of"),
        (step("whisper"), "no collective whisper"),
    ],
)
def test_a_damaged_plan_is_refused(wrong, match):
    call = Call(function="main_part0", inputs=(), outputs=(0,))
    steps = (wrong,) if match == "too early" else (call, wrong)
    with pytest.raises(ProgramError, match=match):
        Plan.from_json(plan(*steps).to_json())
