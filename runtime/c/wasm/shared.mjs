// A module that imports a memory of its own, as one that imports a memory shared by threads.
//
// Kernels are compiled once, for both; WebAssembly lets a module import a shared memory only if it
// says so, in one byte of its import section. Plain loads and stores mean the same either way.

const IMPORTS = 2;
const MEMORY = 2;
const SHARED = 3; // with a largest size

/** Pages that a shared memory has at most: one less than all that 32 bits reach. */
export const MOST_PAGES = 65535;

/** The bytes of a module whose memory is imported, with that memory shared. */
export function withSharedMemory(bytes) {
  for (let at = 8; at < bytes.length;) {
    const kind = bytes[at];
    const [size, begin] = number(bytes, at + 1);
    if (kind === IMPORTS) {
      const imports = shareMemory(bytes.subarray(begin, begin + size));
      return joined([
        bytes.subarray(0, at + 1), encoded(imports.length), imports, bytes.subarray(begin + size),
      ]);
    }
    at = begin + size;
  }
  return bytes;
}

/** The same for the contents of an import section. */
function shareMemory(bytes) {
  let [count, at] = number(bytes, 0);
  for (; count > 0; --count) {
    at = pastName(bytes, pastName(bytes, at));
    const kind = bytes[at++];
    if (kind !== MEMORY) {
      at = pastImport(bytes, at, kind);
      continue;
    }
    const [least] = number(bytes, at + 1);
    return joined([
      bytes.subarray(0, at), [SHARED], encoded(least), encoded(MOST_PAGES),
      bytes.subarray(pastLimits(bytes, at)),
    ]);
  }
  return bytes;
}

const pastName = (bytes, at) => {
  const [length, begin] = number(bytes, at);
  return begin + length;
};

function pastLimits(bytes, at) {
  const [, past] = number(bytes, at + 1);
  return bytes[at] & 1 ? number(bytes, past)[1] : past;
}

/** Behind the description of a function, table, global or tag. */
function pastImport(bytes, at, kind) {
  if (kind === 0) return number(bytes, at)[1];
  if (kind === 1) return pastLimits(bytes, at + 1);
  if (kind === 3) return at + 2;
  return number(bytes, at + 1)[1];
}

/** A number and where it ends. */
function number(bytes, at) {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++];
    value |= (byte & 127) << shift;
    if (byte < 128 || byte === undefined) return [value >>> 0, at];
  }
}

function encoded(value) {
  const bytes = [];
  for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
  return [...bytes, value];
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
