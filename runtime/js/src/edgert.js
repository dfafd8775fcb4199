// edgert in WebAssembly: one instance a model, so that all memory of a model goes with it.
import { EdgeError, asEdgeError, codeOf } from './errors.js';
import { importsOf } from './imports.js';
import { Kernels } from './kernels.mjs';
import { inNode, isFile, readFile } from './platform.js';
import { arrayOf, typeName, typeNumber } from './tensors.js';
import { Team } from './threads.js';

// Sizes and places in edgert.h's structures, where a pointer has 32 bits.
const ERROR = { size: 256, message: 4 };
const OPTIONS = { size: 8, threads: 4 }; // as far as they are not left at their defaults
const VALUE = { size: 16, as: 8 };
const SCOPE = { size: 8, weights: 4 };
const SESSION = { size: 56, scopes: 20, count: 24 }; // as far as they are not left at their defaults
const ARGUMENT = { size: 208, type: 4, rank: 8, shape: 16, name: 144 };
const MAX_RANK = 16;
const KINDS = { 1: 'tensor', 2: 'i32', 3: 'i64', 4: 'f32', 5: 'f64' };
const NONE = 0xffffffff; // SIZE_MAX
const PENDING = -14;
const DAMAGED = 'the module crashed, and can be called no more: load it again';

const compiled = {};

/** A build of edgert, compiled once for all models. `source` is a URL or bytes, given the first time. */
export function compile(build, source) {
  compiled[build] ??= compileFrom(source).catch((error) => {
    compiled[build] = undefined;
    throw asEdgeError(error, 'DOWNLOAD', `cannot load the runtime, ${source}`);
  });
  return compiled[build];
}

const plain = (wasm = new URL('./edgert.wasm', import.meta.url)) => compile('plain', wasm);
const threaded = (wasm = new URL('./edgert-threads.wasm', import.meta.url)) => compile('threaded', wasm);

async function compileFrom(source) {
  if (typeof source !== 'string' && !(source instanceof URL)) return WebAssembly.compile(source);
  const url = String(source);
  if (isFile(url)) return WebAssembly.compile(await readFile(url));
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const streams = response.headers.get('content-type')?.startsWith('application/wasm') && !inNode;
  return streams ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

const nothing = () => {};

/** What steps give at their end, with a wait for whatever they yield. */
async function inTurn(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await value;
  }
}

/** A module on edgert's CPU device. Everything is synchronous but making one. */
export class Session {
  #c;
  #kernels;
  #error;
  #session;
  #device;
  #module;
  #gpu;
  #last = Promise.resolve(); // the call on a GPU that was made last
  #broken = false;

  /** How many threads compute, the caller's among them. */
  threads = 1;

  /** What computes: `wasm`, or a GPU's name. */
  device = 'wasm';

  /** Ends the other threads; nothing may be called any more. Does not hold the session. */
  stop = nothing;

