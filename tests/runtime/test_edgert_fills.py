"""Memory that edgert fills with a pattern of any width and length."""

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
