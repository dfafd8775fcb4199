// A chosen variant to its bytes, from where it is or as it was given.
import { EdgeError } from './errors.js';
import { check, download } from './download.js';
import { parseIntegrity } from './sha256.js';

export async function fetchVariant({ url, bytes, integrity, size }, { progress, cache, signal } = {}) {
  if (!bytes) return download(url, { integrity, size, progress, cache, signal });
  if (integrity !== undefined) {
    const hash = parseIntegrity(integrity);
    if (!hash) throw new EdgeError('INVALID_ARGUMENT', `"${integrity}" is no SHA-256`);
    await check(bytes, hash, 'the module');
  }
  return bytes;
}
