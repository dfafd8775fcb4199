// A chosen variant to its bytes and those of its weights, from where they are or as they were given.
import { EdgeError } from './errors.js';
import { check, download } from './download.js';
import { checkSeal } from './seal.js';
import { parseIntegrity } from './sha256.js';

/** `{ bytes, weights }`; a module that has its weights inside comes without. */
export async function fetchVariant(variant, { progress, cache, signal, key } = {}) {
  const found = await fetchFiles(variant, { progress, cache, signal });
  if (key !== undefined) await checkSeal(found.bytes, found.weights, key);
  return found;
}

async function fetchFiles(variant, { progress, cache, signal }) {
  const { weights } = variant;
  if (!weights) return { bytes: await fetchFile(variant, { progress, cache, signal }) };
  const told = joined([variant, weights], progress);
  const [bytes, shared] = await Promise.all([variant, weights].map((file, i) => (
    fetchFile(file, { progress: told?.[i], cache, signal }))));
  return { bytes, weights: shared };
}

/** What tells of each of several downloads, told as one. */
function joined(files, progress) {
  if (!progress) return undefined;
  const states = files.map(({ size, bytes }) => ({ loaded: 0, total: size ?? bytes?.length }));
  return files.map((_, i) => ({ loaded, total, source }) => {
    states[i] = { loaded, total: total ?? states[i].total };
    const totals = states.map((state) => state.total);
    progress({
      loaded: states.reduce((sum, state) => sum + state.loaded, 0),
      total: totals.includes(undefined) ? undefined : totals.reduce((sum, each) => sum + each),
      source,
    });
  });
}

async function fetchFile({ url, bytes, integrity, size }, { progress, cache, signal }) {
  if (!bytes) return download(url, { integrity, size, progress, cache, signal });
  if (integrity !== undefined) {
    const hash = parseIntegrity(integrity);
    if (!hash) throw new EdgeError('INVALID_ARGUMENT', `"${integrity}" is no SHA-256`);
    await check(bytes, hash, 'the module');
  }
  return bytes;
}
