// What edgert imports beside its kernels.

/** What edgert needs of a system: it reads no files and never ends, so nothing of this happens. */
const system = new Proxy({}, {
  get: (_, name) => (...words) => {
    if (name === 'proc_exit') throw new Error(`edgert ended with ${words[0]}`);
    return 8; // no such file
  },
});

/** All that a build of edgert imports, where `edgert` and `env` are given. */
export function importsOf(module, given) {
  const imports = { ...given };
  for (const { module: from, name } of WebAssembly.Module.imports(module))
    if (!(from in given)) (imports[from] ??= {})[name] = system[name];
  return imports;
}

/** What edgert's build with threads imports for them; `blocks`: whether it may sleep here. */
export const waiting = (memory, blocks) => ({
  now: () => performance.now(),
  wait(place, seen) {
    const numbers = new Int32Array(memory.buffer); // new each time: memory may have grown
    const at = place >>> 2;
    if (blocks) Atomics.wait(numbers, at, seen);
    else for (let i = 0; i < 1000 && Atomics.load(numbers, at) === seen; ++i);
  },
});
