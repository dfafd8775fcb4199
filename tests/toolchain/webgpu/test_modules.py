"""Programs compiled for WebGPU, called in a page: what every operation gives, beside JAX."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.web.chromium import WEBGPU, Chromium, serve
from edgec import toolchain
from edgec.exporters import export
from edgec.runtime import Module
from edgec.runtime.errors import CompileError
from edgec.targets import find
from edgec.toolchain import CompileOptions
from tests.js.node import need_chromium, write_runtime_once
from tests.toolchain.kernels.cuda.block_cases import floats, nibbles, norm
from tests.toolchain.kernels.cuda.chunk_cases import CHUNKS

_CALL = """(async (given) => {
  const { load } = await import('./edgec-runtime/index.js');
  const model = await load('model.vmfb', { device: 'gpu', cache: false });
  const kinds = { f32: Float32Array, i32: Int32Array, i16: Int16Array, i8: Int8Array,
    u8: Uint8Array };
  const inputs = Object.entries(given).map(([name, numbers]) =>
    new kinds[model.main.inputs.find((each) => each.name === name).dtype](numbers.flat(9)));
  const text = ({ buffer, byteOffset, byteLength }) => btoa(Array.from(
    new Uint8Array(buffer, byteOffset, byteLength), (byte) => String.fromCharCode(byte)).join(''));
  const answers = [];
  for (let time = 0; time < 2; ++time) {
    const found = await model.main(...inputs);
    const texts = Object.entries(found).map(([name, each]) => [name, text(each)]);
    answers.push(Object.fromEntries(texts));
  }
  const { device, passedOver } = model;
  model.close();
  return { device, passedOver, answers };
})(%s)"""


def _operations() -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """A function with results of many kinds, and what it is called with."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    random = np.random.default_rng(0)
    weights = random.normal(size=(6, 5)).astype(np.float32)

    def main(x, i, b, u, s, wide):
        half = (x * 3).astype(jnp.float16)
        return {
            "quotients": (i // 7 + lax.rem(i, jnp.int32(5))) * 1000 + i % 5,
            "shifts": lax.shift_right_arithmetic(i, jnp.int32(3)) ^ (i << 2),
            "counts": lax.population_count(i) * 100 + lax.clz(i),
            "bytes": (b + jnp.int8(100)) // jnp.int8(3),
            "unsigned": u * jnp.uint8(3),
            "shorts": jnp.abs(s * s),
            "truths": (i > 3) | jnp.isnan(jnp.sqrt(x[0, :5])),
            "halves": half * half + 1,
            "fractions": u.astype(jnp.float32) / 3,
            "integers": (x * 10).astype(jnp.int32),
            "functions": jnp.tanh(x) + lax.erf(x) + jnp.log(jnp.abs(x) + 0.1) + jnp.sin(x),
            "powers": jnp.abs(x) ** 1.7 + jnp.round(x * 3) + jnp.sign(x),
            "sums": jnp.cumsum(x, 1),
            "sorted": jnp.sort(x, 1),
            "places": jnp.argmax(x, 1),
            "joined": jnp.pad(jnp.concatenate([x, x[:, ::-1]], 0), ((1, 2), (0, 1))),
            # The compiler reads where to on the host, in the middle of the call.
            "moved": lax.dynamic_update_slice(x, x[:2, :2] * 0, (i[0] % 2, 1)),
            "gathered": x[i % 4][:, :3],
            "scattered": jnp.zeros((8, 6), jnp.float32).at[i % 8].add(x[0]),
            "shares": jax.nn.softmax(x @ weights, 1),
            "largest": lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME"),
            # Kernels of edgec's own, an infinite edge among them.
            "edged": jnp.pad(wide, ((2, 1), (0, 3)), constant_values=-jnp.inf),
            "edged, turned": jnp.pad(wide.T, 1, constant_values=0.5),
        }

    given = (
        random.normal(size=(4, 6)).astype(np.float32),
        random.integers(-1000, 1000, 5).astype(np.int32),
        random.integers(-128, 127, 7).astype(np.int8),
        random.integers(0, 255, 9).astype(np.uint8),
        random.integers(-300, 300, 5).astype(np.int16),
        random.normal(size=(70, 71)).astype(np.float32),
    )
    return main, given


def _token() -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """What a language model does for a token: products by weights in blocks, and attention."""
    return _tokens(1)


def _chunk() -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """The same for some tokens of a prompt."""
    return _tokens(13)


def _tokens(count: int) -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    import jax
    import jax.numpy as jnp

    random = np.random.default_rng(1)

    def weights(outputs: int, inner: int, bits: int) -> list[np.ndarray]:
        codes = random.integers(-128, 128, (outputs, inner * bits // 8)).astype(np.int8)
        numbers = random.normal(0, 0.01, (2, outputs, inner // 32)).astype(np.float16)
        return [codes, *numbers[: 3 - bits // 4]]

    gate, up, down = weights(96, 64, 4), weights(96, 64, 4), weights(64, 96, 8)
    keys, values = random.normal(size=(2, 2, 300, 32)).astype(np.float32)

    def main(x, last):
        rows = norm(x, jnp.ones(64))
        wide = jax.nn.silu(rows @ floats(nibbles(gate[0], 32), *gate[1:]).T)
        wide = wide * (rows @ floats(nibbles(up[0], 32), *up[1:]).T)
        x = x + wide @ floats(*map(jnp.asarray, down)).T
        q = x[0].reshape(2, 1, 32)
        scores = jnp.einsum("hqd,hkd->hqk", q, keys) / 8
        scores = jnp.where(jnp.arange(300) < last[0], scores, -jnp.inf)
        return {"x": x, "seen": jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), values)}

    return main, (random.normal(size=(count, 64)).astype(np.float32), np.array([90], np.int32))


def _prompt() -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """Attention of a prompt's chunk by a cache, under masks that hide most keys."""
    random = np.random.default_rng(2)

    def main(q, k, v):
        return {name: function(q, k, v) for name, function in CHUNKS.items()}

    shapes = ((2, 40, 16), (2, 300, 16), (2, 300, 16))
    return main, tuple(random.normal(size=shape).astype(np.float32) for shape in shapes)


@pytest.mark.parametrize(
    ("case", "kernels"),
    [
        (_operations, (b"edge_f32",)),
        (_prompt, (b"attention_32",)),
        (_chunk, (b"block_product_4", b"block_product_8")),
        (_token, (b"block_rows_4", b"block_rows_8", b"attention_join")),
    ],
)
def test_operations_in_a_page_give_what_jax_gives(
    case: Callable[[], tuple[Callable[..., Any], tuple[np.ndarray, ...]]],
    kernels: tuple[bytes, ...],
    tmp_path: Path,
) -> None:
    need_chromium()
    main, given = case()
    program = export(main, given)
    options = CompileOptions(output=tmp_path / "model.vmfb")
    module = toolchain.compile(program, "webgpu", options)
    assert all(name in (tmp_path / "model.vmfb").read_bytes() for name in kernels)
    write_runtime_once(tmp_path / "edgec-runtime")
    (tmp_path / "index.html").write_text("<!doctype html>")
    (function,) = program.info.functions
    names = [spec.name for spec in function.signature.inputs]
    inputs = {name: array.tolist() for name, array in zip(names, given, strict=True)}
    with serve(tmp_path) as address, Chromium(*WEBGPU) as browser:
        found = browser.open(f"{address}/index.html").run(_CALL % json.dumps(inputs))
    assert "swiftshader" in found["device"].lower() and found["passedOver"] == []
    assert module.facts.driver == "webgpu"
    wanted = main(*given)
    for answer in found["answers"]:
        for spec in function.signature.outputs:
            array = np.asarray(wanted[spec.name])
            data = np.frombuffer(base64.b64decode(answer[spec.name]), array.dtype)
            tolerance = {"f2": 2e-3, "f4": 1e-5}.get(array.dtype.str[1:], 0)
            np.testing.assert_allclose(
                data.reshape(array.shape), array, tolerance, tolerance, err_msg=spec.name
            )


def test_a_module_for_webgpu_holds_its_kernels_as_text(tmp_path: Path) -> None:
    program = export(lambda x: x * 2 + 1, (np.ones((3, 50), np.float32),))
    path = tmp_path / "model.vmfb"
    module = toolchain.compile(program, "webgpu", CompileOptions(output=path))
    assert module.formats == ("webgpu-wgsl",)
    data = path.read_bytes()
    assert b"@compute @workgroup_size(" in data
    assert b"vulkan-spirv-fb" not in data
    assert Module.read(path).facts.target == "webgpu"


def test_a_kernel_that_is_too_large_for_webgpu_is_refused_with_the_users_line() -> None:
    program = export(lambda x, y: x * y + 1, (np.ones(50, np.float32), np.ones(50, np.float32)))
    target = find("webgpu")
    smaller = replace(target, limits=replace(target.limits, buffers=2))
    with pytest.raises(CompileError, match="a kernel takes 3 buffers, and WebGPU has 2") as caught:
        toolchain.compile(program, smaller)
    assert "test_modules.py:" in str(caught.value.where)
    assert "--target=wasm" in str(caught.value.hint)
