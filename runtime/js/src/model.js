// Functions of a module as functions of JavaScript, wherever it runs.
import { EdgeError } from './errors.js';
import { Session } from './edgert.js';
import { fetchVariant } from './fetching.js';
import { prove, read } from './prove.js';
import { fromTensor, toTensor } from './tensors.js';
import { threadCount } from './threads.js';
import { forgotten } from './workers.js';

/** What a model has of its own; functions by these names are called through `functions`. */
const OWN = ['constructor', 'functions', 'call', 'close', 'closed', 'variant', 'device', 'passedOver',
  'threads', 'memory', 'attribute', 'prove', 'state', 'then'];

const RIGHT = 'right';

/** What computes: another version may compute otherwise. */
const agent = () => globalThis.navigator?.userAgent ?? globalThis.process?.version;

const placeOf = ({ device, threads }) => (device === 'wasm' ? threads : device);

export class Model {
  #backend;

  /**
   * A `backend` has `functions`, `states`, `variant`, `device`, `threads`, `call(index, inputs)`, `memory()`,
   * `attribute(key)`, `prove()` and `close()`; `passedOver` says why variants before it were not taken.
   */
  constructor(backend, passedOver = []) {
    this.#backend = backend;
    this.variant = backend.variant;
    this.device = backend.device;
    this.passedOver = passedOver;
    this.threads = backend.threads;
    this.functions = Object.create(null);
    for (const signature of backend.functions) {
      const call = (...given) => this.#call(signature, given);
      Object.defineProperty(call, 'name', { value: signature.name });
      call.inputs = signature.inputs;
      call.outputs = signature.outputs;
      this.functions[signature.name] = call;
      if (!OWN.includes(signature.name)) this[signature.name] = call;
    }
  }

  /** Call a function by its name. */
  async call(name, ...given) {
    const called = this.functions[name];
    if (called) return called(...given);
    throw new EdgeError('NOT_FOUND',
      `the module has no function ${name}; it has ${Object.keys(this.functions).join(', ')}`);
  }

  /** Give all memory back; calls that wait fail. Without it the garbage collector will. */
  close() {
    this.#backend?.close();
    this.#backend = undefined;
  }

  get closed() {
    return !this.#backend;
  }

  /** Bytes of WebAssembly memory in use. */
  async memory() {
    return this.#open().memory();
  }

  /**
   * What the module keeps between calls, as others of its kind take it: `specs`, `get()` and `set(tensors)`
   * of `{ dtype, shape, data }` each; undefined where it keeps nothing.
   */
  get state() {
    const backend = this.#open();
    if (!backend.states) return undefined;
    const { get, set, specs } = backend.states;
    return { specs, get: () => backend.call(get, []), set: (tensors) => backend.call(set, tensors) };
  }

  /** An attribute of the module, such as `edgec.text.form`; undefined where it has none of that name. */
  async attribute(key) {
    return this.#open().attribute(key);
  }

  /**
   * Make the golden calls that the module brings here, and compare; fails with `WRONG_ANSWER`. `store`
   * has `get(key)` and `set(key, value)`, of strings, for what came of it.
   */
  async prove({ store } = {}) {
    const backend = this.#open();
    const key = store && backend.identity && `edgec-proof ${backend.identity} ${placeOf(backend)} ${agent()}`;
    const found = key ? await store.get(key) : undefined;
    if (found === RIGHT) return { kept: true };
    if (found) throw new EdgeError('WRONG_ANSWER', `${found} (found before)`);
    const keep = (said) => (key ? store.set(key, said) : undefined);
    try {
      const proof = await backend.prove();
      await keep(RIGHT);
      return { ...proof, kept: false };
    } catch (error) {
      if (error.code === 'WRONG_ANSWER') await keep(error.message);
      throw error;
    }
  }

  #open() {
    if (!this.#backend) throw new EdgeError('CLOSED', 'the model is closed');
    return this.#backend;
  }

  async #call({ index, name, inputs, outputs }, given) {
    const backend = this.#open();
    const values = positions(name, inputs, given);
    const sizes = new Map();
    const tensors = inputs.map((spec, i) => ({
      ...toTensor(values[i], spec, `${name}: the input ${spec.name}`, sizes),
      value: spec.value,
    }));
    const found = await backend.call(index, tensors);
    const results = {};
    outputs.forEach((spec, i) => { results[spec.name] = fromTensor(found[i]); });
    // `const [logits] = await model.main(image)`
    Object.defineProperty(results, Symbol.iterator, {
      value: () => outputs.map((spec) => results[spec.name])[Symbol.iterator](),
    });
    return results;
  }
}

