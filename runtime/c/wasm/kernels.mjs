// Kernels of modules for WebAssembly: what a page or node has to give edgert so that it can load
// them. A module's kernels are a WebAssembly module of their own that shares edgert's memory and
// table of functions.
//
//     import { Kernels } from './kernels.mjs';
//     const kernels = new Kernels();
//     const imports = { ...others, edgert: kernels.imports };
//     const { instance } = await WebAssembly.instantiate(bytes, imports);
//     kernels.attach(instance);
//
// Threads are instances of edgert on one shared memory; each loads what the first has `loaded`:
//
//     await joinKernels(instance, kernels.loaded);
//
// edgert must be linked with `--export-table --growable-table --export=__stack_pointer`, and with
// `--export` for the functions of the C library that kernels may call: `LIBRARY` in
// toolchain/edgec.toolchain.linker.py.

import { withSharedMemory } from './shared.mjs';

/** Fields of the custom section `dylink.0` that say what a module needs: bytes and functions. */
function needs(module) {
  const [section] = WebAssembly.Module.customSections(module, 'dylink.0');
  if (!section) throw new Error('no side module');
  const bytes = new Uint8Array(section);
  let at = 0;
  const number = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value |= (byte & 127) << shift;
      if (byte < 128) return value >>> 0;
    }
  };
  while (at < bytes.length) {
    const kind = bytes[at++];
    const end = number() + at;
    if (kind === 1) return { size: number(), align: number(), functions: number() };
    at = end;
  }
  return { size: 0, align: 0, functions: 0 };
}

/** What a module of kernels imports: edgert, its own bytes of memory, its own places in the table. */
const importsOf = (edgert, memory, first) => ({
  env: {
    ...edgert, // memory, the table, the stack's pointer, and functions of the C library
    __memory_base: new WebAssembly.Global({ value: 'i32', mutable: false }, memory),
    __table_base: new WebAssembly.Global({ value: 'i32', mutable: false }, first),
  },
});

/** Fill in what the linker left to whoever knows the bases. */
function relocate({ exports }) {
  exports.__wasm_apply_data_relocs?.();
  exports._initialize?.();
}

/**
 * Load the kernels of one instance of edgert into another on the same memory. Functions go to the
 * same places of its table, so that edgert's pointers mean the same in both. The kernels' bytes are
 * written again: no kernel may run meanwhile.
 */
export async function joinKernels({ exports: edgert }, loaded) {
  const table = edgert.__indirect_function_table;
  for (const { module, memory, first, functions } of loaded) {
    table.grow(Math.max(0, first + functions - table.length));
    relocate(await WebAssembly.instantiate(module, importsOf(edgert, memory, first)));
  }
}

export class Kernels {
  #exports = null;
  #ahead;
  #shared;
  #wanted = null;
  #ready = new Map(); // instantiated and not used yet: what of edgert's memory it came from → query
  #loaded = new Map();

  /** Why kernels could not be loaded, the last time. */
  failure = null;

  /**
   * `ahead`: do not compile while edgert waits, which would hold up a page and is forbidden to it
   * where modules are large. Creating a session then fails as long as `prepare()` has work:
   *
   *     do status = edgert_session_create(...); while (await kernels.prepare());
   *
   * `shared`: edgert's memory is shared by threads.
   */
  constructor({ ahead = false, shared = false } = {}) {
    this.#ahead = ahead;
    this.#shared = shared;
  }

  /** What edgert imports under the name `edgert`. */
  imports = {
    load_kernels: (data, size) => {
      const place = `${data >>> 0}+${size >>> 0}`;
      const query = this.#ready.get(place);
      if (query !== undefined) {
        this.#ready.delete(place);
        return query;
      }
      try {
        const bytes = new Uint8Array(this.#exports.memory.buffer, data >>> 0, size >>> 0).slice();
        if (!this.#ahead) return this.#load(place, bytes);
        this.#wanted = { place, bytes };
      } catch (error) {
        this.failure = error;
      }
      return 0; // edgert makes a status of it
    },
    unload_kernels: (query) => {
      // A session that failed only since the next kernels are not there yet gets these again.
      if (this.#wanted) this.#ready.set(this.#loaded.get(query).place, query);
      else this.#unload(query);
    },
  };

  /** Say which instance of edgert this is for, before anything is loaded. */
  attach(instance) {
    this.#exports = instance.exports;
  }

  /** What is loaded now, for `joinKernels`; can be posted to workers. */
  get loaded() {
    return [...this.#loaded.values()].map(({ module, memory, first, count }) => (
      { module, memory, first, functions: count - 1 }));
  }

  /** Load what edgert asked for in vain; whether there was anything. */
  async prepare() {
    if (!this.#wanted) return false;
    const { place, bytes } = this.#wanted;
    this.#wanted = null;
    try {
      const module = await WebAssembly.compile(this.#compilable(bytes));
      const room = this.#room(module);
      const instance = await WebAssembly.instantiate(module, room.imports);
      this.#ready.set(place, this.#finish(place, room, instance));
    } catch (error) {
      this.failure = error;
      return false;
    }
    return true;
  }

  #load(place, bytes) {
    const module = new WebAssembly.Module(this.#compilable(bytes));
    const room = this.#room(module);
    return this.#finish(place, room, new WebAssembly.Instance(module, room.imports));
  }

  #compilable(bytes) {
    return this.#shared ? withSharedMemory(bytes) : bytes;
  }

  /** Memory and places in the table of functions for a module, and what it imports with them. */
  #room(module) {
    const edgert = this.#exports;
    const { size, align, functions } = needs(module);
    const table = edgert.__indirect_function_table;
    const memory = edgert.edgert_kernels_allocate(size, 1 << align);
    if (!memory) throw new Error('out of memory');
    new Uint8Array(edgert.memory.buffer, memory, size).fill(0);
    const first = table.grow(functions + 1);
    return { module, imports: importsOf(edgert, memory, first), memory, first, functions };
  }

  #finish(place, { module, memory, first, functions }, instance) {
    relocate(instance);
    const query = first + functions;
    const table = this.#exports.__indirect_function_table;
    table.set(query, instance.exports.iree_hal_executable_library_query);
    this.#loaded.set(query, { place, module, memory, first, count: functions + 1 });
    return query;
  }

  #unload(query) {
    const { memory, first, count } = this.#loaded.get(query);
    const table = this.#exports.__indirect_function_table;
    for (let i = 0; i < count; ++i) table.set(first + i, null);
    this.#exports.edgert_kernels_release(memory);
    this.#loaded.delete(query);
  }
}
