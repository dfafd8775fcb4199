// Copies between buffers of WebGPU that do not begin or end at words, which WebGPU itself has not.

const WGSL = `
struct Given { from_at: u32, to_at: u32, size: u32, first: u32 }
@group(0) @binding(0) var<storage,read> source: array<u32>;
@group(0) @binding(1) var<storage,read_write> target_words: array<atomic<u32>>;
@group(0) @binding(2) var<uniform> given: Given;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) place: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>) {
  let word = given.to_at / 4u + place.x + place.y * groups.x * 64u;
  var bits = 0u;
  var mask = 0u;
  for (var i = 0u; i < 4u; i++) {
    let at = word * 4u + i;
    if (at < given.to_at || at >= given.to_at + given.size) { continue; }
    let origin = at - given.to_at + given.from_at;
    bits |= extractBits(source[origin / 4u], (origin % 4u) * 8u, 8u) << (i * 8u);
    mask |= 0xffu << (i * 8u);
  }
  if (mask == 0u) { return; }
  atomicAnd(&target_words[word], ~mask);
  atomicOr(&target_words[word], bits);
}`;
const WIDE = 32768;

export class Copier {
  #device;
  #pipeline;

  constructor(device) {
    this.#device = device;
  }

  /** What copies `size` bytes in a compute pass, which it gives back. */
  step(from, fromOffset, to, offset, size) {
    const device = this.#device;
    this.#pipeline ??= device.createComputePipeline({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code: WGSL }), entryPoint: 'main' },
    });
    const given = device.createBuffer({ size: 16, usage: 0x48 });
    device.queue.writeBuffer(given, 0, Uint32Array.of(fromOffset, offset, size, 0));
    const group = device.createBindGroup({
      layout: this.#pipeline.getBindGroupLayout(0),
      entries: [from, to, given].map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    const words = Math.ceil((offset + size) / 4) - Math.floor(offset / 4);
    const groups = Math.ceil(words / 64);
    const counts = [Math.min(groups, WIDE), Math.ceil(groups / WIDE)];
    return (pass) => {
      pass.setPipeline(this.#pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...counts);
      return pass;
    };
  }
}
