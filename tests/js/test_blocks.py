"""Products by weights in blocks with 16-bit scales in WebAssembly, whose code has no halves."""

from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain import CompileOptions, compile
from tests.js.node import need_node, run_node, write_runtime_once
from tests.toolchain.block_programs import FORMS, Form

HALVED = {name: form for name, form in FORMS.items() if form.scale == "f16" and not form.shared}
SIZES = {"one": (1, 13, 256), "few": (3, 16, 256), "many": (9, 70, 256), "tall": (37, 96, 256)}
"""Rows, outputs, inner: 70 is not a whole number of vectors."""

CALLS = """
const fs = await import('node:fs');
const kinds = { i8: Int8Array, f16: Uint16Array, f32: Float32Array };
const model = await load('blocks.vmfb');
const found = {};
for (const [name, given] of Object.entries(calls)) {
  const inputs = given.map(([file, kind, shape]) => {
    const bytes = fs.readFileSync(file);
    const own = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    return tensor(new kinds[kind](own), shape, kind);
  });
  const [y] = await model[name](...inputs);
  found[name] = Array.from(new Uint32Array(y.buffer, y.byteOffset, y.length));
}
print(found);
"""


def answers(
    folder: Path, texts: dict[str, str], inputs: dict[str, list[np.ndarray]]
) -> dict[str, np.ndarray]:
    """What programs of one function each give in node, as one module, bit for bit."""
    need_node()
    write_runtime_once(folder / "edgec-runtime")
    merged = "".join(text.replace("@main", f"@{name}") for name, text in texts.items())
    (folder / "blocks.mlir").write_text(merged)
    compile(folder / "blocks.mlir", "wasm", CompileOptions(output=folder / "blocks.vmfb"))
    kinds, calls = {"int8": "i8", "float16": "f16", "float32": "f32"}, {}
    for name, arrays in inputs.items():
        calls[name] = []
        for number, array in enumerate(arrays):
            array.tofile(folder / f"{name}.{number}")
            calls[name].append([f"{name}.{number}", kinds[array.dtype.name], list(array.shape)])
    found = run_node(CALLS, folder, calls=calls)
    return {name: np.array(bits, np.uint32).view(np.float32) for name, bits in found.items()}


def test_every_form_is_what_numpy_works_out(tmp_path: Path) -> None:
    texts, inputs, expected = {}, {}, {}
    rng = np.random.default_rng(0)
    for number, form in enumerate(HALVED.values()):
        for size, (rows, outputs, inner) in SIZES.items():
            name = f"{size}_{number}"
            numbers = form.numbers(outputs, inner, seed=number)
            x = rng.standard_normal((rows, inner)).astype(np.float32)
            weights = form.weights(numbers, inner)
            texts[name] = form.text(rows, outputs, inner)
            inputs[name] = [x, *numbers.values()]
            expected[name] = (x.astype(float) @ weights.T, np.abs(x) @ np.abs(weights).T)
    for name, found in answers(tmp_path, texts, inputs).items():
        product, scale = expected[name]
        error = np.abs(found.reshape(product.shape) - product) / scale
        assert error.max() < 1e-6, name


@pytest.mark.parametrize(("group", "rows"), [(0, 1), (32, 1), (32, 8)])
def test_every_half_is_a_scale_exactly(group: int, rows: int, tmp_path: Path) -> None:
    """One by one, four at a time, and gathered: each output is a weight of 1 times its scale."""
    form = Form(bits=8, group=group)
    outputs = 65536
    halves = np.arange(outputs, dtype=np.uint16).view(np.float16)
    scales = np.repeat(halves[:, None], 64 // group if group else 1, axis=1)
    x, codes = np.zeros((rows, 64), np.float32), np.ones((outputs, 64), np.int8)
    x[:, 5] = 1
    texts = {"main": form.text(rows, outputs, 64)}
    found = answers(tmp_path, texts, {"main": [x, codes, scales]})["main"]
    for row in found.reshape(rows, outputs):
        numbers = np.isfinite(halves)
        np.testing.assert_array_equal(row[numbers], halves[numbers].astype(np.float32))
        assert not np.isfinite(row[~numbers]).any()
