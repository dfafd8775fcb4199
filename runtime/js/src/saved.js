// What a language model has read, to bytes and back. C, Java and Python write the same: edgert_text's
// source (saved.c) says how they lie.
import { EdgeError } from './errors.js';
import { typeNumber } from './tensors.js';

const MAGIC = 'edgesav1';
const IDENTITY = 32; // letters of which model it is
const SUMMED = 12; // the magic and the checksum, which is of all behind it
const CACHE_RANK = 4; // text, head, token, element

/**
 * The bytes of states as the module gave them, `[{ dtype, shape, data }]`, and of the tokens it has read;
 * `identity` is which model it is, as the module says.
 */
export function save(states, held, context, identity) {
  const parts = [named(identity), words([held.length, states.length, ...held])];
  for (const { dtype, shape, data } of states) {
    const axis = cutAxis(dtype, shape, context);
    const kept = axis < shape.length ? Math.min(held.length, shape[axis]) : 1;
    parts.push(words([typeNumber(dtype), shape.length, axis, kept, ...shape]));
    const all = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const [before, row, part] = measure(shape, axis, kept, all.length);
    for (let i = 0; i < before; ++i) parts.push(all.subarray(i * row, i * row + part));
  }
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, SUMMED));
  bytes.set(new TextEncoder().encode(MAGIC));
  let at = SUMMED;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  bytes.set(words([checksum(bytes.subarray(SUMMED))]), MAGIC.length);
  return bytes;
}

/** `{ held, states }` of bytes for a module whose states are `specs`; what does not fit is refused. */
export function restore(bytes, specs, context, identity) {
  const own = named(identity);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = SUMMED;
  const take = (size) => {
    if (at + size > bytes.length) damaged();
    at += size;
    return at - size;
  };
  const word = () => view.getUint32(take(4), true);
  if (bytes.length < SUMMED || new TextDecoder().decode(bytes.subarray(0, MAGIC.length)) !== MAGIC
    || view.getUint32(MAGIC.length, true) !== checksum(bytes.subarray(SUMMED))) damaged();
  const name = take(IDENTITY);
  if (own.some((each, i) => each !== bytes[name + i])) another();
  const count = word();
  if (word() !== specs.length || count > context) another();
  const tokens = take(4 * count);
  const held = Array.from({ length: count }, (_, i) => view.getInt32(tokens + 4 * i, true));
  const states = specs.map(({ dtype, shape }) => {
    const [type, rank, axis, kept] = [word(), word(), word(), word()];
    if (type !== typeNumber(dtype) >>> 0 || rank !== shape.length) another();
    for (const size of shape) if (word() !== size) another();
    if (axis > rank || kept > (axis < rank ? shape[axis] : 1)) damaged();
    const whole = new Uint8Array(shape.reduce((all, size) => all * size, (type & 0xFF) / 8));
    const [before, row, part] = measure(shape, axis, kept, whole.length);
    for (let i = 0; i < before; ++i) {
      const from = take(part);
      whole.set(bytes.subarray(from, from + part), i * row);
    }
    return { dtype, shape, data: whole };
  });
  if (at !== bytes.length) damaged();
  return { held, states };
}

/** Which model it is: keys and values mean nothing to another. */
function named(identity) {
  if (identity?.length !== IDENTITY)
    throw new EdgeError('UNSUPPORTED', 'the module does not say which model it is: compile it again');
  return new TextEncoder().encode(identity);
}

/** Of a state's axes the one that is as long as the text; the rank where none is. */
function cutAxis(dtype, shape, context) {
  if (shape.length === CACHE_RANK) return 2;
  return shape.length === 1 && dtype === 'i32' && shape[0] >= context ? 0 : shape.length;
}

/** How many rows the axes before the cut one make; bytes of a row, and of what is kept of it. */
function measure(shape, axis, kept, size) {
  const before = shape.slice(0, axis).reduce((all, each) => all * each, 1);
  const row = before ? size / before : 0;
  return [before, row, axis < shape.length && shape[axis] ? row / shape[axis] * kept : row * kept];
}

function words(numbers) {
  const bytes = new Uint8Array(4 * numbers.length);
  const view = new DataView(bytes.buffer);
  numbers.forEach((number, i) => view.setUint32(4 * i, number >>> 0, true));
  return bytes;
}

/** CRC-32. */
function checksum(bytes) {
  const table = Uint32Array.from({ length: 256 }, (_, value) => {
    let bits = value;
    for (let i = 0; i < 8; ++i) bits = bits & 1 ? bits >>> 1 ^ 0xEDB88320 : bits >>> 1;
    return bits;
  });
  let sum = ~0;
  for (const byte of bytes) sum = sum >>> 8 ^ table[(sum ^ byte) & 0xFF];
  return ~sum >>> 0;
}

function damaged() {
  throw new EdgeError('INVALID_ARGUMENT', 'the bytes are no saved text, or damaged');
}

function another() {
  throw new EdgeError('INVALID_ARGUMENT', 'the text was saved by another model, or with other weights: read it again');
}
