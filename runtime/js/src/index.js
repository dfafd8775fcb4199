// edgec-runtime: modules (`.vmfb`) that edgec compiled for WebAssembly, in browsers and in node.
//
//     import { load } from 'edgec-runtime';
//     const model = await load('digits.vmfb');
//     const { logits } = await model.main({ image });
import { EdgeError } from './errors.js';
import { fetchVariant } from './fetching.js';
import { Model, local } from './model.js';
import { resolve } from './platform.js';
import { remote } from './remote.js';
import { tensor } from './tensors.js';
import { choices, features, nameOf, noneRuns, variantsOf } from './variants.js';

export { EdgeError, Model, features, tensor };

/** Load a module, from wherever it is; see index.d.ts for the options. */
export async function load(source, options = {}) {
  const refused = [];
  for (const variant of choices(await variantsOf(source, options), refused)) {
    const model = await open(variant, options);
    if (!options.prove) return model;
    try {
      await model.prove(options.prove === true ? {} : options.prove);
      return model;
    } catch (error) {
      model.close();
      if (error.code !== 'WRONG_ANSWER') throw error;
      refused.push(`${nameOf(variant)} computes wrong answers: ${error.message}`);
    }
  }
  throw noneRuns(refused);
}

async function open(variant, options) {
  const { worker, progress, cache, signal, threads } = options;
  const [wasm, wasmThreads] = [options.wasm, options.wasmThreads].map((place) => (
    typeof place === 'string' || place instanceof URL ? resolve(place) : place));
  const runtime = { wasm, wasmThreads, threads };
  if (worker) return new Model(await remote(variant, { progress, cache, signal, ...runtime }));
  const files = await fetchVariant(variant, { progress, cache, signal });
  return new Model(await local(files, variant, runtime));
}
