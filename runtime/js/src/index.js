// edgec-runtime: modules (`.vmfb`) that edgec compiled for WebAssembly, in browsers and in node.
//
//     import { load } from 'edgec-runtime';
//     const model = await load('digits.vmfb');
//     const { logits } = await model.main({ image });
import { EdgeError } from './errors.js';
import { Model, local } from './model.js';
import { resolve } from './platform.js';
import { remote } from './remote.js';
import { tensor } from './tensors.js';
import { choices, features, nameOf, noneRuns, variantsOf } from './variants.js';

export { EdgeError, Model, features, tensor };

const GPU_REFUSALS = ['UNSUPPORTED', 'DEVICE_FAILED', 'OUT_OF_MEMORY'];

/** Load a module, from wherever it is; see index.d.ts for the options. */
export async function load(source, options = {}) {
  const refused = [];
  for (const variant of choices(await variantsOf(source, options), refused, options.device)) {
    let model;
    try {
      model = await open(variant, options, refused);
    } catch (error) {
      // What a GPU refuses the next variant may run; a download that fails is no such thing.
      if (variant.device !== 'webgpu' || !GPU_REFUSALS.includes(error.code)) throw error;
      refused.push(`${nameOf(variant)}: ${error.message}`);
      continue;
    }
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

async function open(variant, options, refused) {
  const { worker, progress, cache, signal, threads, device, key } = options;
  const [wasm, wasmThreads] = [options.wasm, options.wasmThreads].map((place) => (
    typeof place === 'string' || place instanceof URL ? resolve(place) : place));
  const given = { progress, cache, signal, key, wasm, wasmThreads, threads, software: device === 'gpu' };
  return new Model(await (worker ? remote(variant, given) : local(variant, given)), refused);
}
