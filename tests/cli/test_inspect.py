from pathlib import Path

import pytest

from edgec.runtime import Module


def test_a_module_tells_all_it_holds(edgec, module: Path) -> None:
    done = edgec("inspect", module)
    assert done.code == 0
    for text in (
        "main(arg0: f32[1, 4], arg1: i32[]) -> (out0: f32[1, 4], out1: i32[])",
        "scores(arg0: f32[3, 4]) -> (out0: f32[3, 4])",
        "target:            cpu:host",
        "unchecked",
        "executable",
        "imports:",
    ):
        assert text in done.out
    assert "hal.device" in edgec("inspect", module, "--all").out


def test_json_adds_up(edgec, module: Path) -> None:
    value = edgec("inspect", module, "--json").json
    assert value["kind"] == "module"
    assert value["sizes"]["total"] == module.stat().st_size
    assert sum(e["size"] for e in value["sizes"]["entries"]) == module.stat().st_size
    assert [s["name"] for s in value["signatures"]] == list(Module.read(module).signatures)
    assert value["facts"]["compiler"].startswith("3.13")
    assert any(i["name"].startswith("hal.") for i in value["imports"])


def test_a_program_tells_its_operations(edgec, program: Path) -> None:
    value = edgec("inspect", program, "--json").json
    assert value["kind"] == "program"
    assert value["dialect"] == "stablehlo"
    assert value["operations"] == {
        "func.func": 3,
        "func.return": 3,
        "stablehlo.constant": 1,
        "stablehlo.multiply": 1,
        "stablehlo.negate": 1,
        "stablehlo.not": 1,
    }
    assert "stablehlo.multiply" in edgec("inspect", program).out


def test_the_kind_is_known_by_content_where_the_name_says_nothing(
    edgec, module: Path, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(module.read_bytes())
    (tmp_path / "b").write_bytes(program.read_bytes())
    assert edgec("inspect", "a", "--json").json["kind"] == "module"
    assert edgec("inspect", "b", "--json").json["kind"] == "program"


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.vmfb", b"", 30),
        ("a.vmfb", b"hello", 30),
        ("a.mlirbc", b"hello", 15),
        ("a", b"hello", 30),
        ("a.mlir", b"", 15),
    ],
)
def test_files_of_neither_kind_are_refused(
    edgec, tmp_path: Path, name: str, data: bytes, code: int
) -> None:
    (tmp_path / name).write_bytes(data)
    done = edgec("inspect", name)
    assert done.code == code, done.err
    assert edgec("inspect", "none").code == 4


def test_every_truncated_module_is_refused(edgec, module: Path, tmp_path: Path) -> None:
    data = module.read_bytes()
    for length in range(0, len(data), len(data) // 7):
        (tmp_path / "cut.vmfb").write_bytes(data[:length])
        assert edgec("inspect", "cut.vmfb").code == 30
        assert edgec("run", "cut.vmfb").code == 30
