import json
from pathlib import Path

PROGRAM = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %c : tensor<4xf32>
  %1 = stablehlo.NAME %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def write(name: str, operation: str) -> Path:
    path = Path(name)
    path.write_text(PROGRAM.replace("NAME", operation))
    return path


def test_a_program_becomes_a_page(edgec) -> None:
    value = edgec("view", write("net.mlir", "tanh"), "--json").json
    assert value["nodes"] == 4  # an argument, two operations, the return
    text = Path(value["page"]).read_text()
    assert value["page"] == "net.html"
    assert '"name": "tanh"' in text
    assert '"shape": "f32[4]"' in text
    assert '"constants": ["f32[4]"]' in text
    assert "http://" not in text
    assert "https://" not in text


def test_a_module_becomes_a_page_of_its_pieces(edgec, module: Path) -> None:
    value = edgec("view", module, "-o", "pieces.html", "--json").json
    text = Path("pieces.html").read_text()
    assert value["nodes"] == len(edgec("inspect", module, "--json").json["sizes"]["entries"])
    assert '"kernel": "executable"' in text or '"kernel": "code"' in text or "bytecode" in text


def test_times_are_those_of_a_profile(edgec, module: Path) -> None:
    done = edgec("bench", module, "--function=scores", "--profile", "--iterations=2", "--json")
    Path("times.json").write_text(done.out)
    assert edgec("view", module, "--profile=times.json").code == 0
    Path("other.json").write_text(json.dumps({"profile": None}))
    refused = edgec("view", module, "--profile=other.json")
    assert refused.code == 4
    assert "bench --profile --json" in refused.err


def test_two_programs_are_compared(edgec) -> None:
    one, other = write("one.mlir", "tanh"), write("other.mlir", "sine")
    value = edgec("diff", one, other, "--json")
    assert value.code == 1
    assert [(c["state"], c["name"]) for c in value.json["changes"]] == [
        ("only in the first", "tanh"),
        ("only in the second", "sine"),
    ]
    assert edgec("diff", one, one, "-o", "same.html").code == 0


def test_what_cannot_be_shown_is_refused(edgec, module: Path) -> None:
    program = write("net.mlir", "tanh")
    assert edgec("view", program, "-o", "net.txt").code == 2
    assert edgec("view", module, "--layers=x.json").code == 2
    assert edgec("diff", program, module).code == 2
