// edgert's driver `webgpu` in the page: what its part in C (drivers/webgpu) asks for, as WebGPU does it.
//
// Buffers, executables and recordings have numbers; 0 is none. A recording is a list of what the
// device is to do for one run of a program's commands; it is encoded anew each time.
import { Copier } from './copier.js';
import { EdgeError } from './errors.js';

const ALIGNMENT = 16; // bytes that every buffer is a multiple of: kernels may read it in fours
const STEP = 256; // how WebGPU aligns uniforms by default
const MOST_GROUPS = 65535;
const KEPT = 64; // buffers of one size that wait to be used again

/** Limits of which a device is asked for all that its adapter has. */
const LIMITS = ['maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage',
  'maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup'];

const missing = (why) => new EdgeError('UNSUPPORTED', why);

/** The GPU's device, or a refusal that says why there is none; one in software only if asked for. */
async function openDevice(software) {
  const { gpu } = globalThis.navigator ?? {};
  if (!gpu) throw missing(globalThis.isSecureContext === false
    ? 'there is no WebGPU in pages that come by plain HTTP'
    : 'there is no WebGPU here');
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) throw missing('WebGPU has no GPU to use here');
  if (!software && (adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter))
    throw missing('the GPU here is a program on the CPU');
  const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
  const device = await adapter.requestDevice({ requiredLimits });
  const { vendor, architecture, device: model, description } = adapter.info ?? {};
  const words = description || [vendor, architecture, model].filter(Boolean).join(' ');
  return { device, name: words || 'WebGPU' };
}

export class Gpu {
  #device;
  #exports;
  #copier;
  #numbers = 0;
  #buffers = new Map();
  #free = new Map(); // size → buffers that nobody has any more
  #executables = new Map();
  #recordings = new Map();
  #groups = new Map(); // what is bound → its bind group
  #reads = new Map();
  #bound = [];
  #open; // the recording that is being made
  #givens;

  /** What failed last, in one sentence. */
  failure = '';

  /** Open the page's GPU, or say why that cannot be; `software`: one that is a program will do. */
  static async open({ software = false } = {}) {
    const { device, name } = await openDevice(software);
    return new Gpu(device, name);
  }

