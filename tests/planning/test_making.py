"""A plan is measured, proved, and can be asked for by hand; what cannot be planned is refused."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgec.exporters.export_model import export_source, uncut_source
from edgec.meshing import compile_mesh
from edgec.planning import plan
from edgec.runtime.errors import UsageError
from edgec.runtime.mesh.running import load_mesh
from edgec.runtime.split import load_split
from edgec.toolchain import CompileOptions

NET = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64))

def model():
    return net, (torch.linspace(-1, 1, 192).reshape(3, 64),)
"""


def _answers(x: np.ndarray) -> np.ndarray:
    """PyTorch's own."""
    names: dict[str, Any] = {}
    exec(NET, names)
    return np.asarray(names["net"](torch.from_numpy(x)).detach())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("planning")
    (made / "net.py").write_text(NET)
    return made


@pytest.mark.slow
def test_a_plan_runs_and_the_same_can_be_asked_for_by_hand(folder: Path) -> None:
    command = ["plan", "net.py:model", "--mesh=x=2", "--devices=cpu,cpu", "--tries=2"]
    done = subprocess.run(
        [sys.executable, "-m", "edgec.cli", "--json", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    ways = {" ".join(way["shard"]): way for way in said["tried"]}
    assert len(ways) == 3
    assert "" in ways
    # Three rows go to no two devices; a weight's columns and the next one's rows do, for a sum.
    best = ways["0.weight=x,_"]
    assert best["work"] < 0.6 * ways[""]["work"]
    assert best["collectives"] == 1
    assert best["bytes"] == 3 * 64 * 4
    assert said["tried"][0]["seconds"] == min(way["seconds"] for way in said["tried"])
    assert "checked on a CPU" in said["check"]

    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    y = _answers(x)
    with load_mesh(folder / said["folder"], ["cpu", "cpu"]) as loaded:
        np.testing.assert_allclose(loaded["main"](x), y, rtol=1e-4, atol=1e-5)

    shard = tuple(best["shard"])
    assert all(each.startswith("--shard=") for each in shlex.split(said["again"])[5:])
    program = export_source(
        f"{folder / 'net.py'}:model",
        mesh="x=2",
        shard=shard,
        external_weights=folder / "w.safetensors",
        folder=folder,
    )
    (route,) = program.info.mesh.routes.values()
    assert len(route.collectives) == best["collectives"]
    compile_mesh(program.save(folder / "w.mlirbc"), "cpu", folder / "w.mesh", CompileOptions())
    with load_mesh(folder / "w.mesh", ["cpu", "cpu"]) as loaded:
        np.testing.assert_allclose(loaded["main"](x), y, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_most_calls_a_second_are_planned_with_several_calls_under_way(folder: Path) -> None:
    asked = ["--mesh=x=2", "--devices=cpu,cpu", "--tries=1", "--pieces=2", "--for=throughput"]
    done = subprocess.run(
        [sys.executable, "-m", "edgec.cli", "--json", "plan", "net.py:model", *asked, "-o", "many"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    ways = said["stream"]["tried"]
    assert {len(way["stages"]) for way in ways} == {1, 2}
    least = min(way["seconds"] for way in ways)
    assert ways[0]["seconds"] == least
    assert said["streams"] == (least < said["tried"][0]["seconds"])
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    if said["streams"]:
        with load_split(folder / "many") as stream:
            answers = [y for (y,) in stream.stream([(x,), (2 * x,)])]
    else:
        with load_mesh(folder / "many", ["cpu", "cpu"]) as mesh:
            answers = [mesh["main"](x), mesh["main"](2 * x)]
    np.testing.assert_allclose(answers[0], _answers(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answers[1], _answers(2 * x), rtol=1e-4, atol=1e-5)

    # The other kind of plan takes its place.
    uncut = uncut_source(f"{folder / 'net.py'}:model", "x=2")
    plan(uncut, "cpu", folder / "many", devices=["cpu", "cpu"], tries=1)
    assert (folder / "many/mesh.json").is_file()
    assert not (folder / "many/split.json").exists()


def test_weights_are_cut_by_name_and_by_pattern(folder: Path) -> None:
    asked = {"mesh": "x=2", "external_weights": folder / "n.safetensors", "folder": folder}
    source = f"{folder / 'net.py'}:model"
    for flag in ("0.weight=x", "*.weight=x"):
        program = export_source(source, shard=(flag,), **asked)
        assert program.info.mesh.weights["0.weight"] == (("x",), ())
    with pytest.raises(UsageError, match=r"no input and no weight 1\.weight"):
        export_source(source, shard=("1.weight=x",), **asked)
    with pytest.raises(UsageError, match=r"it is 0.bias\[256\]"):
        export_source(source, shard=("0.bias=_,x",), **asked)


def test_what_cannot_be_planned_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="finished program"):
        uncut_source("net.mlirbc", "x=2")
    uncut = uncut_source(f"{folder / 'net.py'}:model", "x=1")
    with pytest.raises(UsageError, match="has 1 devices"):
        plan(uncut, "cpu", folder / "none.mesh")
    with pytest.raises(UsageError, match="3 are named"):
        plan(
            uncut_source(f"{folder / 'net.py'}:model", "x=2"),
            "cpu",
            folder / "none.mesh",
            devices=["cpu"] * 3,
        )
    assert not (folder / "none.mesh").exists()
