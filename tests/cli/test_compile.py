import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec.cli.main import execute
from edgec.cli.progress import showing
from edgec.cli.session import Session
from edgec.runtime import Golden, GoldenCall, Module
from edgec.toolchain import Phase, Step

CUBE = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<4xf32>
  %1 = stablehlo.multiply %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
X = np.array([1, 2, 3, 4], np.float32)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "cube.mlir"
    path.write_text(CUBE)
    call = GoldenCall(signature="main", inputs=(X,), outputs=(X**3,))
    Golden(calls=(call,)).save(Golden.path_for(path))
    return path


def test_a_module_is_made_checked_and_told_of(edgec, cube: Path) -> None:
    done = edgec("compile", cube)
    assert done.code == 0, done.err
    module = cube.with_suffix(".vmfb")
    assert Module.read(module).facts.target == "cpu:host"
    assert f"{module}: cpu:host, checked" in done.out
    assert "executable" in done.out
    assert "total" in done.out
    assert "compiling" in done.err
    command = done.out.split("next: edgec ")[1].split()
    assert edgec(*command).code == 0


def test_json_says_the_same(edgec, cube: Path) -> None:
    done = edgec("compile", cube, "-o", "made/here.vmfb", "--json")
    assert (done.code, done.err) == (0, "")
    (made,) = done.json["modules"]
    assert made["module"] == "made/here.vmfb"
    assert made["target"] == "cpu:host"
    assert made["check"].startswith("checked")
    assert made["size"]["total"] == Path("made/here.vmfb").stat().st_size
    assert sum(made["size"]["parts"].values()) == made["size"]["total"]
    assert "compile" in made["seconds"] or made["cached"]
    again = edgec("compile", cube, "-o", "made/here.vmfb", "--json").json["modules"][0]
    assert again["cached"] is True
    assert "compile" not in again["seconds"]


@pytest.mark.parametrize("place", ["-", "/dev/stdout", "/dev/fd/1"])
def test_a_module_to_stdout_is_all_that_stdout_has(
    cube: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], place: str
) -> None:
    assert execute(["compile", str(cube), "-o", "net.vmfb"]) == 0
    capfdbinary.readouterr()
    assert execute(["compile", str(cube), "-o", place]) == 0
    said = capfdbinary.readouterr()
    assert said.out == (tmp_path / "net.vmfb").read_bytes()
    assert b"-: cpu:host, checked" in said.err
    assert b"next:" not in said.err
    assert not (tmp_path / "-").exists()
    assert execute(["compile", str(cube), "-o", place, "-q"]) == 0
    assert capfdbinary.readouterr().err == b""


def test_stdout_takes_one_thing(edgec, cube: Path) -> None:
    several = edgec("compile", cube, "-o", "-", "--target=cpu", "--target=vulkan")
    assert several.code == 2
    assert "2 modules do not go to stdout" in several.err
    both = edgec("compile", cube, "-o", "/dev/stdout", "--json")
    assert both.code == 2
    assert "cannot both go to stdout" in both.json["error"]["what"]


def test_what_is_thrown_away_has_no_next_step(edgec, cube: Path) -> None:
    done = edgec("compile", cube, "-o", "/dev/null")
    assert done.code == 0, done.err
    assert "/dev/null: cpu:host, checked" in done.out
    assert "next:" not in done.out
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("level", [("-O0",), ("-O", "3")])
def test_the_level_may_stick_to_its_flag(edgec, cube: Path, level: tuple[str, ...]) -> None:
    done = edgec("compile", cube, *level, "--dry-run")
    assert done.code == 0
    assert f"--iree-opt-level=O{level[-1][-1]}" in done.out
    assert not cube.with_suffix(".vmfb").exists()


def test_a_dry_run_prints_the_exact_command_of_each_target(edgec, cube: Path) -> None:
    line = ("compile", cube, "--target=web", "--target=vulkan", "--iree-arg=--x=y z", "--dry-run")
    done = edgec(*line)
    assert done.out.count("iree-compile") == 2
    assert done.out.count("'--x=y z'") == 2
    commands = edgec(*line, "--json").json["commands"]
    assert [c["target"] for c in commands] == ["wasm", "vulkan"]
    assert all(c["command"][-1] == "--x=y z" for c in commands)


def test_several_targets_make_a_module_each_named_by_it(edgec, cube: Path, tmp_path: Path) -> None:
    targets = ("--target=cpu:arm64", "--target=vulkan:android")
    done = edgec("compile", cube, *targets, "--no-check", "-o", "out", "--json")
    assert done.code == 0
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["cube.cpu-arm64.vmfb", "cube.vulkan-android.vmfb"]
    assert [m["target"] for m in done.json["modules"]] == ["cpu:arm64", "vulkan:android"]
    assert edgec("compile", cube, *targets, "-o", "one.vmfb").code == 2


