"""WGSL in headless Chromium on SwiftShader: a kernel's buffers before, and after it has run."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.web.chromium import Page
from edgec.toolchain.webgpu.spirv import read
from edgec.toolchain.webgpu.writer import Shader, write

__all__ = ["run", "run_spirv", "shader"]

_Array = np.ndarray[Any, np.dtype[Any]]

_RUN = """(async ({ code, bindings, buffers, words, groups }) => {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  const wrong = messages.filter(({ type }) => type === 'error');
  if (wrong.length) return { error: wrong.map((m) => `${m.lineNum}: ${m.message}`).join('\\n') };
  const layout = device.createBindGroupLayout({ entries: bindings.map(([binding, written]) => ({
    binding, visibility: 4, buffer: { type: written ? 'storage' : 'read-only-storage' } })) });
  const givens = device.createBindGroupLayout({ entries: [{ binding: 0, visibility: 4,
    buffer: { type: 'uniform' } }] });
  const pipeline = device.createComputePipeline({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout, givens] }),
    compute: { module, entryPoint: 'main' } });
  const made = buffers.map((text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const buffer = device.createBuffer({ size: bytes.length, usage: 0x8c });
    device.queue.writeBuffer(buffer, 0, bytes);
    return buffer;
  });
  const given = device.createBuffer({ size: 256, usage: 0x48 });
  device.queue.writeBuffer(given, 0, Uint32Array.from([0, 0, 0, 0, ...words]));
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout, entries: bindings.map(([binding]) => (
    { binding, resource: { buffer: made[binding] } })) }));
  pass.setBindGroup(1, device.createBindGroup({ layout: givens, entries: [
    { binding: 0, resource: { buffer: given } }] }));
  pass.dispatchWorkgroups(...groups);
  pass.end();
  const staged = made.map(({ size }) => device.createBuffer({ size, usage: 0x9 }));
  made.forEach((buffer, i) => encoder.copyBufferToBuffer(buffer, 0, staged[i], 0, buffer.size));
  device.queue.submit([encoder.finish()]);
  const error = await device.popErrorScope();
  if (error) return { error: error.message };
  const texts = [];
  for (const buffer of staged) {
    await buffer.mapAsync(1);
    const bytes = new Uint8Array(buffer.getMappedRange());
    let text = '';
    for (const byte of bytes) text += String.fromCharCode(byte);
    texts.push(btoa(text));
  }
  device.destroy();
  return { buffers: texts };
})(%s)"""


def shader(spirv: bytes) -> Shader:
    """The one kernel of a SPIR-V module in WGSL."""
    kernels = read(spirv)
    (entry,) = kernels.entries
    return write(kernels, entry)


def run(
    page: Page,
    made: Shader,
    buffers: Sequence[_Array],
    groups: tuple[int, int, int] = (1, 1, 1),
    words: Sequence[int] = (),
) -> list[_Array]:
    """What the buffers of a kernel hold after it; each is as many bytes as a multiple of 16."""
    padded = [_padded(each) for each in buffers]
    asked = {
        "code": made.text,
        "bindings": made.bindings,
        "buffers": [base64.b64encode(data).decode() for data in padded],
        "words": [int(word) & 0xFFFFFFFF for word in words],
        "groups": groups,
    }
    found = page.run(_RUN % json.dumps(asked))
    assert "error" not in found, f"{found['error']}\n{made.text}"
    return [
        np.frombuffer(base64.b64decode(text), each.dtype)[: each.size].reshape(each.shape)
        for text, each in zip(found["buffers"], buffers, strict=True)
    ]


def run_spirv(
    page: Page,
    spirv: bytes,
    buffers: Sequence[_Array],
    groups: tuple[int, int, int] = (1, 1, 1),
    words: Sequence[int] = (),
) -> list[_Array]:
    """`run` of the one kernel of a SPIR-V module."""
    return run(page, shader(spirv), buffers, groups, words)


def _padded(array: _Array) -> bytes:
    data = array.tobytes()
    return data + bytes(-len(data) % 16)
