// SHA-256: the browser's own where there is one. Pages that came by plain HTTP have none.

const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const primes = [];
for (let n = 2; primes.length < 64; ++n) if (primes.every((prime) => n % prime)) primes.push(n);
const ROUNDS = primes.map((prime) => fraction(Math.cbrt(prime)));
const START = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

/** The hash of bytes, in hexadecimal. */
export async function sha256(bytes) {
  const subtle = globalThis.crypto?.subtle;
  return hex(subtle ? new Uint8Array(await subtle.digest('SHA-256', bytes)) : plain(bytes));
}

/** The same by arithmetic alone (FIPS 180-4). */
export function plain(bytes) {
  const state = Int32Array.from(START);
  const words = new Int32Array(64);
  const whole = bytes.length & ~63;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < whole; at += 64) round(state, words, view, at);
  const rest = bytes.length - whole;
  const last = new Uint8Array(rest < 56 ? 64 : 128);
  last.set(bytes.subarray(whole));
  last[rest] = 0x80;
  const end = new DataView(last.buffer);
  end.setUint32(last.length - 8, Math.floor(bytes.length / 2 ** 29));
  end.setUint32(last.length - 4, bytes.length << 3);
  for (let at = 0; at < last.length; at += 64) round(state, words, end, at);
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => out.setInt32(4 * i, word));
  return new Uint8Array(out.buffer);
}

const turn = (x, n) => (x >>> n) | (x << (32 - n));

function round(state, words, view, at) {
  for (let i = 0; i < 16; ++i) words[i] = view.getInt32(at + 4 * i);
  for (let i = 16; i < 64; ++i) {
    const x = words[i - 15];
    const y = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3))
      + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; ++i) {
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g))
      + ROUNDS[i] + words[i]) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] += word; });
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** `sha256-BASE64`, as pages write it, or plain hexadecimal, to hexadecimal; undefined: neither. */
export function parseIntegrity(text) {
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase();
  const found = /^sha256-([A-Za-z0-9+/]{43}=)$/.exec(text);
  return found ? hex(Uint8Array.from(atob(found[1]), (char) => char.charCodeAt(0))) : undefined;
}
