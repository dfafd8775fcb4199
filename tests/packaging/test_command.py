"""`edgec package` at the command line."""

import json
from pathlib import Path

import pytest

from edgec.cli.main import execute
from edgec.runtime import Manifest
from tests.packaging.odd import ODD


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "odd.mlir"
    path.write_text(ODD)
    return path


def test_several_kinds_go_into_folders_of_their_own(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["package", program, "--c", "--android", "--target=cpu:x86-64", "-o", tmp_path / "out"]
    assert execute([str(word) for word in [*words, "--name=Odd one", "--json"]]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in report["packages"]] == ["c", "android"]
    for one in report["packages"]:
        folder = tmp_path / "out" / one["kind"]
        assert Path(one["folder"]) == folder
        assert Manifest.read(folder).to_json() == one["manifest"]
        assert one["manifest"]["name"] == "odd_one"
        assert {file: (folder / file).stat().st_size for file in one["files"]} == one["files"]
        assert list(one["checks"]) == ["cpu:x86-64"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "add --android, --ios, --web or --c"),
        (["--android", "--static"], 2, "--static is for --c"),
        (["--c", "--target=cuda"], 20, "no driver cuda"),
        (["--ios", "--target=vulkan"], 20, "no driver vulkan"),
        (["--c", "--target=wasm"], 20, "no driver wasm"),
        (["--ios", "--target=cpu:x86-64"], 20, "does not run on cpu:x86-64"),
        (["--c", "--static", "--target=cpu:arm64", "--target=cpu:arm64-v8.2"], 2, "cannot both"),
        (["--c", "-o", "."], 4, "holds other things than a package"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_compiled(
    words: list[str],
    code: int,
    message: str,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(program.parent)
    assert execute(["package", program.name, *words]) == code
    assert message in capsys.readouterr().err
    assert [path.name for path in program.parent.iterdir()] == [program.name]
