// What was asked for, to the one variant that runs here.
import { EdgeError } from './errors.js';
import { download } from './download.js';
import { variantsIn } from './manifest.js';
import { resolve } from './platform.js';

const DEVICES = ['webgpu', 'wasm'];

/** The smallest modules that use a feature: an engine either takes them or not. */
const PROBES = {
  // (func (result v128) i32.const 0 i8x16.splat)
  simd128: [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11],
};

/** The features of WebAssembly that this engine has, by LLVM's names for them. */
export function features() {
  return new Set(Object.keys(PROBES).filter((name) => WebAssembly.validate(Uint8Array.from(PROBES[name]))));
}

/** The variants that a source stands for: `[{ url | bytes, needs, integrity, size, weights }]`. */
export async function variantsOf(source, { integrity, signal, weights, device }) {
  const variants = await found(source, { integrity, signal, device });
  return variants.map((variant) => {
    const file = variant.weights ?? (weights !== undefined ? { url: weights } : undefined);
    return file ? { ...variant, weights: placed(file) } : variant;
  });
}

/** A file with its address in full, or with its bytes. */
function placed({ url, ...file }) {
  const view = ArrayBuffer.isView(url);
  if (!view && !(url instanceof ArrayBuffer)) return { ...file, url: resolve(url) };
  return { ...file, bytes: view ? new Uint8Array(url.buffer, url.byteOffset, url.byteLength) : new Uint8Array(url) };
}

/** What a module alone is for, which only the caller can say. */
const alone = (device) => (device === 'gpu' ? { device: 'webgpu' } : {});

async function found(source, { integrity, signal, device }) {
  if (Array.isArray(source))
    return source.map((variant) => ({ ...variant, url: resolve(variant.url) }));
  if (source instanceof ArrayBuffer) return [{ bytes: new Uint8Array(source), integrity, ...alone(device) }];
  if (ArrayBuffer.isView(source)) {
    const { buffer, byteOffset, byteLength } = source;
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    return [{ bytes, integrity, ...alone(device) }];
  }
  if (typeof source !== 'string' && !(source instanceof URL))
    throw new EdgeError('INVALID_ARGUMENT', 'load takes a URL, the bytes of a module, or a list of variants');
  const url = resolve(source);
  if (!/\.json(\?|#|$)/.test(url)) return [{ url, integrity, ...alone(device) }];
  return variantsIn(await download(url, { integrity, signal }), url);
}

export const nameOf = (variant) => variant.name ?? variant.url ?? 'the module';

/**
 * The variants that may run here, best first; why others do not is added to `refused` as they come.
 * `device` is `gpu` or `wasm` where the caller wants no other.
 */
export function* choices(variants, refused, device, have = features()) {
  if (![undefined, 'gpu', 'wasm'].includes(device))
    throw new EdgeError('INVALID_ARGUMENT', `device must be 'gpu' or 'wasm', not ${device}`);
  for (const variant of variants) {
    const runs = variant.device ?? 'wasm';
    const missing = (variant.needs ?? []).filter((feature) => !have.has(feature));
    if (!DEVICES.includes(runs)) refused.push(`${nameOf(variant)} is for ${runs}`);
    else if (device && (runs === 'webgpu') !== (device === 'gpu')) refused.push(`${nameOf(variant)} is for ${runs}`);
    else if (missing.length) refused.push(`${nameOf(variant)} needs ${missing.join(', ')}`);
    else yield variant;
  }
}

export const noneRuns = (refused) => new EdgeError('UNSUPPORTED',
  `no variant of the module runs here: ${refused.join('; ') || 'there is none'}`);