if (Symbol.dispose) Model.prototype[Symbol.dispose] = Model.prototype.close;

/** The values in the order of the inputs, from one object with their names or one by one. */
function positions(name, inputs, given) {
  const takes = `${name}(${inputs.map((spec) => spec.name).join(', ')})`;
  const fail = (problem) => { throw new EdgeError('INVALID_ARGUMENT', `${takes} ${problem}`); };
  const [first] = given;
  const named = given.length === 1 && typeof first === 'object' && first !== null
    && !Array.isArray(first) && !ArrayBuffer.isView(first);
  if (!named) {
    if (given.length !== inputs.length) fail(`takes ${inputs.length} values and was given ${given.length}`);
    return given;
  }
  const unknown = Object.keys(first).filter((key) => !inputs.some((spec) => spec.name === key));
  if (unknown.length) fail(`does not take ${unknown.join(', ')}`);
  const missing = inputs.filter((spec) => first[spec.name] === undefined).map((spec) => spec.name);
  if (missing.length) fail(`was not given ${missing.join(', ')}`);
  return inputs.map((spec) => first[spec.name]);
}

/** A variant that runs where it was loaded; on the CPU nothing else runs there meanwhile. */
export async function local(variant, { progress, cache, signal, ...given }) {
  const gpu = await gpuFor(variant, given);
  try {
    const files = await fetchVariant(variant, { progress, cache, signal });
    const options = { ...given, gpu };
    return backendOf(await open(files, options), files, variant, options);
  } catch (error) {
    gpu?.close();
    throw error;
  }
}

/** The page's GPU for a variant that runs there; others load nothing of what it takes. */
async function gpuFor({ device }, { software }) {
  if (device !== 'webgpu') return undefined;
  const { Gpu } = await import('./webgpu.js');
  return Gpu.open({ software });
}

function backendOf(opened, files, { name: variant, integrity: identity, device: kind }, options) {
  let session = opened;
  const { functions, threads, device, stop, golden, states } = session;
  const fresh = golden && isStateful(golden) ? again(files, kind, options) : undefined;
  const outputs = new Map(functions.map((signature) => [signature.index, signature.outputs]));
  if (states) outputs.set(states.get, states.specs).set(states.set, []);
  const backend = {
    functions,
    states,
    variant,
    device,
    threads,
    async call(index, inputs) {
      return session.call(index, inputs, outputs.get(index));
    },
    async memory() {
      return session.memory;
    },
    async attribute(key) {
      return session.attribute(key);
    },
    identity,
    async prove() {
      if (!golden) throw new EdgeError('NOT_FOUND', 'the module brings no golden calls: package it again');
      const proved = fresh ? await fresh() : session;
      try {
        return await prove(read(golden), async (name, inputs) => {
          const { index, outputs: specs } = functions.find((signature) => signature.name === name);
          return { outputs: specs, results: await proved.call(index, inputs, specs) };
        });
      } finally {
        if (fresh) proved.stop();
      }
    },
    close() {
      session = undefined; // and with it the instance, its memory and its kernels
      forgotten.unregister(backend);
      stop();
    },
  };
  forgotten.register(backend, stop, backend);
  return backend;
}

/** Opens the same once more; keeps the files. */
const again = (files, device, options) => async () => (
  open(files, { ...options, gpu: await gpuFor({ device }, options) }));

/** Damaged texts are refused when they are needed. */
function isStateful(golden) {
  try {
    return read(golden).state === 1;
  } catch {
    return false;
  }
}

/** With as many threads as were asked for; who did not ask gets one where more cannot be had. */
async function open(files, { threads, ...options }) {
  if (options.gpu) return Session.create(files, options);
  const moved = options.wasm !== undefined && options.wasmThreads === undefined;
  const count = await threadCount(threads === undefined && moved ? 1 : threads);
  if (count > 1) {
    try {
      return await Session.create(files, { ...options, threads: count });
    } catch (error) {
      if (threads !== undefined) throw error;
    }
  }
  return Session.create(files, options);
}
