// A URL to its bytes: streamed, with progress, kept in the Cache API and checked by SHA-256.
import { EdgeError, asEdgeError } from './errors.js';
import { isFile, readFile } from './platform.js';
import { parseIntegrity, sha256 } from './sha256.js';

const CACHE = 'edgec-modules';

/**
 * The bytes of `url`, whole and right.
 *
 * Only what has an `integrity` is kept, since nobody could tell whether something else is stale;
 * for that there is the browser's own HTTP cache.
 */
export async function download(url, { integrity, size, progress, cache = true, signal } = {}) {
  const hash = integrity === undefined ? undefined : parseIntegrity(integrity);
  if (integrity !== undefined && !hash)
    throw new EdgeError('INVALID_ARGUMENT',
      `integrity must be "sha256-" and base64, or 64 hexadecimal digits, not "${integrity}"`);
  if (isFile(url)) return fromFile(url, hash, progress);
  const kept = cache && hash ? await openCache() : undefined;
  const key = `${url}${url.includes('?') ? '&' : '?'}edgec-sha256=${hash}`;
  const found = await kept?.match(key).catch(() => undefined);
  if (found) {
    const bytes = new Uint8Array(await found.arrayBuffer());
    if ((await sha256(bytes)) === hash) {
      progress?.({ loaded: bytes.length, total: bytes.length, source: 'cache' });
      return bytes;
    }
    await kept.delete(key); // damaged on the disk
  }
  const bytes = await fetchAll(url, size, progress, signal);
  await check(bytes, hash, url);
  if (kept) await keep(kept, url, key, bytes);
  return bytes;
}

async function fromFile(url, hash, progress) {
  let bytes;
  try {
    bytes = await readFile(url);
  } catch (error) {
    throw new EdgeError(error.code === 'ENOENT' ? 'NOT_FOUND' : 'IO',
      `cannot read ${url}: ${error.message}`, { cause: error });
  }
  progress?.({ loaded: bytes.length, total: bytes.length, source: 'file' });
  await check(bytes, hash, url);
  return bytes;
}

export async function check(bytes, hash, url) {
  if (!hash) return;
  const actual = await sha256(bytes);
  if (actual === hash) return;
  throw new EdgeError('INTEGRITY',
    `${url} is not the file it should be: its SHA-256 is ${actual}, and ${hash} was asked for`);
}

async function fetchAll(url, size, progress, signal) {
  let response;
  try {
    response = await fetch(url, { signal });
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw asEdgeError(error, 'DOWNLOAD', `cannot download ${url}`);
  }
  if (!response.ok)
    throw new EdgeError('DOWNLOAD',
      `cannot download ${url}: the server answered ${response.status} ${response.statusText}`.trim());
  // What is compressed on the way is longer in the end than its header says.
  const packed = response.headers.get('content-encoding');
  const total = size ?? (packed ? undefined : Number(response.headers.get('content-length')) || undefined);
  const pieces = [];
  let loaded = 0;
  progress?.({ loaded, total, source: 'network' });
  try {
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces.push(value);
      loaded += value.length;
      progress?.({ loaded, total, source: 'network' });
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw asEdgeError(error, 'DOWNLOAD', `the download of ${url} broke off after ${loaded} bytes`);
  }
  const bytes = new Uint8Array(loaded);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** None in node, in pages that came by plain HTTP, and where the user forbids it. */
async function openCache() {
  try {
    return await globalThis.caches?.open(CACHE);
  } catch {
    return undefined;
  }
}

/** Put it in, and what was there by the same URL out. A full disk is no failure. */
async function keep(kept, url, key, bytes) {
  try {
    const path = (address) => address.replace(/[?&]edgec-sha256=.*$/, '');
    for (const request of await kept.keys())
      if (path(request.url) === path(key) && request.url !== key) await kept.delete(request);
    await kept.put(key, new Response(bytes, { headers: { 'content-type': 'application/octet-stream' } }));
  } catch {
    // It will be downloaded again.
  }
}