CALL = "--input=@cube.golden.npz --expected=@cube.golden.npz"


@pytest.mark.parametrize(
    ("target", "following"),
    [
        ("cpu", f"edgec run cube.vmfb {CALL}"),
        ("cpu:arm64", f"edgec run cube.vmfb {CALL} --on=adb:"),
        ("cpu:riscv64", f"edgec run cube.vmfb {CALL} --on=ssh:HOST"),
        ("web", "edgec package cube.mlir --web"),
        ("cpu:ios-arm64", "edgec package cube.mlir --ios"),
    ],
)
def test_what_to_do_next_is_done_where_the_module_runs(
    edgec, cube: Path, target: str, following: str
) -> None:
    line = ("compile", cube, f"--target={target}", "--no-check", "-o", cube.parent / "cube.vmfb")
    (module,) = edgec(*line, "--json").json["modules"]
    assert module["next"].replace(f"{cube.parent}/", "") == following


def test_one_target_goes_into_a_folder_that_is_named_as_one(edgec, cube: Path) -> None:
    assert edgec("compile", cube, "-o", "new/", "-q").code == 0
    assert Path("new/cube.cpu-host.vmfb").exists()


def test_a_target_that_fails_keeps_no_other_from_being_made(edgec, tmp_path: Path) -> None:
    path = tmp_path / "wide.mlir"
    path.write_text(CUBE.replace("f32", "f64"))
    done = edgec("compile", path, "--target=vulkan", "--target=cpu", "--no-check", "--json")
    assert done.code == 21
    assert done.json["failed"] == ["vulkan"]
    assert [m["target"] for m in done.json["modules"]] == ["cpu:host"]
    assert done.json["error"]["what"].startswith("vulkan: ")


def test_a_wrong_module_is_refused_with_code_23(edgec, cube: Path) -> None:
    call = GoldenCall(signature="main", inputs=(X,), outputs=(X**3 + 1,))
    Golden(calls=(call,)).save(Golden.path_for(cube))
    done = edgec("compile", cube)
    assert done.code == 23
    assert not cube.with_suffix(".vmfb").exists()
    assert edgec("compile", cube, "--atol=2", "-q").code == 0
    assert edgec("compile", cube, "--no-check", "-q").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["--target=nope"], 20, "there is no target 'nope'"),
        (["-O7"], 2, "-O7"),
        (["--atol=-1"], 2, "negative"),
        (["--precision=f8"], 2, "--precision takes no f8"),
        (["-o", "cube.mlir"], 2, "over itself"),
        (["-o", "cube.golden.npz/x.vmfb"], 4, "cannot make the folder"),
    ],
)
def test_what_makes_no_sense_is_refused(
    edgec, cube: Path, arguments: list[str], code: int, what: str
) -> None:
    done = edgec("compile", cube, *arguments)
    assert (done.code, what in done.err) == (code, True), done.err


def test_a_module_is_no_source_and_is_not_written_over(edgec, tmp_path: Path) -> None:
    module = tmp_path / "net.vmfb"
    module.write_bytes(b"as it was")
    done = edgec("compile", "net.vmfb")
    assert done.code == 11
    assert "is a compiled module" in done.err
    assert "edgec run" in done.err
    assert module.read_bytes() == b"as it was"


def test_files_that_are_no_programs_are_refused(edgec, tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_bytes(b"\x00\xff nonsense")
    assert edgec("compile", "bad.mlir").code == 15
    assert edgec("compile", "none.mlir").code == 4


def test_progress_is_a_line_a_step_when_it_is_not_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with showing(Session()) as progress:
        assert progress is not None
        for seconds in (0.0, 1.0, 2.0):
            progress(Phase(step=Step.COMPILE, target="cpu", seconds=seconds))
        progress(Phase(step=Step.CHECK, target="cpu", seconds=0.0))
    assert capsys.readouterr().err == "cpu: compiling\ncpu: running the golden answers\n"
    for session in (Session(json=True), Session(verbosity=-1)):
        with showing(session) as progress:
            assert progress is None


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_progress_is_one_live_line_on_a_terminal(cube: Path, no_color: str) -> None:
    ours, theirs = os.openpty()
    command = [str(Path(sys.executable).with_name("edgec")), "compile", str(cube), "--no-check"]
    environment = os.environ | {"TERM": "xterm-256color", "NO_COLOR": no_color}
    child = subprocess.Popen(
        command, env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(ours)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert b"cpu:host: " in shown
    assert (b"\x1b[32m" in shown) == (not no_color)
    assert "\x1b" not in out
    assert "cube.vmfb: cpu:host, unchecked" in out
