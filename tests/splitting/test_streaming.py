"""Programs through which several calls go at once, compared with NumPy."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export
from edgec.runtime.errors import ModuleError, UsageError, WrongAnswer
from edgec.runtime.split import load_split
from edgec.runtime.split_folder import Place, SplitFolder, SplitStep, write_split
from edgec.splitting import split, split_for_stream
from edgec.splitting.choosing import Run
from edgec.splitting.streaming import shared_out

RANDOM = np.random.default_rng(0)
FIRST, SECOND = (RANDOM.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(2))
MANY = RANDOM.standard_normal((9, 32, 64)).astype(np.float32)


def net(x):
    return jnp.tanh(jnp.tanh(x @ FIRST) @ SECOND) + x


def wanted(x):
    return np.tanh(np.tanh(x @ FIRST) @ SECOND) + x


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return export(net, (MANY[0],)).save(tmp_path_factory.mktemp("program") / "net.mlirbc")


@pytest.fixture(scope="module")
def made(program, tmp_path_factory):
    return split_for_stream(
        program, ["cpu", "cpu"], tmp_path_factory.mktemp("s") / "net.split", pieces=2, tries=2
    )


@pytest.fixture(scope="module")
def stages(program, tmp_path_factory):
    """Two stages, the second on two devices, whether that pays or not."""
    runs = (Run(start=0, end=1, device="local-sync"), Run(start=1, end=2, device="cpu"))
    folder = tmp_path_factory.mktemp("stages") / "net.split"
    split(program, ["cpu", "local-sync"], folder, pieces=2, chosen=runs)
    read = SplitFolder.read(folder)
    first, second = read.steps
    (place,) = second.places
    write_split(
        SplitFolder(
            path=folder,
            signature=read.signature,
            devices=(*read.devices, "cpu?threads=1"),
            steps=(
                first,
                SplitStep(
                    places=(place, Place(module=place.module, digest=place.digest, device=2)),
                    inputs=second.inputs,
                    outputs=second.outputs,
                ),
            ),
            outputs=read.outputs,
            in_flight=5,
        )
    )
    return folder


def test_ways_are_measured_and_the_fastest_is_in_the_folder(made):
    seconds = [way.seconds for way in made.tried]
    assert None not in seconds
    assert seconds == sorted(seconds)
    assert {len(way.stages) for way in made.tried} == {1, 2}
    assert any(way.devices == ("cpu",) and way.in_flight == 1 for way in made.tried)
    read = SplitFolder.read(made.folder)
    assert read.devices == made.tried[0].devices
    assert read.in_flight == made.tried[0].in_flight
    modules = {place.module for step in read.steps for place in step.places}
    assert {file.name for file in made.folder.glob("*.vmfb")} == modules


def test_a_stream_gives_what_numpy_gives_in_its_order(made, stages):
    for folder in (made.folder, stages):
        with load_split(folder) as loaded:
            found = list(loaded.stream((x,) for x in MANY))
            assert len(found) == len(MANY)
            for x, (y,) in zip(MANY, found, strict=True):
                np.testing.assert_allclose(y, wanted(x), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(loaded(MANY[0]), wanted(MANY[0]), rtol=1e-4, atol=1e-4)


def test_every_module_of_a_stage_is_proved(stages, tmp_path):
    """The second device of the second stage has another program's module."""
    for file in stages.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    other = export(lambda x: net(x) + 1, (MANY[0],))
    runs = (Run(start=0, end=1, device="cpu"), Run(start=1, end=2, device="cpu"))
    wrong = tmp_path / "wrong.split"
    split(other, ["cpu", "local-sync"], wrong, pieces=2, chosen=runs)
    place = SplitFolder.read(wrong).steps[1].places[0]
    (tmp_path / "wrong.vmfb").write_bytes((wrong / place.module).read_bytes())
    manifest = json.loads((tmp_path / "split.json").read_text())
    manifest["steps"][1]["places"][1] |= {"module": "wrong.vmfb", "digest": place.digest}
    (tmp_path / "split.json").write_text(json.dumps(manifest))
    done = _edgec("run", tmp_path)
    assert done.returncode == WrongAnswer.exit_code
    assert "values are off" in done.stdout


def test_rows_go_through_as_a_stream(stages, tmp_path):
    np.save(tmp_path / "many.npy", MANY)
    out = tmp_path / "out.npy"
    done = _edgec("run", stages, "--each", "--input", f"@{tmp_path / 'many.npy'}", "-o", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calls"] == len(MANY)
    np.testing.assert_allclose(np.load(out), wanted(MANY), rtol=1e-4, atol=1e-4)


def test_a_stream_is_measured_beside_calls_one_by_one(stages):
    done = _edgec("bench", stages, "--iterations=10", "--in-flight=3")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["calls"] == 10
    assert said["stream"]["in_flight"] == 3
    assert said["stream"]["calls"] == 10
    assert said["stream"]["throughput"] > 0
    refused = _edgec("bench", stages, "--threads=2")
    assert refused.returncode != 0
    assert "without --threads" in refused.stderr + refused.stdout


def test_processors_that_are_named_several_times_share_the_cores():
    one, two = shared_out(["cpu", "cpu"])
    assert one == two
    assert one.startswith("cpu?threads=")
    assert shared_out(["cpu", "vulkan"]) == ("cpu", "vulkan")
    assert shared_out(["cpu?threads=3", "cpu?threads=3"]) == ("cpu?threads=3",) * 2


def test_what_no_stream_goes_through_is_refused(program, made, tmp_path):
    with pytest.raises(UsageError, match="nothing to stream through: 1 devices"):
        split_for_stream(program, ["cpu"], tmp_path / "net.split")
    with load_split(made.folder) as loaded, pytest.raises(UsageError, match="0 calls under way"):
        loaded.stream([], in_flight=0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"in_flight": 0}, "0 calls"),
        ({"devices": []}, "names a device that there is not"),
        ({"outputs": [99]}, "nobody makes"),
        ({"schema": 1}, "schema 1"),
    ],
)
def test_a_damaged_manifest_is_refused(stages, tmp_path, change, match):
    manifest = json.loads((stages / "split.json").read_text())
    (tmp_path / "split.json").write_text(json.dumps(manifest | change))
    with pytest.raises(ModuleError, match=match):
        load_split(tmp_path)


def _edgec(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "edgec.cli", "--json", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
