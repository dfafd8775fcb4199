// Whether a module, and the weights beside it, are as the owner of a key signed them: the format is in
// edgert's SPEC.md.
import { EdgeError } from './errors.js';

const [LEAF, STATEMENT, KEY_NAME, SIGNATURE] = [32, 192, 8, 64];
const MAGIC = 'edgeseal';
const SIZE = STATEMENT + KEY_NAME + SIGNATURE + MAGIC.length;

const refuse = (what) => { throw new EdgeError('UNTRUSTED', `not trusted: ${what}`); };
const bytesOf = (text) => new TextEncoder().encode(text);
const isSame = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

/** What every hash begins with, so that none serves for another use. */
function prefix(use) {
  const out = new Uint8Array(32);
  out.set(bytesOf(`edgec seal 1 ${use}`));
  return out;
}

const sha512 = async (bytes) => new Uint8Array(await crypto.subtle.digest('SHA-512', bytes));

function hashFor(use, bytes) {
  const whole = new Uint8Array(32 + bytes.length);
  whole.set(prefix(use));
  whole.set(bytes, 32);
  return sha512(whole);
}

/** Fails with `UNTRUSTED`; `weights` is undefined where the module has its weights inside. */
export async function checkSeal(bytes, weights, key) {
  if (!globalThis.crypto?.subtle)
    throw new EdgeError('UNSUPPORTED', 'signatures need Web Crypto: serve the page by HTTPS');
  const raw = ArrayBuffer.isView(key)
    ? new Uint8Array(key.buffer, key.byteOffset, key.byteLength) : new Uint8Array(key);
  if (raw.length !== 32) throw new EdgeError('INVALID_ARGUMENT', 'a public key has 32 bytes');
  const at = bytes.length - SIZE;
  if (at < 0 || !isSame(bytes.subarray(-MAGIC.length), bytesOf(MAGIC)))
    refuse('it is not signed, or its end is missing');
  const statement = bytes.subarray(at, at + STATEMENT);
  const name = bytes.subarray(at + STATEMENT, at + STATEMENT + KEY_NAME);
  const signature = bytes.subarray(at + STATEMENT + KEY_NAME, at + STATEMENT + KEY_NAME + SIGNATURE);
  if (!isSame(name, (await sha512(raw)).subarray(0, KEY_NAME))) refuse('another key signed it');
  if (!await isSigned(raw, signature, statement)) refuse('its seal has changed since it was signed');
  if (!isSame(statement.subarray(0, 32), prefix('module'))) refuse('the signature is for something else');

  const view = new DataView(statement.buffer, statement.byteOffset, STATEMENT);
  const [size, weightsSize] = [32, 40].map((place) => Number(view.getBigUint64(place, true)));
  if (!(size <= at)) refuse('it is cut short');
  if (!isSame(await sha512(bytes.subarray(0, size)), statement.subarray(64, 128)))
    refuse('it has changed since it was signed');
  if ((weights?.length ?? 0) !== weightsSize) refuse('the weights are not those that were signed with it');
  const page = 2 ** view.getUint32(48, true);
  const leaves = bytes.subarray(size, at);
  const count = weightsSize ? Math.ceil(weightsSize / page) : 0;
  if (leaves.length !== LEAF * count) refuse('its seal is cut short');
  if (!count) return;
  if (!isSame(await hashFor('pages', leaves), statement.subarray(128)))
    refuse('the hashes of its weights have changed since it was signed');
  for (let i = 0; i < count; ++i) {
    const hash = await hashFor('page', weights.subarray(i * page, (i + 1) * page));
    if (!isSame(hash.subarray(0, LEAF), leaves.subarray(i * LEAF, (i + 1) * LEAF)))
      refuse('its weights have changed since they were signed');
  }
}

async function isSigned(key, signature, statement) {
  let owner;
  try {
    owner = await crypto.subtle.importKey('raw', key, { name: 'Ed25519' }, false, ['verify']);
  } catch (error) {
    throw new EdgeError('UNSUPPORTED', `this engine checks no Ed25519 signatures: ${error.message}`);
  }
  return crypto.subtle.verify({ name: 'Ed25519' }, owner, signature, statement);
}
