"""edgec's own kernels for GPUs in a page: the same sources by way of WGSL, right on SwiftShader."""

import base64
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.web.chromium import WEBGPU, Chromium, serve
from edgec import toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from tests.js.node import need_chromium, write_runtime_once
from tests.toolchain.kernels.vulkan.phone import arguments, every

_CALL = """(async (files) => {
  const { load } = await import('./edgec-runtime/index.js');
  const model = await load('model.vmfb', { device: 'gpu', cache: false });
  const read = async (file) => new Float32Array(await (await fetch(file)).arrayBuffer());
  const found = await model.main(...await Promise.all(files.map(read)));
  const text = ({ buffer, byteOffset, byteLength }) => btoa(Array.from(
    new Uint8Array(buffer, byteOffset, byteLength), (byte) => String.fromCharCode(byte)).join(''));
  return Object.fromEntries(Object.entries(found).map(([name, each]) => [name, text(each)]));
})(%s)"""


@pytest.mark.slow
def test_the_kernels_of_phones_are_right_in_a_page(tmp_path: Path) -> None:
    need_chromium()
    given = arguments()
    program = export(every, tuple(given))
    options = CompileOptions(output=tmp_path / "model.vmfb")
    share = toolchain.compile(program, "webgpu", options).facts.kernels
    assert share is not None
    assert share.own_flops > 0.95 * share.flops
    write_runtime_once(tmp_path / "edgec-runtime")
    (tmp_path / "index.html").write_text("<!doctype html>")
    files = [f"{number}.f32" for number in range(len(given))]
    for file, array in zip(files, given, strict=True):
        array.tofile(tmp_path / file)
    with serve(tmp_path) as address, Chromium(*WEBGPU) as browser:
        found = browser.open(f"{address}/index.html").run(_CALL % json.dumps(files), timeout=120)
    with jax.default_matmul_precision("highest"):
        wanted = every(*given)
    for name, array in wanted.items():
        got = np.frombuffer(base64.b64decode(found[name]), np.float32).reshape(array.shape)
        off = np.linalg.norm(got - array) / np.linalg.norm(array)
        assert off < 2e-5, f"{name}: {off}"
