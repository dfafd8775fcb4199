// Functions of a module as functions of JavaScript, wherever it runs.
import { EdgeError } from './errors.js';
import { Session } from './edgert.js';
import { fromTensor, toTensor } from './tensors.js';
import { threadCount } from './threads.js';
import { forgotten } from './workers.js';

/** What a model has of its own; functions by these names are called through `functions`. */
const OWN = ['constructor', 'functions', 'call', 'close', 'closed', 'variant', 'threads', 'memory', 'then'];

export class Model {
  #backend;

  /** A `backend` has `functions`, `variant`, `threads`, `call(index, inputs)`, `memory()` and `close()`. */
  constructor(backend) {
    this.#backend = backend;
    this.variant = backend.variant;
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

/** A module that runs where it was loaded; nothing else runs there meanwhile. */
export async function local(files, variant, options) {
  let session = await open(files, options);
  const { functions, threads, stop } = session;
  const outputs = new Map(functions.map((signature) => [signature.index, signature.outputs]));
  const backend = {
    functions,
    variant,
    threads,
    async call(index, inputs) {
      return session.call(index, inputs, outputs.get(index));
    },
    async memory() {
      return session.memory;
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

/** With as many threads as were asked for; who did not ask gets one where more cannot be had. */
async function open(files, { threads, ...options } = {}) {
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
