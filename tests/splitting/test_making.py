"""Programs cut between two devices, compared with NumPy."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import Bundle, Entry, export
from edgec.runtime.errors import FileError, ModuleError, UsageError
from edgec.runtime.split import load_split
from edgec.splitting import split
from edgec.splitting.choosing import Run
from edgec.splitting.pieces import Line

RANDOM = np.random.default_rng(0)
FIRST, SECOND, THIRD = (RANDOM.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(3))
X = RANDOM.standard_normal((32, 64)).astype(np.float32)


def net(x):
    h = jax.nn.relu(x @ FIRST)
    early = h.sum(axis=1)
    g = jnp.tanh(h @ SECOND)
    return g @ THIRD + x, early, x


def wanted():
    h = np.maximum(X @ FIRST, 0)
    return np.tanh(h @ SECOND) @ THIRD + X, h.sum(axis=1), X


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    made = export(net, (X,), external_weights=folder / "net.safetensors")
    return made.save(folder / "net.mlirbc")


@pytest.fixture(scope="module")
def cut(program, tmp_path_factory):
    """The first piece on one device, the rest on another, whether that pays or not."""
    runs = (Run(start=0, end=1, device="local-sync"), Run(start=1, end=3, device="cpu"))
    return split(
        program,
        ["cpu", "local-sync"],
        tmp_path_factory.mktemp("split") / "net.split",
        pieces=3,
        chosen=runs,
    )


def test_modules_on_two_devices_give_what_numpy_gives(cut):
    with load_split(cut.folder) as loaded:
        places = [step.places[0].device for step in loaded.folder.steps]
        assert [loaded.folder.devices[place] for place in places] == ["local-sync", "cpu"]
        found = loaded(X)
    for one, other in zip(found, wanted(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_pieces_end_where_little_is_alive_and_take_what_they_need(program, cut):
    line = Line(program, 3)
    assert len(line.cuts) == 4
    # Between two pieces one matrix of 32 rows, or two, and sums at most.
    assert all(size <= 2 * X.nbytes + 4 * 32 for size in cut.alive)
    assert all("test_making.py" in where for where in cut.where)
    last = line.run(2, 3)
    assert 0 in last.inputs  # x is added at the end


def test_the_least_sum_is_chosen_and_what_is_not_is_gone(program, tmp_path):
    made = split(program, ["cpu", "local-sync"], tmp_path / "net.split", pieces=2)
    assert len(made.times) == 6
    assert made.seconds <= min(made.alone("cpu"), made.alone("local-sync"))
    modules = {file.name for file in made.folder.glob("*.vmfb")}
    manifest = json.loads((made.folder / "split.json").read_text())
    assert modules == {step["places"][0]["module"] for step in manifest["steps"]}


def test_another_module_in_its_place_is_refused(cut, tmp_path):
    for file in cut.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    first, second = sorted(tmp_path.glob("*.vmfb"))
    first.write_bytes(second.read_bytes())
    with pytest.raises(ModuleError, match="is not the module that"):
        load_split(tmp_path)


def test_a_folder_of_other_things_is_left_alone(program, tmp_path):
    Path(tmp_path, "letter.txt").write_text("keep")
    with pytest.raises(FileError, match="holds other things"):
        split(program, ["cpu", "local-sync"], tmp_path)


def test_what_is_not_cut_is_refused_by_name(program, tmp_path):
    with pytest.raises(UsageError, match="nothing to split: 1 devices"):
        split(program, ["cpu"], tmp_path / "net.split")
    counter = Entry(lambda n, x: (n + 1, x + n), (np.float32(1),), updates_state=True)
    stateful = export(Bundle((counter,), state=np.float32(0)))
    with pytest.raises(UsageError, match="keeps state between calls"):
        split(stateful, ["cpu", "local-sync"], tmp_path / "net.split")
    open_sizes = export(jnp.tanh, (X,), dynamic="batch")
    with pytest.raises(UsageError, match=r"takes arrays of any size \(batch\)") as refused:
        split(open_sizes, ["cpu", "local-sync"], tmp_path / "net.split")
    assert "without --dynamic" in refused.value.hint
