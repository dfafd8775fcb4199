// The two places this runs in, a browser and node: files and workers.

export const inNode = typeof process === 'object' && !!process.versions?.node;

/** A module of node's own, in a way that bundlers for browsers leave alone. */
export const node = (name) => import(/* @vite-ignore */ /* webpackIgnore: true */ `node:${name}`);

/** What the caller named, in a form that a worker understands too: a URL, or in node a path. */
export function resolve(source, base) {
  const text = String(source);
  if (/^[a-z][a-z0-9+.-]+:/i.test(text)) return text;
  if (base) return new URL(text, base).href;
  if (inNode) return text;
  return new URL(text, globalThis.document?.baseURI ?? globalThis.location.href).href;
}

/** Whether node reads it from the disk. */
export const isFile = (url) => inNode && (url.startsWith('file:') || !/^[a-z][a-z0-9+.-]+:/i.test(url));

export async function readFile(url) {
  const { readFile: read } = await node('fs/promises');
  return new Uint8Array(await read(url.startsWith('file:') ? new URL(url) : url));
}