  constructor(device, name) {
    this.#device = device;
    this.name = name;
    this.#copier = new Copier(device);
    this.#givens = device.createBindGroupLayout({
      entries: [{ binding: 0, visibility: 4, buffer: { type: 'uniform', hasDynamicOffset: true } }],
    });
    device.addEventListener('uncapturederror', ({ error }) => { this.#lost ||= error.message; });
    device.lost.then(({ message }) => { this.#lost ||= `the GPU was lost: ${message}`; });
  }

  #lost = '';

  attach({ exports }) {
    this.#exports = exports;
  }

  /** Give the device back. */
  close = () => this.#device.destroy();

  /** Make all pipelines that there are not yet; they are compiled side by side. */
  async ready() {
    const waiting = [...this.#executables.values()].flatMap(({ kernels }) => kernels);
    await Promise.all(waiting.filter(({ pipeline }) => !pipeline).map(async (kernel) => {
      try {
        kernel.pipeline = await this.#device.createComputePipelineAsync(this.#pipeline(kernel));
      } catch (error) {
        throw missing(`the GPU does not take the kernel ${kernel.name}: ${error.message}`);
      }
    }));
    await this.#device.queue.onSubmittedWorkDone();
    if (this.#lost) throw new EdgeError('DEVICE_FAILED', this.#lost);
  }

  /** Wait until all that is being read is there. */
  async settled() {
    await Promise.all([...this.#reads.values()].map(({ done }) => done));
  }

  /** What edgert imports under the name `webgpu`. */
  imports = {
    open: (place, size) => {
      this.#put(this.name, place, size);
      return 1;
    },
    failure: (place, size) => this.#put(this.#lost || this.failure, place, size),
    allocate: (size) => this.#try(() => this.#allocate(size)),
    release: (number) => this.#release(number),
    write: (number, offset, data, size) => this.#try(() => {
      this.#reads.clear();
      this.#write(this.#buffer(number), offset, this.#bytes(data, size));
    }),
    read: (number, offset, data, size) => this.#read(number, offset, data, size),
    load: (data, size) => this.#try(() => this.#load(this.#bytes(data, size))),
    unload: (number) => this.#executables.delete(number),
    find: (number, name, size) => {
      const wanted = new TextDecoder().decode(this.#bytes(name, size).slice());
      return this.#executables.get(number).kernels.findIndex(({ name: each }) => each === wanted) + 1;
    },
    check: (number, index, words, bindings) => {
      const kernel = this.#executables.get(number).kernels[index];
      return kernel && kernel.words <= words && kernel.bindings.every(([at]) => at < bindings) ? 1 : 0;
    },
    begin: () => {
      this.#open = { steps: [], givens: [], used: [], bytes: 0, room: STEP };
      return this.#keep(this.#recordings, this.#open);
    },
    fill: (number, offset, size, low, high, width) => this.#try(() => {
      if (!low && !high && (offset | size) % 4 === 0) {
        this.#open.steps.push({ clear: [this.#buffer(number), offset, size] });
        return;
      }
      const pattern = new Uint8Array(Uint32Array.of(low, high).buffer, 0, width);
      this.#update(number, offset, Uint8Array.from({ length: size }, (_, i) => pattern[i % width]));
    }),
    copy: (from, fromOffset, to, offset, size) => this.#try(() => {
      this.#copy(this.#buffer(from), fromOffset, this.#buffer(to), offset, size);
    }),
    update: (number, offset, data, size) => this.#try(() => {
      this.#update(number, offset, this.#bytes(data, size).slice());
    }),
    bind: (number, offset, size) => this.#bound.push({ number, offset, size }),
    dispatch: (number, index, words, count, ...groups) => this.#try(() => {
      this.#dispatch(this.#kernel(number, index), this.#words(words, count), groups);
    }),
    dispatch_indirect: (number, index, words, count, buffer, offset) => this.#try(() => {
      this.#dispatch(this.#kernel(number, index), this.#words(words, count), undefined,
        { buffer: this.#buffer(buffer), offset });
    }),
    submit: (number) => this.#try(() => this.#submit(this.#recordings.get(number))),
    forget: (number) => {
      const recording = this.#recordings.get(number);
      recording.used.forEach((buffer) => buffer.destroy());
      this.#recordings.delete(number);
    },
  };

  // --- edgert's memory ----------------------------------------------------------------------------

  #bytes(place, size) {
    return new Uint8Array(this.#exports.memory.buffer, place >>> 0, size >>> 0);
  }

  #words(place, count) {
    return new Uint32Array(this.#exports.memory.buffer, place >>> 0, count).slice();
  }

  #put(text, place, size) {
    const bytes = new TextEncoder().encode(text).subarray(0, size - 1);
    this.#bytes(place, size).fill(0).set(bytes);
  }

  /** 1, or the number that is given; 0 with what failed. */
  #try(action) {
    try {
      if (this.#lost) return 0;
      return action() ?? 1;
    } catch (error) {
      this.failure = error.message;
      return 0;
    }
  }

  #keep(map, value) {
    map.set(++this.#numbers, value);
    return this.#numbers;
  }

  // --- buffers ------------------------------------------------------------------------------------

  #buffer(number) {
    return this.#buffers.get(number);
  }

  #allocate(wanted) {
    const size = Math.max(ALIGNMENT, Math.ceil((wanted >>> 0) / ALIGNMENT) * ALIGNMENT);
    const { maxBufferSize, maxStorageBufferBindingSize } = this.#device.limits;
    if (size > Math.min(maxBufferSize, maxStorageBufferBindingSize)) {
      this.failure = '';
      return 0;
    }
    const kept = this.#free.get(size)?.pop();
    if (kept) return kept;
    const usage = 0x80 | 0x100 | 0x4 | 0x8; // storage, indirect, copied from, copied to
    return this.#keep(this.#buffers, this.#device.createBuffer({ size, usage }));
  }

  #release(number) {
    const buffer = this.#buffers.get(number);
    if (!buffer) return;
    const kept = this.#free.get(buffer.size) ?? [];
    this.#free.set(buffer.size, kept);
    if (kept.length < KEPT) {
      kept.push(number);
      return;
    }
    this.#buffers.delete(number);
    for (const [key, { numbers }] of this.#groups) if (numbers.includes(number)) this.#groups.delete(key);
    buffer.destroy();
  }

  #write(buffer, offset, bytes) {
    if (offset % 4 === 0 && bytes.length % 4 === 0) {
      this.#device.queue.writeBuffer(buffer, offset, bytes);
      return;
    }
    const from = this.#device.createBuffer({ size: (bytes.length + 7) & ~3, usage: 0x88 });
    const whole = new Uint8Array(from.size);
    whole.set(bytes);
    this.#device.queue.writeBuffer(from, 0, whole);
    const encoder = this.#device.createCommandEncoder();
    this.#copier.step(from, 0, buffer, offset, bytes.length)(encoder.beginComputePass()).end();
    this.#device.queue.submit([encoder.finish()]);
    from.destroy();
  }

  /** 1: read; 2: not there yet; 0: failed. */
  #read(number, offset, data, size) {
    const key = `${number}+${offset}+${size}`;
    let read = this.#reads.get(key);
    if (!read) {
      read = {};
      const done = this.#try(() => {
        read.done = this.#fetch(this.#buffer(number), offset, size).then(
          (bytes) => { read.bytes = bytes; },
          (error) => { read.error = this.#lost || error.message; },
        );
      });
      if (!done) return 0;
      this.#reads.set(key, read);
    }
    if (read.error || this.#lost) {
      this.#reads.delete(key);
      this.failure = read.error;
      return 0;
    }
    if (!read.bytes) return 2;
    this.#bytes(data, size).set(read.bytes);
    return 1;
  }

  async #fetch(buffer, offset, size) {
    const from = offset & ~3;
    const length = ((offset + size + 3) & ~3) - from;
    const staging = this.#device.createBuffer({ size: length, usage: 0x9 }); // mapped, copied to
    const encoder = this.#device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, from, staging, 0, length);
    this.#device.queue.submit([encoder.finish()]);
    await staging.mapAsync(1);
    const bytes = new Uint8Array(staging.getMappedRange()).slice(offset - from, offset - from + size);
    staging.destroy();
    return bytes;
  }

  // --- kernels ------------------------------------------------------------------------------------

  #load(bytes) {
    const { kernels, modules } = JSON.parse(new TextDecoder().decode(bytes.slice()));
    const made = modules.map((code) => this.#device.createShaderModule({ code }));
    return this.#keep(this.#executables, {
      kernels: kernels.map(({ module, bindings, ...kernel }) => {
        const layout = this.#device.createBindGroupLayout({
          entries: bindings.map(([binding, written]) => ({
            binding, visibility: 4, buffer: { type: written ? 'storage' : 'read-only-storage' },
          })),
        });
        return { ...kernel, bindings, layout, id: ++this.#numbers, module: made[module] };
      }),
    });
  }

  #pipeline({ module, layout }) {
    const layouts = { bindGroupLayouts: [layout, this.#givens] };
    return {
      layout: this.#device.createPipelineLayout(layouts),
      compute: { module, entryPoint: 'main' },
    };
  }

  #kernel(number, index) {
    const kernel = this.#executables.get(number).kernels[index];
    kernel.pipeline ??= this.#device.createComputePipeline(this.#pipeline(kernel));
    return kernel;
  }

  // --- recordings ---------------------------------------------------------------------------------

  #dispatch(kernel, words, groups, indirect) {
    const bound = this.#bound;
    this.#bound = [];
    if (groups?.some((count) => count === 0)) return;
    const { group, back } = this.#group(kernel, bound);
    if (indirect) this.#step(kernel, group, words, [0, 0, 0], { indirect });
    else this.#steps(kernel, group, words, groups);
    back.forEach((copy) => this.#copy(...copy));
  }

  /** A dispatch of any size, in as many as WebGPU takes. */
  #steps(kernel, group, words, groups) {
    if (kernel.counts && groups.some((count) => count > MOST_GROUPS))
      throw new Error(`the kernel ${kernel.name} takes ${groups.join(' x ')} workgroups at once`);
    const [x, y, z] = groups.map((count) => (
      Array.from({ length: Math.ceil(count / MOST_GROUPS) }, (_, i) => i * MOST_GROUPS)));
    for (const first of z.flatMap((k) => y.flatMap((j) => x.map((i) => [i, j, k])))) {
      const count = groups.map((each, i) => Math.min(MOST_GROUPS, each - first[i]));
      this.#step(kernel, group, words, first, { count });
    }
  }

  #step({ pipeline }, group, words, first, how) {
    const recording = this.#open;
    const given = Uint32Array.from([...first, 0, ...words]);
    recording.givens.push([recording.bytes, given]);
    recording.steps.push({ pipeline, group, at: recording.bytes, ...how });
    recording.room = Math.max(recording.room, Math.ceil(given.byteLength / STEP) * STEP);
    recording.bytes += Math.ceil(given.byteLength / STEP) * STEP;
  }

  /**
   * The bind group of a kernel, and the copies that its dispatch is to be followed by. What is both
   * read and written by one kernel must be one binding in WebGPU; where a program has two, the one
   * that is only read gets a copy, as does what begins where no binding may.
   */
  #group({ id, bindings, layout }, bound) {
    const places = bindings.map(([binding, written]) => ({ binding, written, ...bound[binding] }));
    const written = new Set(places.filter((each) => each.written).map(({ number }) => number));
    const step = this.#device.limits.minStorageBufferOffsetAlignment;
    const isCopied = (each) => each.offset % step !== 0 || (!each.written && written.has(each.number));
    const isPlain = !places.some(isCopied);
    const key = [id, ...places.flatMap(({ number, offset, size }) => [number, offset, size])].join();
    const known = isPlain ? this.#groups.get(key) : undefined;
    if (known) return known;
    const back = [];
    const entries = places.map((place) => {
      const buffer = this.#buffer(place.number);
      const { binding, offset } = place;
      const length = Math.ceil(place.size / ALIGNMENT) * ALIGNMENT;
      const size = Math.max(ALIGNMENT, Math.min(length, buffer.size - offset));
      if (!isCopied(place)) return { binding, resource: { buffer, offset, size } };
      const scratch = this.#device.createBuffer({ size: length, usage: 0x8c });
      this.#open.used.push(scratch);
      this.#copy(buffer, offset, scratch, 0, place.size);
      if (place.written) back.push([scratch, 0, buffer, offset, place.size]);
      return { binding, resource: { buffer: scratch } };
    });
    const group = this.#device.createBindGroup({ layout, entries });
    const made = { group, back, numbers: places.map(({ number }) => number) };
    if (isPlain) this.#groups.set(key, made);
    return made;
  }

  #update(number, offset, bytes) {
    const from = this.#device.createBuffer({ size: (bytes.length + 3) & ~3, usage: 0x8c });
    const whole = new Uint8Array(from.size);
    whole.set(bytes);
    this.#device.queue.writeBuffer(from, 0, whole);
    this.#open.used.push(from);
    this.#copy(from, 0, this.#buffer(number), offset, bytes.length);
  }

  #copy(from, fromOffset, to, offset, size) {
    const steps = this.#open.steps;
    if ((fromOffset | offset | size) % 4 === 0 && from !== to)
      steps.push({ copy: [from, fromOffset, to, offset, size] });
    else if (from !== to) steps.push({ run: this.#copier.step(from, fromOffset, to, offset, size) });
    else {
      const by = this.#device.createBuffer({ size: (size + 7) & ~3, usage: 0x8c });
      this.#open.used.push(by);
      this.#copy(from, fromOffset, by, 0, size);
      this.#copy(by, 0, to, offset, size);
    }
  }

  #submit(recording) {
    this.#reads.clear();
    if (!recording.steps.length) return;
    if (recording.bytes && !recording.given) this.#give(recording);
    const encoder = this.#device.createCommandEncoder();
    let pass;
    for (const step of recording.steps) {
      if (step.copy || step.clear) {
        pass?.end();
        pass = undefined;
        if (step.copy) encoder.copyBufferToBuffer(...step.copy);
        else encoder.clearBuffer(...step.clear);
        continue;
      }
      pass ??= encoder.beginComputePass();
      if (step.run) {
        step.run(pass);
        continue;
      }
      pass.setPipeline(step.pipeline);
      pass.setBindGroup(0, step.group);
      pass.setBindGroup(1, recording.given, [step.at]);
      if (step.indirect) pass.dispatchWorkgroupsIndirect(step.indirect.buffer, step.indirect.offset);
      else pass.dispatchWorkgroups(...step.count);
    }
    pass?.end();
    this.#device.queue.submit([encoder.finish()]);
  }

  /** The numbers that a recording's kernels are given, in one buffer. */
  #give(recording) {
    const size = recording.bytes + recording.room;
    const buffer = this.#device.createBuffer({ size, usage: 0x48 }); // uniform, copied to
    const whole = new Uint32Array(size / 4);
    for (const [at, words] of recording.givens) whole.set(words, at / 4);
    this.#device.queue.writeBuffer(buffer, 0, whole);
    recording.used.push(buffer);
    recording.given = this.#device.createBindGroup({
      layout: this.#givens,
      entries: [{ binding: 0, resource: { buffer, size: recording.room } }],
    });
  }
}
