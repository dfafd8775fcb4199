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
// edgert must be linked with `--export-table --growable-table --export=__stack_pointer`.

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

const pick = (a, b, chosen) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : chosen(a, b));

/** What compiled kernels call of the C library, beside the instructions of WebAssembly. */
const library = {
  fmaxf: (a, b) => pick(a, b, Math.max),
  fminf: (a, b) => pick(a, b, Math.min),
  fmax: (a, b) => pick(a, b, Math.max),
  fmin: (a, b) => pick(a, b, Math.min),
};

export class Kernels {
  #exports = null;
  #loaded = new Map();

  /** What edgert imports under the name `edgert`. */
  imports = {
    load_kernels: (data, size) => {
      try {
        return this.#load(data >>> 0, size >>> 0);
      } catch {
        return 0; // edgert makes a status of it
      }
    },
    unload_kernels: (query) => this.#unload(query),
  };

  /** Say which instance of edgert this is for, before anything is loaded. */
  attach(instance) {
    this.#exports = instance.exports;
  }

  #load(data, size) {
    const edgert = this.#exports;
    const bytes = new Uint8Array(edgert.memory.buffer, data, size).slice();
    const module = new WebAssembly.Module(bytes);
    const { size: room, align, functions } = needs(module);
    const table = edgert.__indirect_function_table;
    const memory = edgert.edgert_kernels_allocate(room, 1 << align);
    if (!memory) return 0;
    new Uint8Array(edgert.memory.buffer, memory, room).fill(0);
    const first = table.grow(functions + 1);
    const instance = new WebAssembly.Instance(module, {
      env: {
        ...library,
        memory: edgert.memory,
        __indirect_function_table: table,
        __stack_pointer: edgert.__stack_pointer,
        __memory_base: new WebAssembly.Global({ value: 'i32', mutable: false }, memory),
        __table_base: new WebAssembly.Global({ value: 'i32', mutable: false }, first),
      },
    });
    instance.exports.__wasm_apply_data_relocs?.();
    instance.exports._initialize?.();
    const query = first + functions;
    table.set(query, instance.exports.iree_hal_executable_library_query);
    this.#loaded.set(query, { memory, first, count: functions + 1 });
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