  /**
   * `bytes` of a `.vmfb` and of the `weights` that it keeps outside, which are copied. More than
   * one thread takes shared memory. `gpu` is a `Gpu` for a module that has its kernels there.
   */
  static async create({ bytes, weights }, { wasm, wasmThreads, threads = 1, gpu } = {}) {
    const self = new Session();
    const team = threads > 1 ? new Team(threads) : undefined;
    try {
      const module = await (team ? threaded(wasmThreads) : plain(wasm));
      self.#kernels = new Kernels({ ahead: true, shared: !!team });
      const instance = await WebAssembly.instantiate(module, importsOf(module, {
        ...(team && { env: { memory: team.memory } }),
        edgert: { ...self.#kernels.imports, ...team?.imports },
        ...(gpu && { webgpu: gpu.imports }),
      }));
      self.#c = instance.exports;
      self.#kernels.attach(instance);
      self.#gpu = gpu;
      gpu?.attach(instance);
      self.#c._initialize();
      await self.#open(bytes, weights, threads);
      await team?.begin(module, instance, self.#kernels.loaded);
    } catch (error) {
      team?.stop();
      throw error;
    }
    self.threads = threads;
    if (team) self.stop = team.stop;
    if (gpu) {
      self.device = gpu.name;
      self.stop = gpu.close;
    }
    return self;
  }

  /** `{ name, inputs, outputs }` of each function, in the module's order. */
  get functions() {
    const c = this.#c;
    const found = [];
    for (let index = 0; index < c.edgert_module_function_count(this.#module); ++index) {
      const name = this.#text(c.edgert_module_function_name(this.#module, index));
      if (name.startsWith('edgec_') || name.endsWith('$async')) continue;
      found.push({ index, name, ...this.#signature(index) });
    }
    return found;
  }

  /** The functions that give and take all that the module keeps between calls; undefined: it keeps nothing. */
  get states() {
    const c = this.#c;
    const found = {};
    for (let index = 0; index < c.edgert_module_function_count(this.#module); ++index) {
      const name = this.#text(c.edgert_module_function_name(this.#module, index));
      if (name === 'edgec_get_state') found.get = index;
      if (name === 'edgec_set_state') Object.assign(found, { set: index, specs: this.#signature(index).inputs });
    }
    return found.get === undefined || !found.specs ? undefined : found;
  }

  /** The golden calls that the module brings, as text; undefined where there are none. */
  get golden() {
    return this.attribute('edgec.golden');
  }

  /** An attribute of the module; undefined where it has none of that name. */
  attribute(key) {
    const text = this.#c.edgert_module_attribute(this.#module, NONE, this.#put(key));
    return text ? this.#text(text) : undefined;
  }

  /**
   * Call a function with `{ dtype, shape, data }` for each input; the same for each output. On a GPU
   * a promise of them, and one call after the other.
   */
  call(index, inputs, outputs) {
    if (!this.#gpu) {
      const steps = this.#guarded(this.#steps(index, inputs, outputs));
      return steps.next().value; // without a GPU nothing waits
    }
    const called = this.#last.then(() => this.#later(index, inputs, outputs));
    this.#last = called.catch(nothing);
    return called;
  }

  /** A call, with a wait for the GPU wherever it comes to one. */
  #later(index, inputs, outputs) {
    return inTurn(this.#guarded(this.#steps(index, inputs, outputs)));
  }

  /** Steps of a call that may wait for the GPU in its midst, and then goes on: its status at its end. */
  * #finished(status, results, count) {
    let found = status;
    while (found === PENDING) {
      yield this.#gpu.settled();
      found = this.#c.edgert_session_resume(this.#session, results, count, this.#error);
    }
    return found;
  }

  /** The same steps; what is no failure of edgert's ends all calls. */
  * #guarded(steps) {
    if (this.#broken) throw new EdgeError('DEVICE_FAILED', DAMAGED);
    try {
      return yield* steps;
    } catch (error) {
      if (error instanceof EdgeError) throw error;
      this.#broken = true; // a trap leaves edgert's own data half changed
      throw new EdgeError('DEVICE_FAILED', `${DAMAGED} (${error.message})`, { cause: error });
    }
  }

  /** Bytes of WebAssembly memory that this holds. */
  get memory() {
    return this.#c.memory.buffer.byteLength;
  }

  async #open(bytes, weights, threads) {
    const c = this.#c;
    const out = this.#allocate(4);
    const options = this.#allocate(OPTIONS.size);
    this.#error = this.#allocate(ERROR.size);
    this.#do(c.edgert_module_wrap(this.#file(bytes), bytes.length, 0, 0, 0, out, this.#error));
    this.#module = this.#word(out);
    this.#view.setUint32(options, OPTIONS.size, true);
    this.#view.setUint32(options + OPTIONS.threads, threads, true);
    const driver = this.#put(this.#gpu ? 'webgpu' : 'cpu');
    this.#do(c.edgert_device_create(driver, options, out, this.#error));
    this.#device = this.#word(out);
    const session = weights ? this.#scopes(weights, out) : 0;
    let status;
    do {
      const words = [this.#module, this.#device, session, out, this.#error];
      status = c.edgert_session_create(...words);
      this.#session = this.#word(out);
      status = await inTurn(this.#finished(status, 0, 0));
    } while (await this.#kernels.prepare());
    if (status && this.#kernels.failure)
      throw asEdgeError(this.#kernels.failure, codeOf(status), this.#message());
    this.#do(status);
    await this.#gpu?.ready();
  }

  /** A file's bytes in the memory of edgert, where they stay. */
  #file(bytes) {
    const place = this.#allocate(Math.max(bytes.length, 1), 64);
    this.#bytes(place, bytes.length).set(bytes);
    return place;
  }

  /** Options of a session that has these weights. */
  #scopes(weights, out) {
    const c = this.#c;
    this.#do(c.edgert_weights_wrap(this.#file(weights), weights.length, 0, 0, 0, out, this.#error));
    const scope = this.#allocate(SCOPE.size);
    const options = this.#allocate(SESSION.size);
    this.#bytes(scope, SCOPE.size).fill(0);
    this.#bytes(options, SESSION.size).fill(0);
    const view = this.#view;
    view.setUint32(scope + SCOPE.weights, this.#word(out), true);
    view.setUint32(options, SESSION.size, true);
    view.setUint32(options + SESSION.scopes, scope, true);
    view.setUint32(options + SESSION.count, 1, true);
    return options;
  }

  #signature(index) {
    const c = this.#c;
    const text = c.edgert_module_attribute(this.#module, index, this.#put('edgec.signature'));
    if (text) {
      const { inputs, outputs } = JSON.parse(this.#text(text));
      return { inputs, outputs };
    }
    const list = (many, one, word) => {
      const place = this.#allocate(ARGUMENT.size);
      const found = Array.from({ length: many(this.#module, index) }, (_, i) => {
        this.#do(one(this.#module, index, i, place, this.#error));
        return this.#argument(place, `${word}${i}`);
      });
      c.free(place);
      return found;
    };
    return {
      inputs: list(c.edgert_module_input_count, c.edgert_module_input, 'input'),
      outputs: list(c.edgert_module_output_count, c.edgert_module_output, 'output'),
    };
  }

  #argument(place, fallback) {
    const view = this.#view;
    const kind = KINDS[view.getUint32(place, true)];
    const rank = view.getUint32(place + ARGUMENT.rank, true);
    const size = (i) => Number(view.getBigInt64(place + ARGUMENT.shape + 8 * i, true));
    const dtype = kind === 'tensor' ? typeName(view.getUint32(place + ARGUMENT.type, true)) : kind;
    return {
      name: this.#text(place + ARGUMENT.name) || fallback,
      dtype,
      shape: Array.from({ length: rank }, (_, i) => size(i)),
      ...(kind !== 'tensor' && { value: true }),
    };
  }

  /** A call's steps: it yields what it has to wait for on a GPU, and gives its outputs. */
  * #steps(index, inputs, outputs) {
    const c = this.#c;
    const tensors = [];
    const place = this.#allocate((inputs.length + outputs.length) * VALUE.size + 8 * MAX_RANK + 4);
    const results = place + inputs.length * VALUE.size;
    const scratch = results + outputs.length * VALUE.size;
    try {
      inputs.forEach((input, i) => this.#give(input, place + i * VALUE.size, scratch, tensors));
      const words = [this.#session, index, place, inputs.length, results, outputs.length, this.#error];
      this.#do(yield* this.#finished(c.edgert_session_call(...words), results, outputs.length));
      const places = outputs.map((_, i) => results + i * VALUE.size);
      places.forEach((each) => this.#note(each, tensors));
      if (this.#gpu) {
        // All are asked for before the first is waited for.
        while (places.map((each) => this.#arrives(each)).includes(false)) yield this.#gpu.settled();
      }
      return outputs.map((output, i) => this.#take(output, places[i]));
    } finally {
      if (!this.#broken) {
        tensors.forEach((tensor) => c.edgert_tensor_release(tensor));
        c.free(place);
      }
    }
  }

  /** Write an input as an `edgert_value`. */
  #give({ dtype, shape, data, value }, place, scratch, tensors) {
    const c = this.#c;
    if (value) {
      const kind = Object.keys(KINDS).find((number) => KINDS[number] === dtype);
      this.#view.setUint32(place, kind, true);
      this.#bytes(place + VALUE.as, data.byteLength).set(bytesOf(data));
      return;
    }
    const out = scratch + 8 * MAX_RANK;
    shape.forEach((size, i) => this.#view.setBigInt64(scratch + 8 * i, BigInt(size), true));
    this.#do(c.edgert_tensor_create(
      this.#device, typeNumber(dtype), shape.length, scratch, out, this.#error,
    ));
    const tensor = this.#word(out);
    tensors.push(tensor);
    if (this.#gpu) this.#send(tensor, bytesOf(data));
    else this.#bytes(c.edgert_tensor_data(tensor), data.byteLength).set(bytesOf(data));
    this.#view.setUint32(place, 1, true);
    this.#view.setUint32(place + VALUE.as, tensor, true);
  }

  /** Give a tensor on the GPU its elements. */
  #send(tensor, bytes) {
    const c = this.#c;
    const place = this.#allocate(Math.max(bytes.length, 1));
    try {
      this.#bytes(place, bytes.length).set(bytes);
      this.#do(c.edgert_tensor_write(tensor, place, bytes.length, this.#error));
    } finally {
      c.free(place);
    }
  }

  /** A tensor on the GPU, read: its bytes, or undefined as long as they are not there. */
  #read(tensor) {
    const c = this.#c;
    const size = Number(c.edgert_tensor_size(tensor));
    const place = this.#allocate(Math.max(size, 1));
    try {
      const status = c.edgert_tensor_read(tensor, place, size, this.#error);
      if (status === PENDING) return undefined;
      this.#do(status);
      return this.#copy(place, size);
    } finally {
      c.free(place);
    }
  }

  /** Whether an output can be read without waiting. */
  #arrives(place) {
    const isTensor = this.#word(place) === 1;
    return !isTensor || this.#read(this.#word(place + VALUE.as)) !== undefined;
  }

  /** A tensor among the outputs is to be released. */
  #note(place, tensors) {
    if (this.#word(place) === 1) tensors.push(this.#word(place + VALUE.as));
  }

  /** Read an output, copied, from an `edgert_value`. */
  #take({ dtype }, place) {
    const c = this.#c;
    const view = this.#view;
    const kind = KINDS[view.getUint32(place, true)];
    if (kind !== 'tensor') {
      const Kind = arrayOf(kind);
      const at = place + VALUE.as;
      return { dtype: kind, shape: [], data: new Kind(this.#copy(at, Kind.BYTES_PER_ELEMENT)) };
    }
    const tensor = view.getUint32(place + VALUE.as, true);
    const sizes = c.edgert_tensor_shape(tensor);
    const rank = c.edgert_tensor_rank(tensor);
    const shape = Array.from({ length: rank }, (_, i) => Number(view.getBigInt64(sizes + 8 * i, true)));
    const bytes = this.#gpu
      ? this.#read(tensor)
      : this.#copy(c.edgert_tensor_data(tensor), Number(c.edgert_tensor_size(tensor)));
    // The signature knows better than the tensor: code makes no difference of u8, i8 and bool.
    const type = dtype ?? typeName(c.edgert_tensor_type(tensor));
    return { dtype: type, shape, data: new (arrayOf(type))(bytes) };
  }

  #allocate(size, alignment = 16) {
    const place = this.#c.edgert_kernels_allocate(size, alignment);
    if (!place) throw new EdgeError('OUT_OF_MEMORY', `WebAssembly has no ${size} bytes left`);
    return place >>> 0;
  }

  /** A text that lives as long as this does; the few there are are put once. */
  #texts = new Map();
  #put(text) {
    if (!this.#texts.has(text)) {
      const bytes = new TextEncoder().encode(`${text}\0`);
      const place = this.#allocate(bytes.length);
      this.#bytes(place, bytes.length).set(bytes);
      this.#texts.set(text, place);
    }
    return this.#texts.get(text);
  }

  #text(place) {
    const bytes = new Uint8Array(this.#c.memory.buffer, place >>> 0);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  #bytes(place, size) {
    return new Uint8Array(this.#c.memory.buffer, place >>> 0, size);
  }

  /** A buffer of its own, where edgert's may be shared. */
  #copy(place, size) {
    return this.#bytes(place, size).slice().buffer;
  }

  /** Memory may have grown since the last look, which takes away the old view. */
  get #view() {
    return new DataView(this.#c.memory.buffer);
  }

  #word(place) {
    return this.#view.getUint32(place, true);
  }

  #message() {
    return this.#text(this.#error + ERROR.message);
  }

  #do(status) {
    if (status) throw new EdgeError(codeOf(status), this.#message());
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);
