"""Memory that edgert fills with a pattern of any width and length."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from iree.compiler import compile_str

from edgec.runtime import load

SPLATS = (
    ("f32", "1.5", 1),
    ("f32", "0.0", 5000),
    ("f32", "-0.0", 77),
    ("f32", "0xFF800000", 4099),
    ("i16", "258", 3001),
    ("i16", "257", 9),
    ("i64", "-7", 2049),
    ("i8", "-3", 1023),
)


def test_every_element_is_the_pattern(tmp_path):
    kinds = [f"tensor<{count}x{kind}>" for kind, _, count in SPLATS]
    lines = [
        f"%{i} = arith.constant dense<{value}> : {kind}"
        for i, ((_, value, _), kind) in enumerate(zip(SPLATS, kinds, strict=True))
    ]
    names = ", ".join(f"%{i}" for i in range(len(SPLATS)))
    text = (
        f"func.func @main() -> ({', '.join(kinds)}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {names} : {', '.join(kinds)}\n}}"
    )
    file = tmp_path / "fills.vmfb"
    file.write_bytes(compile_str(text, target_backends=["llvm-cpu"]))
    with load(file, device="edgert://cpu") as loaded:
        answers = loaded.main()
    for answer, (kind, value, count) in zip(answers, SPLATS, strict=True):
        name = {"f": "float", "i": "int"}[kind[0]] + kind[1:]
        want = float("-inf") if value.startswith("0x") else float(value)
        expected = np.full(count, want, name)
        assert np.asarray(answer).tobytes() == expected.tobytes()


LARGE = 16 << 20
"""Elements of f32: a session's memory of this size is pages of the system's own."""


def _large(folder: Path) -> Path:
    """Zeros, and the same memory full of something else."""
    kind = f"tensor<{LARGE}xf32>"
    text = f"""
func.func @zeros() -> {kind} {{
  %0 = arith.constant dense<0.0> : {kind}
  return %0 : {kind}
}}
func.func @spread(%x: tensor<f32>) -> {kind} {{
  %0 = tensor.empty() : {kind}
  %1 = linalg.broadcast ins(%x : tensor<f32>) outs(%0 : {kind}) dimensions = [0]
  return %1 : {kind}
}}
"""
    file = folder / "large.vmfb"
    file.write_bytes(compile_str(text, target_backends=["llvm-cpu"]))
    return file


def test_large_zeros_take_no_memory_until_they_are_touched(tmp_path):
    code = """
import sys
from pathlib import Path
from edgec.runtime import load

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

with load(sys.argv[1], device="edgert://cpu") as loaded:
    before = most()
    answer = loaded.zeros()
    print(most() - before)
"""
    command = [sys.executable, "-c", code, str(_large(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < LARGE * 4 // 1024 // 4


def test_memory_that_is_used_again_is_filled_with_zeros(tmp_path):
    with load(_large(tmp_path), device="edgert://cpu") as loaded:
        for value in (1.5, -2.5):
            answer = np.array(loaded.spread(np.float32(value)))
            assert (answer == value).all()
            assert not np.array(loaded.zeros()).any()
